"""Joins of small relations are broadcast where keys prove that they stay small, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinOptions, JoinTree
from pushdown_spark.joins.block import blocks
from pushdown_spark.joins.cardinality import ColumnFigures, Equality, Estimate, Member, RelationFigures
from pushdown_spark.joins.graph import extract
from pushdown_spark.joins.hints import with_hints
from pushdown_spark.joins.leaving import Leaving
from pushdown_spark.joins.outputs import OutputNames
from pushdown_spark.joins.text import parsed
from pushdown_spark.session import PushdownSession

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
ALWAYS = JoinOptions(min_bytes=0)
QUERY = """
    SELECT s.amount, shop.name, city.name AS city FROM sales s JOIN shop ON s.shop = shop.id
    JOIN city ON shop.city = city.id JOIN country c ON city.country = c.id WHERE c.name = 'country 1'
"""


def relation(
    name: str, rows: float, *keys: str, columns: tuple[str, ...] = (), counted: bool = True
) -> RelationFigures:
    """Ten bytes a row; `keys` are unique, `columns` are not."""
    known = {(name, key): ColumnFigures(rows, unique=True) for key in keys}
    known |= {(name, column): ColumnFigures(rows / 10) for column in columns}
    return RelationFigures(rows, rows, known, at_most=rows * 10, row_bytes=10 if counted else None)


def equal(left: int, left_key: str, right: int, right_key: str) -> Equality:
    names = "abc"
    return Equality(left, (names[left], left_key), right, (names[right], right_key))


def test_keys_bound_what_comes_out_of_joins() -> None:
    relations = [relation("a", 1000, columns=("b",)), relation("b", 50, "id", columns=("c",)), relation("c", 5, "id")]
    estimate = Estimate(relations, [equal(0, "b", 1, "id"), equal(1, "c", 2, "id")])
    assert estimate.at_most(0b001) == 16_000, "no row has less"
    assert estimate.at_most(0b011) == 1000 * 20
    assert estimate.at_most(0b110) == 50 * 20
    assert estimate.at_most(0b111) == 1000 * 30
    assert estimate.at_most(0b101) == 1000 * 5 * 20


def test_without_a_key_rows_multiply_and_without_a_count_nothing_is_bounded() -> None:
    many = [relation("a", 1000, columns=("b",)), relation("b", 50, columns=("id",))]
    assert Estimate(many, [equal(0, "b", 1, "id")]).at_most(0b11) == 1000 * 50 * 20
    guessed = [relation("a", 1000, columns=("b",), counted=False), relation("b", 50, "id")]
    assert Estimate(guessed, [equal(0, "b", 1, "id")]).at_most(0b11) is None


def test_a_key_on_either_side_bounds() -> None:
    relations = [relation("a", 1000, "id", columns=("b",)), relation("b", 50, columns=("a",))]
    assert Estimate(relations, [equal(0, "id", 1, "a")]).at_most(0b11) == 50 * 20


def test_only_what_leaves_a_join_counts() -> None:
    relations = [relation("a", 1000, "id", columns=("b",)), relation("b", 50, "id", columns=("c",))]
    relations = [replace(each, row_bytes=100, widths={"id": 16, "b": 20, "c": 30}) for each in relations]
    leaving = {(0b01, 0): ("id", "b"), (0b11, 0): ("id",), (0b11, 1): ("c", "unmeasured")}
    estimate = Estimate(relations, [equal(0, "b", 1, "id")], leaving=lambda *place: leaving.get(place))
    assert estimate.at_most(0b01) == 1000 * 36
    assert estimate.at_most(0b10) == 50 * 100
    assert estimate.at_most(0b11) == 1000 * (16 + 100)


LEAVING = """SELECT s.amount, count(*) FROM sales s JOIN shop ON s.shop = shop.id JOIN city c ON shop.city = c.id
    WHERE shop.name LIKE 'x%' AND c.country > s.amount GROUP BY s.amount, {more}"""


@pytest.mark.parametrize(
    ("more", "of_sales", "of_shop"),
    [
        ("c.name ORDER BY nothing_of_theirs", {"amount"}, {"city"}),
        ("shop.name", {"amount"}, {"city", "name"}),
        (
            "(SELECT max(id) FROM shop i WHERE i.name = c.name)",
            {"amount"},
            {"city", "id", "name"},
        ),
        ("c.name HAVING first(*)", None, None),
    ],
)
def test_columns_that_leave_a_join(more: str, of_sales: set[str] | None, of_shop: set[str] | None) -> None:
    columns = {"sales": "shop amount", "shop": "id city name", "city": "id name country"}
    names = OutputNames({name: frozenset(listed.split()) for name, listed in columns.items()})
    block = next(blocks(parsed(LEAVING.format(more=more)), names.of))
    chain = extract(block.plan)
    assert chain is not None
    leaving = Leaving(block, chain, ())
    assert leaving.columns(0b011, 0) == of_sales
    assert leaving.columns(0b011, 1) == of_shop
    if of_shop is not None:
        assert leaving.columns(0b010, 1) == of_shop | {"id"}
        assert leaving.columns(0b111, 1) == of_shop - {"city"}


def test_equal_columns_leave_as_long_as_one_of_them_may_be_joined_by() -> None:
    block = next(
        blocks(parsed("SELECT 1 FROM a JOIN b ON a.x = b.x JOIN c ON b.x = c.x"), lambda table: frozenset("x"))
    )
    chain = extract(block.plan)
    assert chain is not None
    group = tuple(Member(number, (name, "x")) for number, name in enumerate("abc"))
    assert Leaving(block, chain, ()).columns(0b011, 0) == set()
    assert Leaving(block, chain, [group]).columns(0b011, 0) == {"x"}
    assert Leaving(block, chain, [group]).columns(0b111, 0) == set()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sales of shops in cities in countries, each a Parquet file; `twin` is like `shop`, but no key is one."""
    home = tmp_path_factory.mktemp("tables")
    shops = {"id": list(range(200)), "city": [n % 20 for n in range(200)], "name": [f"shop {n}" for n in range(200)]}
    made = {
        "sales": {"shop": [n % 210 for n in range(30_000)], "amount": list(range(30_000))},
        "shop": shops,
        "twin": {**shops, "id": [n // 2 for n in range(200)]},
        "city": {
            "id": list(range(20)),
            "country": [n % 4 for n in range(20)],
            "name": [f"city {n}" for n in range(20)],
        },
        "country": {"id": list(range(4)), "name": [f"country {n}" for n in range(4)]},
    }
    for name, columns in made.items():
        pq.write_table(pa.table(columns), home / f"{name}.parquet")
    return home


@pytest.fixture
def session(spark: SparkSession, tables: Path) -> Iterator[PushdownSession]:
    """A session over the tables in which Spark broadcasts nothing by itself."""
    made = PushdownSession(spark)
    for file in tables.glob("*.parquet"):
        made.add_source(file.stem, path=str(file), format="parquet", reader="spark")
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "1b")
    yield made
    spark.conf.set(THRESHOLD, before or "10MB")


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def hinted_joins(tree: JoinTree) -> list[set[str]]:
    """The relations of each join that is hinted."""
    return [
        {leaf.relation for leaf in node.nodes() if leaf.relation is not None}
        for node in tree.nodes()
        if node.relation is None and node.hint == "BROADCAST"
    ]


def shuffled(frame: DataFrame) -> bool:
    return "SortMergeJoin" in frame._jdf.queryExecution().executedPlan().toString()


def test_joined_dimensions_are_broadcast(session: PushdownSession, spark: SparkSession) -> None:
    result = session.sql(QUERY, ALWAYS)
    (report,) = result.joins()
    assert {"shop", "city", "c"} in hinted_joins(report.after)
    assert not shuffled(result.df)
    assert shuffled(spark.sql(QUERY))
    assert result.run(rows) == rows(spark.sql(QUERY))
    assert "JOIN [BROADCAST]" in result.explain()


def test_nothing_waits_for_joins_to_be_sent_where_spark_sends_the_other_side(
    session: PushdownSession, spark: SparkSession
) -> None:
    spark.conf.set(THRESHOLD, "10MB")
    result = session.sql(QUERY, ALWAYS)
    (report,) = result.joins()
    assert hinted_joins(report.after) == [], "Spark broadcasts every relation, and these wait for nothing"
    assert not shuffled(result.df)
    assert result.run(rows) == rows(spark.sql(QUERY))


def test_hints_are_there_also_where_the_frame_is_made_anew(session: PushdownSession, tables: Path) -> None:
    session.add_source("sales", path=str(tables / "sales.parquet"), format="parquet", reader="spark")
    result = session.sql(QUERY.replace("c.name =", "s.amount < 20000 AND c.name ="), ALWAYS)
    assert result.run(DataFrame.count)
    assert not shuffled(result.df)


def test_rows_stay_where_keys_repeat(session: PushdownSession, spark: SparkSession) -> None:
    query = QUERY.replace("JOIN shop ON", "JOIN twin AS shop ON")
    assert session.sql(query, ALWAYS).run(rows) == rows(spark.sql(query))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) AS n, max(city) AS m FROM ({QUERY}) GROUP BY name",
        f"WITH found AS ({QUERY}) SELECT * FROM found UNION ALL SELECT * FROM found WHERE amount < 100",
        f"SELECT * FROM country WHERE id IN (SELECT id FROM city) AND EXISTS (SELECT 1 FROM ({QUERY}))",
        f"SELECT a.amount FROM ({QUERY}) a LEFT JOIN country b ON a.amount = b.id",
    ],
)
def test_queries_around_joins_keep_their_rows(query: str, session: PushdownSession, spark: SparkSession) -> None:
    assert session.sql(query, ALWAYS).run(rows) == rows(spark.sql(query))


