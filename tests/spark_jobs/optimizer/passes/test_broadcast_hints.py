"""Results of joins are broadcast if unique keys prove that they are small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions, JoinTree
from pushdown_spark.optimizer.join_order.equalities import Equality, JoinColumn
from pushdown_spark.optimizer.join_order.output_columns import RequiredOutputColumns
from pushdown_spark.optimizer.passes.add_broadcast_hints import add_broadcast_hints
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.logical_plan import extract_chain
from pushdown_spark.optimizer.plans.select_block import select_blocks
from pushdown_spark.optimizer.plans.sql_reader import parse_query
from pushdown_spark.optimizer.statistics.cardinality import CardinalityEstimator
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics
from pushdown_spark.session import PushdownSession

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
ALWAYS = JoinOptions(min_bytes=0)
QUERY = """
    SELECT s.amount, shop.name, city.name AS city FROM sales s JOIN shop ON s.shop = shop.id
    JOIN city ON shop.city = city.id JOIN country c ON city.country = c.id WHERE c.name = 'country 1'
"""


def relation(
    name: str, rows: float, *keys: str, columns: tuple[str, ...] = (), counted: bool = True
) -> RelationStatistics:
    """Return statistics with ten bytes per row. `keys` are unique, `columns` are not."""
    statistics = {(name, key): JoinColumnStatistics(rows, is_unique=True) for key in keys}
    statistics |= {(name, column): JoinColumnStatistics(rows / 10) for column in columns}
    return RelationStatistics(rows, rows, statistics, max_bytes=rows * 10, row_bytes=10 if counted else None)


def equal(left: int, left_key: str, right: int, right_key: str) -> Equality:
    names = "abc"
    return Equality(JoinColumn(left, (names[left], left_key)), JoinColumn(right, (names[right], right_key)))


def test_unique_keys_bound_the_size_of_joins() -> None:
    relations = [relation("a", 1000, columns=("b",)), relation("b", 50, "id", columns=("c",)), relation("c", 5, "id")]
    estimate = CardinalityEstimator(relations, [equal(0, "b", 1, "id"), equal(1, "c", 2, "id")])
    assert estimate.max_bytes(0b001) == 16_000, "a row has at least 16 bytes"
    assert estimate.max_bytes(0b011) == 1000 * 20
    assert estimate.max_bytes(0b110) == 50 * 20
    assert estimate.max_bytes(0b111) == 1000 * 30
    assert estimate.max_bytes(0b101) == 1000 * 5 * 20


def test_size_bounds_need_exact_counts() -> None:
    many = [relation("a", 1000, columns=("b",)), relation("b", 50, columns=("id",))]
    assert CardinalityEstimator(many, [equal(0, "b", 1, "id")]).max_bytes(0b11) == 1000 * 50 * 20
    guessed = [relation("a", 1000, columns=("b",), counted=False), relation("b", 50, "id")]
    assert CardinalityEstimator(guessed, [equal(0, "b", 1, "id")]).max_bytes(0b11) is None


def test_a_unique_key_on_either_side_bounds_the_size() -> None:
    relations = [relation("a", 1000, "id", columns=("b",)), relation("b", 50, columns=("a",))]
    assert CardinalityEstimator(relations, [equal(0, "id", 1, "a")]).max_bytes(0b11) == 50 * 20


def test_only_output_columns_count_for_the_size() -> None:
    relations = [relation("a", 1000, "id", columns=("b",)), relation("b", 50, "id", columns=("c",))]
    relations = [replace(each, row_bytes=100, column_bytes={"id": 16, "b": 20, "c": 30}) for each in relations]
    leaving = {(0b01, 0): ("id", "b"), (0b11, 0): ("id",), (0b11, 1): ("c", "unmeasured")}
    estimate = CardinalityEstimator(
        relations, [equal(0, "b", 1, "id")], output_columns=lambda *place: leaving.get(place)
    )
    assert estimate.max_bytes(0b01) == 1000 * 36
    assert estimate.max_bytes(0b10) == 50 * 100
    assert estimate.max_bytes(0b11) == 1000 * (16 + 100)


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
def test_a_join_passes_on_only_the_columns_that_are_needed_above_it(
    more: str, of_sales: set[str] | None, of_shop: set[str] | None
) -> None:
    columns = {"sales": "shop amount", "shop": "id city name", "city": "id name country"}
    names = ColumnNameResolver({name: frozenset(listed.split()) for name, listed in columns.items()})
    block = next(select_blocks(parse_query(LEAVING.format(more=more)), names.columns_of))
    chain = extract_chain(block.plan)
    assert chain is not None
    leaving = RequiredOutputColumns(block, chain, ())
    assert leaving.columns(0b011, 0) == of_sales
    assert leaving.columns(0b011, 1) == of_shop
    if of_shop is not None:
        assert leaving.columns(0b010, 1) == of_shop | {"id"}
        assert leaving.columns(0b111, 1) == of_shop - {"city"}


def test_equal_columns_are_required_until_their_class_is_joined() -> None:
    block = next(
        select_blocks(
            parse_query("SELECT 1 FROM a JOIN b ON a.x = b.x JOIN c ON b.x = c.x"), lambda table: frozenset("x")
        )
    )
    chain = extract_chain(block.plan)
    assert chain is not None
    group = tuple(JoinColumn(number, (name, "x")) for number, name in enumerate("abc"))
    assert RequiredOutputColumns(block, chain, ()).columns(0b011, 0) == set()
    assert RequiredOutputColumns(block, chain, [group]).columns(0b011, 0) == {"x"}
    assert RequiredOutputColumns(block, chain, [group]).columns(0b111, 0) == set()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sales of shops in cities in countries as Parquet files. `twin` is like `shop` without a unique key."""
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
    """Open a session over the tables in which Spark broadcasts nothing without a hint."""
    made = PushdownSession(spark)
    for file in tables.glob("*.parquet"):
        made.add_source(file.stem, path=str(file), format="parquet", reader="spark")
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    spark.conf.set(THRESHOLD, "1b")
    yield made
    spark.conf.unset(THRESHOLD)


