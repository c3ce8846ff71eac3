"""The helper for any PySpark job: SQL text and DataFrames, the order that Spark runs, and rejected input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.optimizer.dataframe_helper import reorder_joins

SIZES = {"orders": 4_000, "customers": 200, "nations": 20, "regions": 4}
QUERY = """SELECT * FROM orders o, customers c, nations n, regions r
    WHERE o.customer = c.id AND c.nation = n.id AND n.region = r.id AND r.name = 'region 1'"""


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write four Parquet tables that form a chain, with some null keys."""
    root = tmp_path_factory.mktemp("helper")
    items = {
        "orders": ("id", "if(id % 9 = 0, NULL, id % 230) AS customer", "id % 5 AS kind"),
        "customers": ("id", "if(id % 7 = 0, NULL, id % 25) AS nation", "concat('customer ', id) AS name"),
        "nations": ("id", "id % 4 AS region", "concat('nation ', id) AS name"),
        "regions": ("id", "concat('region ', id) AS name"),
    }
    for name, columns in items.items():
        spark.range(SIZES[name]).selectExpr(*columns).write.parquet(str(root / name))
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield
    for name in items:
        spark.catalog.dropTempView(name)


def joined_files(frame: DataFrame, of: str) -> list[str]:
    """Return the tables of a Spark plan from left to right, identified by their unique columns."""
    plan = frame._jdf.queryExecution()
    text = str(getattr(plan, of)().toString())
    marks = {"customer#": "orders", "nation#": "customers", "region#": "nations"}
    tables = []
    for line in re.findall(r"(?:Relation|FileScan parquet) ?(\[[^\]]*\])", text):
        tables.append(next((table for mark, table in marks.items() if mark in line), "regions"))
    return tables


def test_sql_text_is_reordered_and_its_rows_stay_the_same(spark: SparkSession) -> None:
    actual = reorder_joins(spark, QUERY)
    (join,) = actual.joins
    assert join.reordered
    assert "Reordered: about" in actual.explain()
    assert actual.df.columns == spark.sql(QUERY).columns
    assert sorted_rows(actual.df) == sorted_rows(spark.sql(QUERY))
    assert actual.sql is not None
    assert sorted_rows(spark.sql(actual.sql)) == sorted_rows(spark.sql(QUERY))


@pytest.mark.usefixtures("no_broadcasts")
@pytest.mark.parametrize("permutation", range(4))
def test_spark_keeps_the_chosen_order(spark: SparkSession, permutation: int) -> None:
    relations = ["orders o", "customers c", "nations n", "regions r"]
    Random(permutation).shuffle(relations)
    query = QUERY.replace("orders o, customers c, nations n, regions r", ", ".join(relations))
    actual = reorder_joins(spark, query)
    chosen = [node.relation for node in actual.joins[0].after.nodes() if node.relation]
    names = {"o": "orders", "c": "customers", "n": "nations", "r": "regions"}
    expected = [names[name or ""] for name in chosen]
    assert expected[3] == "orders"
    assert joined_files(actual.df, "optimizedPlan") == expected
    actual.df.collect()
    assert joined_files(actual.df, "executedPlan")[: len(expected)] == expected


def frame(spark: SparkSession) -> DataFrame:
    o, c, n, r = (spark.table(name) for name in SIZES)
    return (
        o.join(c, o.customer == c.id)
        .join(n, c.nation == n.id)
        .join(r, n.region == r.id)
        .where((r.name == "region 1") & (o.kind < 3))
    )


def test_a_dataframe_is_reordered_and_its_columns_keep_their_meaning(spark: SparkSession) -> None:
    plain, regions = frame(spark), spark.table("regions")
    actual = reorder_joins(spark, plain)
    assert actual.sql is None
    assert actual.joins[0].reordered
    assert actual.df is not plain
    assert actual.df.columns == plain.columns
    assert sorted_rows(actual.df) == sorted_rows(plain)
    assert joined_files(actual.df, "optimizedPlan") != joined_files(plain, "optimizedPlan")
    assert joined_files(actual.df, "optimizedPlan")[3] == "orders"
    assert regions.columns == ["id", "name"]


def strategies(frame: DataFrame) -> int:
    """Return how many joins of the optimized plan have the query's own merge hint."""
    return str(frame._jdf.queryExecution().optimizedPlan().toString()).count("strategy=merge")


def test_a_hinted_relation_keeps_its_hint_in_any_position(spark: SparkSession) -> None:
    o, c, n, r = (spark.table(name) for name in SIZES)
    hinted = o.join(c.hint("merge"), o.customer == c.id)
    plain = hinted.join(n, c.nation == n.id).join(r, n.region == r.id).where(r.name == "region 1")
    actual = reorder_joins(spark, plain)
    (join,) = actual.joins
    assert join.reordered
    assert joined_files(actual.df, "optimizedPlan") != joined_files(plain, "optimizedPlan")
    assert strategies(actual.df) == strategies(plain) == 1
    assert sorted_rows(actual.df) == sorted_rows(plain)