INSIDE = QUERY.replace("s.amount, shop.name, city.name AS city", "{columns}") + "{more}"


@pytest.mark.parametrize(
    ("query", "hinted"),
    [
        (f"SELECT * FROM country WHERE id IN ({INSIDE.format(columns='s.amount', more='')})", True),
        (
            "SELECT * FROM country AS o WHERE o.id > 1 AND NOT EXISTS "
            f"({INSIDE.format(columns='1', more=' AND s.amount = o.id')}) OR o.id IN (SELECT 5)",
            True,
        ),
        (
            "SELECT name FROM country GROUP BY name HAVING max(id) < "
            f"({INSIDE.format(columns='max(s.amount)', more='')})",
            True,
        ),
        (f"SELECT *, ({INSIDE.format(columns='max(s.amount)', more='')}) AS most FROM country", False),
    ],
)  # fmt: skip
def test_joins_inside_sub_queries_are_hinted_where_these_are_filters(
    query: str, hinted: bool, session: PushdownSession, spark: SparkSession
) -> None:
    result = session.sql(query, ALWAYS)
    assert [bool(hinted_joins(join.after)) for join in result.joins()] == [hinted]
    analysed = result.df._jdf.queryExecution().analyzed().treeString()
    assert ("strategy=broadcast" in analysed.split("Join Inner", 1)[1].splitlines()[0]) is hinted
    assert result.run(rows) == rows(spark.sql(query))