def hinted_joins(tree: JoinTree) -> list[set[str]]:
    return [
        {leaf.relation for leaf in node.nodes() if leaf.relation is not None}
        for node in tree.nodes()
        if node.relation is None and node.hint == "BROADCAST"
    ]


def is_shuffled(frame: DataFrame) -> bool:
    return "SortMergeJoin" in frame._jdf.queryExecution().executedPlan().toString()


def test_joined_dimensions_are_broadcast(session: PushdownSession, spark: SparkSession) -> None:
    result = session.sql(QUERY, ALWAYS)
    (report,) = result.joins()
    assert {"shop", "city", "c"} in hinted_joins(report.after)
    assert not is_shuffled(result.df)
    assert is_shuffled(spark.sql(QUERY))
    assert result.run(sorted_rows) == sorted_rows(spark.sql(QUERY))
    assert "JOIN [BROADCAST]" in result.explain()


def test_join_results_are_not_hinted_if_spark_broadcasts_the_other_side(
    session: PushdownSession, spark: SparkSession
) -> None:
    spark.conf.set(THRESHOLD, "10MB")
    result = session.sql(QUERY, ALWAYS)
    (report,) = result.joins()
    assert hinted_joins(report.after) == [], "Spark broadcasts every relation, and these wait for nothing"
    assert not is_shuffled(result.df)
    assert result.run(sorted_rows) == sorted_rows(spark.sql(QUERY))


def test_a_replanned_dataframe_keeps_its_hints(session: PushdownSession, tables: Path) -> None:
    session.add_source("sales", path=str(tables / "sales.parquet"), format="parquet", reader="spark")
    result = session.sql(QUERY.replace("c.name =", "s.amount < 20000 AND c.name ="), ALWAYS)
    assert result.run(DataFrame.count)
    assert not is_shuffled(result.df)