@pytest.mark.usefixtures("no_broadcasts")
def test_a_chain_below_a_hint_is_reordered_and_the_hint_stays(spark: SparkSession) -> None:
    below = frame(spark)
    others = spark.range(0, 3).withColumnRenamed("id", "other").hint("merge")
    plain = below.join(others, below.kind == others.other)
    actual = reorder_joins(spark, plain)
    assert [join.reordered for join in actual.joins] == [True]
    assert strategies(actual.df) == strategies(plain) == 1
    assert sorted_rows(actual.df) == sorted_rows(plain)


@pytest.mark.parametrize(
    "shaped",
    [
        lambda frame: frame.groupBy("kind").agg(f.count("*").alias("n"), f.max("customer").alias("most")),
        lambda frame: frame.select("kind", "customer").distinct(),
        lambda frame: frame.select("kind").union(frame.select("kind")),
        lambda frame: frame.select("customer", "kind").join(frame.select("customer").distinct(), "customer", "left"),
        lambda frame: frame.withColumn("twice", f.col("kind") * 2).select("twice", "nation"),
    ],
)
def test_chains_below_other_operators_are_reordered(spark: SparkSession, shaped: object) -> None:
    plain = shaped(frame(spark))  # type: ignore[operator]
    actual = reorder_joins(spark, plain)
    assert any(join.reordered for join in actual.joins)
    assert sorted_rows(actual.df) == sorted_rows(plain)


def test_joins_by_name_and_self_joins_stay_correct(spark: SparkSession) -> None:
    o, c = spark.table("orders"), spark.table("customers")
    by_name = (
        o.withColumnRenamed("id", "o")
        .join(c.withColumnRenamed("id", "customer"), "customer")
        .join(spark.table("nations").withColumnRenamed("id", "nation").withColumnRenamed("name", "n"), "nation")
    )
    a, b = c.alias("a"), c.alias("b")
    twice = (
        a.join(b, f.col("a.nation") == f.col("b.nation"))
        .join(spark.table("nations").alias("n"), f.col("n.id") == f.col("a.nation"))
        .where("n.id = 3 AND b.id < 50")
    )
    for plain in (by_name, twice):
        actual = reorder_joins(spark, plain)
        assert actual.df.columns == plain.columns
        assert sorted_rows(actual.df) == sorted_rows(plain)


def test_references_to_common_table_expressions_have_no_statistics(spark: SparkSession) -> None:
    plain = spark.sql(
        "WITH c AS (SELECT * FROM customers WHERE id > 3) SELECT o.id, d.name, n.name FROM orders o "
        "JOIN c ON o.customer = c.id JOIN c AS d ON d.id = o.kind JOIN nations n ON c.nation = n.id"
    )
    actual = reorder_joins(spark, plain)
    (join,) = actual.joins
    assert "no statistics for c" in join.reason
    assert sorted_rows(actual.df) == sorted_rows(plain)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.where(f.rand() >= 0),
        lambda frame: frame.where(f.uuid() != "x"),
    ],
)
def test_nondeterministic_dataframes_stay_unchanged(spark: SparkSession, change: object) -> None:
    plain = change(frame(spark))  # type: ignore[operator]
    actual = reorder_joins(spark, plain)
    assert actual.df is plain
    assert not any(join.reordered for join in actual.joins)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (QUERY + " AND o.kind / c.id < 1", "may fail"),
        (QUERY + " AND n.name <> r.id", "implicit cast"),
        (QUERY + " AND rand() < 2", "not deterministic"),
    ],
)
def test_queries_whose_conditions_may_fail_or_vary_stay_unchanged(
    spark: SparkSession, query: str, message: str
) -> None:
    actual = reorder_joins(spark, query)
    assert actual.sql == query
    assert message in actual.joins[0].reason
    assert not actual.joins[0].reordered


def test_joins_with_a_broadcast_hint_are_not_reordered(spark: SparkSession) -> None:
    query = QUERY.replace("SELECT", "SELECT /*+ BROADCAST(c) */")
    actual = reorder_joins(spark, query)
    assert (actual.sql, actual.joins) == (query, ())


def test_case_sensitive_sessions_are_not_reordered(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        actual = reorder_joins(spark, QUERY)
        assert actual.sql == QUERY
        assert "caseSensitive" in actual.joins[0].reason
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_queries_stay_as_written_with_reordering_switched_off(spark: SparkSession) -> None:
    off = JoinOptions(reorder=False)
    plain = frame(spark)
    assert reorder_joins(spark, plain, options=off).df is plain
    assert reorder_joins(spark, QUERY, options=off).sql == QUERY


def test_a_command_and_an_unknown_column_raise(spark: SparkSession) -> None:
    with pytest.raises(BadSpecError, match="only SELECT"):
        reorder_joins(spark, "DROP TABLE orders")
    with pytest.raises(UnknownColumnError, match="nothing"):
        reorder_joins(spark, "SELECT o.nothing FROM orders o, customers c")