def test_spark_broadcasts_nothing_where_it_is_told_so(session: PushdownSession, spark: SparkSession) -> None:
    spark.conf.set(THRESHOLD, "-1")
    result = session.sql(QUERY, ALWAYS)
    assert not hinted_joins(result.joins()[0].after)
    assert result.run(rows) == rows(spark.sql(QUERY))


def test_a_hint_that_is_there_stays(spark: SparkSession, tables: Path) -> None:
    for name in ("shop", "city", "country"):
        spark.read.parquet(str(tables / f"{name}.parquet")).createOrReplaceTempView(name)
    frame = spark.sql("SELECT /*+ SHUFFLE_HASH(city) */ * FROM shop JOIN city ON shop.city = city.id")
    told: Callable[[DataFrame], str] = lambda each: each._jdf.queryExecution().analyzed().toString()  # noqa: E731
    assert "strategy=shuffle_hash" in told(with_hints(frame, frozenset({frozenset({"city"})})))
    assert "strategy=broadcast" in told(with_hints(frame, frozenset({frozenset({"shop"})})))
    assert with_hints(frame, frozenset()) is frame
    assert told(with_hints(frame, frozenset({frozenset({"elsewhere"})}))) == told(frame)


def test_a_side_that_reads_more_than_a_set_is_not_hinted(spark: SparkSession, tables: Path) -> None:
    for name in ("shop", "twin", "city", "country"):
        spark.read.parquet(str(tables / f"{name}.parquet")).createOrReplaceTempView(name)
    frame = spark.sql(
        "SELECT count(*) FROM shop JOIN city ON shop.city = city.id JOIN twin ON twin.id = shop.id "
        "JOIN country ON city.country = country.id WHERE shop.id IN (SELECT id FROM city)"
    )
    plan = with_hints(frame, frozenset({frozenset({"shop", "city"})}))._jdf.queryExecution().analyzed()
    (join,) = [line for line in str(plan.treeString()).splitlines() if "strategy=broadcast" in line]
    assert "leftHint=(strategy=broadcast)" in join
    assert "Inner, (id#" in join, "the join with twin"