def test_duplicate_keys_do_not_change_the_rows(session: PushdownSession, spark: SparkSession) -> None:
    query = QUERY.replace("JOIN shop ON", "JOIN twin AS shop ON")
    assert session.sql(query, ALWAYS).run(sorted_rows) == sorted_rows(spark.sql(query))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) AS n, max(city) AS m FROM ({QUERY}) GROUP BY name",
        f"WITH found AS ({QUERY}) SELECT * FROM found UNION ALL SELECT * FROM found WHERE amount < 100",
        f"SELECT * FROM country WHERE id IN (SELECT id FROM city) AND EXISTS (SELECT 1 FROM ({QUERY}))",
        f"SELECT a.amount FROM ({QUERY}) a LEFT JOIN country b ON a.amount = b.id",
    ],
)
def test_enclosing_queries_keep_their_rows(query: str, session: PushdownSession, spark: SparkSession) -> None:
    assert session.sql(query, ALWAYS).run(sorted_rows) == sorted_rows(spark.sql(query))


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
def test_joins_in_subqueries_of_filters_are_hinted(
    query: str, hinted: bool, session: PushdownSession, spark: SparkSession
) -> None:
    result = session.sql(query, ALWAYS)
    assert [bool(hinted_joins(join.after)) for join in result.joins()] == [hinted]
    analysed = result.df._jdf.queryExecution().analyzed().treeString()
    assert ("strategy=broadcast" in analysed.split("Join Inner", 1)[1].splitlines()[0]) is hinted
    assert result.run(sorted_rows) == sorted_rows(spark.sql(query))


def test_no_hints_if_broadcasts_are_disabled(session: PushdownSession, spark: SparkSession) -> None:
    spark.conf.set(THRESHOLD, "-1")
    result = session.sql(QUERY, ALWAYS)
    assert not hinted_joins(result.joins()[0].after)
    assert result.run(sorted_rows) == sorted_rows(spark.sql(QUERY))


def test_existing_hints_stay(spark: SparkSession, tables: Path) -> None:
    for name in ("shop", "city", "country"):
        spark.read.parquet(str(tables / f"{name}.parquet")).createOrReplaceTempView(name)
    frame = spark.sql("SELECT /*+ SHUFFLE_HASH(city) */ * FROM shop JOIN city ON shop.city = city.id")

    def analyzed_plan(dataframe: DataFrame) -> str:
        return str(dataframe._jdf.queryExecution().analyzed().toString())

    assert "strategy=shuffle_hash" in analyzed_plan(add_broadcast_hints(frame, frozenset({frozenset({"city"})})))
    assert "strategy=broadcast" in analyzed_plan(add_broadcast_hints(frame, frozenset({frozenset({"shop"})})))
    assert add_broadcast_hints(frame, frozenset()) is frame
    assert analyzed_plan(add_broadcast_hints(frame, frozenset({frozenset({"elsewhere"})}))) == analyzed_plan(frame)


def test_only_sides_with_exactly_the_views_of_a_set_are_hinted(spark: SparkSession, tables: Path) -> None:
    for name in ("shop", "twin", "city", "country"):
        spark.read.parquet(str(tables / f"{name}.parquet")).createOrReplaceTempView(name)
    frame = spark.sql(
        "SELECT count(*) FROM shop JOIN city ON shop.city = city.id JOIN twin ON twin.id = shop.id "
        "JOIN country ON city.country = country.id WHERE shop.id IN (SELECT id FROM city)"
    )
    plan = add_broadcast_hints(frame, frozenset({frozenset({"shop", "city"})}))._jdf.queryExecution().analyzed()
    (join,) = [line for line in str(plan.treeString()).splitlines() if "strategy=broadcast" in line]
    assert "leftHint=(strategy=broadcast)" in join
    assert "Inner, (id#" in join, "the join with twin"
