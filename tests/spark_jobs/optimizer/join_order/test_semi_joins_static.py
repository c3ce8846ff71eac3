"""Keys of small, completely sampled files become predicates on the relations joined with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions
from pushdown_spark.optimizer.join_order.equalities import JoinColumn
from pushdown_spark.optimizer.join_order.static_semi_joins import KeyPredicate, reduce_statically
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, KeyValues, RelationStatistics
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import pushdown_error
from pushdown_spark.session import PushdownSession

ROWS, IDS = 120_000, 1_000
ALWAYS, NEVER = JoinOptions(min_bytes=0), JoinOptions(reorder=False)
GROUP = (JoinColumn(0, ("f", "k")), JoinColumn(1, ("d", "id")))

Plan = Callable[..., PushdownResult]


def dimension(count: int = IDS) -> pa.Table:
    """Return things with ids: every tenth is red, and a hundred share a shelf."""
    ids = np.arange(count, dtype=np.int32)
    days = [date(2000, 1, 1) + timedelta(days=int(number)) for number in ids]
    return pa.table(
        {
            "id": pa.array([int(number) if number % 97 else None for number in ids], pa.int32()),
            "colour": ["red" if number % 10 == 3 else "blue" for number in ids],
            "shelf": pa.array(ids // 100, pa.int16()),
            "day": pa.array(days, pa.date32()),
            "moment": pa.array([datetime(2000, 1, 1) + timedelta(hours=int(number)) for number in ids]),
            "twice": pa.array(ids // 2, pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("keys")
    numbers = np.arange(ROWS)
    keys = pa.array((numbers * 7 % (IDS + 50)).astype(np.int32), mask=numbers % 11 == 0)
    facts = {"k": keys, "wide": keys.cast(pa.int64()), "v": pa.array(numbers), "colour": ["red", "green"] * (ROWS // 2)}
    pq.write_table(pa.table(facts), root / "facts.parquet", row_group_size=20_000)
    pq.write_table(dimension(), root / "things.parquet")
    orc.write_table(dimension().drop_columns(["moment"]), root / "things.orc")
    dimension().to_pandas().to_json(root / "things.json", orient="records", lines=True, date_format="iso")
    old = dimension(100).set_column(3, "day", pa.array([date(1500, 1, 1)] * 100, pa.date32()))
    pq.write_table(old, root / "old.parquet")
    shelves = {"shelf": pa.array(range(10), pa.int16()), "floor": pa.array([number // 3 for number in range(10)])}
    pq.write_table(pa.table(shelves), root / "shelves.parquet")
    (root / "parts").mkdir()
    pq.write_table(dimension(500), root / "parts" / "a.parquet")
    pq.write_table(dimension().slice(500).drop_columns(["colour"]), root / "parts" / "b.parquet")
    return root


@pytest.fixture
def plan(spark: SparkSession, tables: Path) -> Plan:
    def plan_query(query: str, joins: JoinOptions = ALWAYS, things: str = "things.parquet") -> PushdownResult:
        session = PushdownSession(spark)
        for name in ("facts", "shelves"):
            session.add_source(name, path=str(tables / f"{name}.parquet"), format="parquet")
        kind = Path(things).suffix[1:] or "parquet"
        schema = "id int, colour string, shelf smallint, day date" if kind == "json" else None
        session.add_source("things", path=str(tables / things), format=kind, schema=schema)
        return session.sql(query, joins)

    return plan_query


def notes_of(result: PushdownResult) -> str:
    return "; ".join(join.reason for join in result.joins())


JOIN = "SELECT f.v, d.shelf FROM facts f JOIN things d ON f.k = d.id WHERE {}"
TWICE = """SELECT count(*) FROM facts f, facts g, things d
    WHERE f.k = g.k AND g.k = d.id AND d.shelf = 4 AND g.v < 2000"""
FLOOR = "SELECT f.v FROM facts f, things d, shelves s WHERE f.k = d.id AND d.shelf = s.shelf AND s.floor = 1"
BESIDE = """SELECT f.v, o.shelf FROM facts f LEFT JOIN things o ON o.id = f.v AND f.v < 9, things d
    WHERE f.k = d.id AND d.shelf = 4"""


@pytest.mark.parametrize("things", ["things.parquet", "things.orc"])
@pytest.mark.parametrize(
    ("query", "keys", "scanned"),
    [
        pytest.param(JOIN.format("d.colour = 'red'"), 99, "10,182", id="a list"),
        pytest.param(JOIN.format("d.shelf = 4"), 99, "10,182", id="a range"),
        pytest.param(JOIN.format("d.day BETWEEN DATE '2000-02-01' AND DATE '2000-03-01'"), 30, "2,909", id="days"),
        pytest.param(JOIN.format("d.colour = 'red' AND length(d.colour) < 9"), 99, "10,182", id="in part"),
        pytest.param(TWICE, 99, "10,182", id="all equal columns"),
        pytest.param(FLOOR, 297, "31,273", id="by way of others"),
        pytest.param(f"SELECT count(*) FROM ({JOIN.format('d.shelf = 4')}) AS x", 99, "10,182", id="in a sub-query"),
    ],
)
def test_keys_become_predicates_on_joined_relations(
    query: str, keys: int, scanned: str, things: str, plan: Plan
) -> None:
    result = plan(query, things=things)
    assert f"{keys} of 989 values of id in d became a condition" in notes_of(result)
    assert result.run(sorted_rows) == sorted_rows(plan(query, NEVER).df)
    counts = [node.actual for join in result.joins() for node in join.after.nodes() if node.relation == "f"]
    assert f"{counts[0]:,}" == scanned, "of 120,000"
    assert scanned in result.explain()


@pytest.mark.parametrize(
    ("query", "things"),
    [
        pytest.param(JOIN.format("d.id IS NOT NULL"), "things.parquet", id="all keys are left"),
        pytest.param(JOIN.format("d.shelf < 6"), "things.parquet", id="most keys are left"),
        pytest.param(JOIN.format("d.moment < TIMESTAMP '2000-01-02 00:00:00'"), "things.parquet", id="zones decide"),
        pytest.param(JOIN.format("d.day < DATE '1600-01-01' AND d.shelf = 0"), "old.parquet", id="calendars decide"),
        pytest.param(JOIN.format("d.shelf = 4"), "things.json", id="JSON files were not sampled completely"),
        pytest.param(JOIN.format("length(d.colour) = 3"), "things.parquet", id="only Spark knows"),
        pytest.param(JOIN.replace("f.k", "f.wide").format("d.shelf = 4"), "things.parquet", id="another type"),
        pytest.param(JOIN.replace("d.id", "d.twice").format("d.shelf = 4"), "things.parquet", id="no key"),
        pytest.param(JOIN.replace(" JOIN", " LEFT JOIN").format("f.v < 500"), "things.parquet", id="an outer join"),
        pytest.param(
            "SELECT f.v FROM facts f LEFT JOIN things d ON f.k = d.id AND d.shelf = 4 WHERE f.v < 500",
            "things.parquet",
            id="a condition of an outer join",
        ),
        pytest.param("SELECT f.v FROM facts f LEFT ANTI JOIN things d ON f.k = d.id AND d.shelf = 4", "things.parquet"),
    ],
)
def test_uncertain_or_unselective_keys_yield_no_predicates(query: str, things: str, plan: Plan) -> None:
    result = plan(query, things=things)
    assert "became a condition" not in notes_of(result)
    assert result.run(sorted_rows) == sorted_rows(plan(query, NEVER, things).df)


@pytest.mark.parametrize(
    ("query", "things"),
    [
        pytest.param(BESIDE, "things.parquet", id="next to an outer join"),
        pytest.param(JOIN.format("d.colour = 'red'"), "parts", id="a file lacks the column"),
    ],
)
def test_keys_are_used_next_to_outer_joins_and_missing_columns(query: str, things: str, plan: Plan) -> None:
    result = plan(query, things=things)
    assert "values of id in d became a condition" in notes_of(result)
    assert result.run(sorted_rows) == sorted_rows(plan(query, NEVER, things).df)


RED = "FROM facts f JOIN things d ON f.k = d.id WHERE d.colour = 'red'"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT s.floor, x.v FROM shelves s, LATERAL (SELECT f.v {RED} AND d.shelf = s.shelf) AS x",
        f"SELECT s.floor FROM shelves s ORDER BY (SELECT max(f.v) {RED}), 1",
        f"SELECT max(s.floor + (SELECT max(f.v) {RED})) AS m FROM shelves s",
    ],
)
def test_subqueries_have_no_keys_where_spark_rejects_their_guard(query: str, plan: Plan) -> None:
    result = plan(query)
    assert "became a condition" not in notes_of(result)
    assert result.run(sorted_rows) == sorted_rows(plan(query, NEVER).df)


CONDITIONS = (
    *("{0}.colour = 'red'", "{0}.shelf IN (2, 7)", "{0}.id < 300", "{0}.day >= DATE '2001-06-01'", "{0}.id IS NULL"),
    *(
        "{0}.twice % 2 = 1",
        "({0}.colour = 'red' OR {0}.shelf = 1)",
        "NOT {0}.shelf = 3",
        "{0}.id % 3 = 1 AND {0}.shelf > 4",
    ),
)
KINDS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def random_query(random: Random) -> str:
    """Return a random query over facts and two references to things, with conditions in ON and WHERE."""

    def on(left: str, name: str) -> str:
        own = [f"{left} = {name}.id", *(random.choice(CONDITIONS).format(name) for _ in range(random.randint(0, 1)))]
        return f"things {name} ON {' AND '.join(own)}"

    one, two = random.choice(KINDS), random.choice(KINDS)
    is_hidden = "SEMI" in one or "ANTI" in one
    visible = ["f"] + ["d"] * (not is_hidden) + ["e"] * ("SEMI" not in two and "ANTI" not in two)
    where = [random.choice(CONDITIONS).format(name) for name in visible[1:] if random.random() < 0.7]
    where += ["f.v < 90000"] * random.randint(0, 1)
    joins = f"facts f {one} {on('f.k', 'd')} {two} {on('f.k' if is_hidden else random.choice(['f.k', 'd.twice']), 'e')}"
    sums = ", ".join(f"count({name}.id), sum({name}.shelf)" for name in visible[1:])
    return (
        f"SELECT count(*), sum(f.v){', ' + sums if sums else ''} FROM {joins}"
        f"{' WHERE ' + ' AND '.join(where) if where else ''}"
    )


def check_random(plan: Plan, seed: int, count: int) -> None:
    """Compare random queries with the unoptimized ones. At least a tenth of them must have key predicates."""
    random, listed = Random(seed), 0
    for _ in range(count):
        query = random_query(random)
        result = plan(query)
        listed += "became a condition" in notes_of(result)
        assert result.run(sorted_rows) == sorted_rows(plan(query, NEVER).df), query
    assert listed >= count // 10


@pytest.mark.parametrize(
    ("seed", "queries"), [(2, 4), *(pytest.param(seed, 60, marks=pytest.mark.nightly) for seed in range(10, 16))]
)
def test_key_predicates_do_not_change_results(plan: Plan, seed: int, queries: int) -> None:
    check_random(plan, seed, queries)


def test_changed_files_are_sampled_again(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    place = tmp_path / "things.parquet"
    pq.write_table(dimension(), place)
    session = PushdownSession(spark)
    session.add_source("facts", path=str(tables / "facts.parquet"), format="parquet")
    session.add_source("things", path=str(place), format="parquet")
    query = "SELECT count(*) FROM facts f, things d WHERE f.k = d.id AND d.shelf = 4"
    assert session.sql(query, ALWAYS).run(sorted_rows) == ["Row(count(1)=10182)"]
    pq.write_table(dimension().set_column(2, "shelf", pa.array([4, 5] * 500, pa.int16())), place)
    again = session.sql(query, ALWAYS)
    assert again.run(sorted_rows) == sorted_rows(session.sql(query, NEVER).df)


def test_a_planned_query_fails_if_files_get_other_keys(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    contents = {
        "shelves": pq.read_table(tables / "shelves.parquet"),
        "things": pq.read_table(tables / "things.parquet"),
    }
    session = PushdownSession(spark)
    session.add_source("facts", path=str(tables / "facts.parquet"), format="parquet")
    for name, content in contents.items():
        pq.write_table(content, tmp_path / f"{name}.parquet")
        session.add_source(name, path=str(tmp_path / f"{name}.parquet"), format="parquet")
    frame = session.sql(FLOOR, ALWAYS).df
    rows = sorted_rows(frame.select("v"))
    shelf = contents["things"].column("shelf")
    others = {
        "shelves": contents["shelves"].set_column(1, "floor", pa.array([1] * 10)),
        "things": contents["things"].set_column(2, "shelf", shelf.combine_chunks().take(pa.array(range(IDS))[::-1])),
    }
    for name, content in others.items():
        pq.write_table(content, tmp_path / f"{name}.parquet")
        with pytest.raises(Exception, match="have changed since the query was planned") as failure:
            frame.count()
        assert f"the files of {name} " in str(pushdown_error(failure.value))
        pq.write_table(contents[name], tmp_path / f"{name}.parquet")
        assert sorted_rows(frame.select("v")) == rows


def figures(
    kept: list[int], every: range = range(IDS), *, certain: bool = True, rows: float = 1e6
) -> list[RelationStatistics]:
    values = KeyValues(np.arange(every.start, every.stop), np.array(kept), certain)
    things = JoinColumnStatistics(len(every), is_unique=True, values=values)
    facts = JoinColumnStatistics(IDS, bounds=(0, IDS - 1))
    return [
        RelationStatistics(rows, rows, {("f", "k"): facts}, file_bytes=1e6),
        RelationStatistics(len(every), len(kept), {("d", "id"): things}, file_bytes=1e4),
    ]


def reduce_chain(
    relations: list[RelationStatistics], *, read: bool = True
) -> tuple[list[RelationStatistics], list[KeyPredicate]]:
    left, keys = reduce_statically(relations, [GROUP], lambda _: read, lambda *_: None)
    return left, list(keys)


def test_many_keys_become_the_range_that_they_span() -> None:
    spread = sorted({*range(100, 500, 2), *range(101, 500, 3)})
    assert len(spread) < 400
    _, (listed,) = reduce_chain(figures(spread))
    assert listed.keys == tuple(spread)
    assert listed.selectivity == len(spread) / IDS
    many = [number for number in range(100, 600) if number % 50]
    _, (span,) = reduce_chain(figures(many, range(5_000)))
    assert (span.keys, span.low, span.high) == (None, 101, 599)
    assert span.selectivity == 499 / IDS, "relative to the keys that the facts have"


@pytest.mark.parametrize(
    ("relations", "stored"),
    [
        (figures(list(range(9)), certain=False), True),
        (figures(list(range(9)), rows=40_000), True),
        (figures(list(range(9))), False),
        (figures([]), True),
    ],
    ids=["not certain", "few rows", "no files", "no key"],
)
def test_unprofitable_keys_yield_no_predicates(relations: list[RelationStatistics], stored: bool) -> None:
    assert reduce_chain(relations, read=stored) == (relations, [])


def test_estimates_include_key_predicates() -> None:
    (facts, things), _ = reduce_chain(figures(list(range(200, 300))))
    assert facts.filtered_rows == pytest.approx(1e5)
    assert things.filtered_rows == 100
    assert facts.distinct(("f", "k")) == things.distinct(("d", "id")) == pytest.approx(100)


def test_savings_are_measured_before_propagation() -> None:
    facts, things = figures(list(range(200, 300)), rows=60_000)
    seen = JoinColumnStatistics(
        60_000, is_unique=True, values=KeyValues(np.arange(60_000), np.arange(60_000), is_certain=True)
    )
    facts = replace(facts, columns={**facts.columns, ("f", "id"): seen})
    filtered_facts = replace(facts, filtered_rows=6_000.0)
    left, keys = reduce_statically([facts, things], [GROUP], lambda _: True, lambda *_: filtered_facts)
    assert [each.member for each in keys] == [GROUP[1]]
    assert left[0].filtered_rows <= 6_000
