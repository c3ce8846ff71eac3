"""Queries that sqlglot reads differently from Spark, or with ambiguous names, return the rows and columns of Spark."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.contract import JoinOptions
from pushdown_spark.optimizer.dataframe_helper import reorder_joins
from pushdown_spark.session import PushdownSession

TABLES = {
    "a": "SELECT id AS k, id % 5 AS x, id % 3 AS z, DATE '2020-05-06' AS current_date, 'month' AS u, "
    "named_struct('x', id % 2, 'm', map('p', id)) AS s, array(id) AS many, id = 3 AS `true` FROM range(20)",
    "b": "SELECT id AS k, id % 7 AS w, id % 4 AS z, TIMESTAMP '2020-05-06 07:08:09' AS ts, 'year' AS u FROM range(20)",
    "c": "SELECT id AS k, id % 9 AS z, id AS size FROM range(20)",
    "none": "SELECT id AS k, id AS x FROM range(0)",
}


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("meaning")
    for name, query in TABLES.items():
        for kind in ("parquet", "orc"):
            spark.sql(query).coalesce(1).write.format(kind).save(str(root / kind / name))
    return root


def count_rows(frame: DataFrame) -> tuple[list[str], Counter[str]]:
    return frame.columns, Counter(str(row) for row in frame.collect())


def by_spark(spark: SparkSession, root: Path, query: str) -> tuple[list[str], Counter[str]]:
    for name in TABLES:
        spark.read.orc(str(root / "orc" / name)).createOrReplaceTempView(name)
    try:
        return count_rows(spark.sql(query))
    finally:
        for name in TABLES:
            spark.catalog.dropTempView(name)


QUERIES = {
    "renamed columns": "SELECT q.s, b.w FROM none AS e RIGHT JOIN a AS q(s, k, z, d, u, t, m, f) ON e.k = q.s "
    "JOIN b ON b.k = q.s WHERE q.k = 1",
    "renamed columns of one source": "SELECT p FROM c AS q(p, k, n) WHERE k = 5",
    "pipe": "FROM a |> ORDER BY k |> LIMIT 5 |> WHERE x = 1 |> SELECT k, x",
    "a variable that a later relation has as a column": "SELECT a.k, c.z FROM a JOIN b ON a.k = b.k AND seen > 5 "
    "JOIN (SELECT k, z, size AS seen FROM c) c ON c.k = a.k",
    "an outer column that a later relation has": "SELECT k FROM c AS o WHERE 1 IN "
    "(SELECT a.x FROM a JOIN b ON a.k = b.k AND a.x = size JOIN c ON c.k = a.k)",
    "a column that is called as a function": "SELECT current_date AS d, a.k FROM a JOIN b ON a.k = b.k",
    "a column of one source that is called as a function": "SELECT current_date AS d FROM a WHERE k = 1",
    "a unit that is a column": "SELECT date_trunc(b.u, b.ts) AS t FROM a JOIN b ON a.k = b.k WHERE a.k < 3",
    "a unit that is a column of one source": "SELECT date_trunc(u, ts) AS t FROM b WHERE k = 1",
    "an identifier in a text": "SELECT IDENTIFIER('x') AS i FROM a JOIN b ON a.k = b.k",
    "a semi join with a name": "SELECT j.* FROM (a LEFT SEMI JOIN b ON a.k = b.k) AS j",
    "values named like a file's size": "SELECT b.k, size FROM b JOIN VALUES (1, 'x'), (2, 'y') AS v(size, n) "
    "ON b.k = v.size",
    "an alias named like a file's size": "SELECT *, k AS size FROM b ORDER BY size",
    "columns named like constants": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.true",
    "members and elements": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.s.x = 1 AND array_contains(a.many, 3) "
    "AND a.s.m['p'] > 0",
    "an empty table": "SELECT count(*) AS n FROM none JOIN a ON none.k = a.k AND none.x = 1",
    "recursion": "WITH RECURSIVE r(k, n) AS (SELECT k, 1 FROM a WHERE k = 1 UNION ALL SELECT k + 1, n + 1 FROM r "
    "WHERE n < 3) SELECT r.k, b.w FROM r JOIN b ON r.k = b.k",
    "a column that the hidden side has too": "SELECT a.k FROM a LEFT SEMI JOIN c ON a.k = c.k JOIN b ON b.w = a.x "
    "WHERE x = 1",
    "a sample with a seed": "SELECT count(*) AS n FROM a TABLESAMPLE (100 PERCENT) REPEATABLE (3) JOIN b ON a.k = b.k",
    "intervals of several units": "SELECT a.k FROM a JOIN b ON a.k = b.k "
    "WHERE a.current_date > DATE '2022-03-05' - INTERVAL 1 YEAR 10 MONTHS",
    "a logarithm": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE log10(a.k * 100) >= 3 AND a.x = 0",
}


@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_results_equal_those_of_spark(spark: SparkSession, files: Path, query: str, reorder: bool) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE seen INT DEFAULT 7")
    session = PushdownSession(spark)
    for name in TABLES:
        session.add_source(name, path=str(files / "orc" / name), format="orc", reader="pushdown")
    actual = count_rows(session.sql(query, JoinOptions(reorder=reorder, min_bytes=0)).df)
    assert actual == by_spark(spark, files, query)


def test_text_with_substitution_variables_yields_no_key_predicates(spark: SparkSession, tmp_path: Path) -> None:
    """Spark compares with the value of the variable and not with the text."""
    spark.range(60_000).selectExpr("id", "id % 100 AS k").write.parquet(str(tmp_path / "facts"))
    spark.sql("SELECT id, if(id = 5, 'red', '${shade}') AS colour FROM range(100)").write.parquet(
        str(tmp_path / "things")
    )
    spark.conf.set("shade", "red")
    try:
        session = PushdownSession(spark)
        for name in ("facts", "things"):
            session.add_source(name, path=str(tmp_path / name), format="parquet")
        query = "SELECT f.id FROM facts f JOIN things t ON f.k = t.id WHERE t.colour = '${shade}'"
        assert session.sql(query, JoinOptions(min_bytes=0)).df.count() == 600
    finally:
        spark.conf.unset("shade")


def test_keys_of_files_with_other_spellings_are_not_certain(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(60_000).selectExpr("id", "id % 100 AS k").write.parquet(str(tmp_path / "facts"))
    for name, low in (("id", 0), ("ID", 50)):
        rows = spark.range(low, low + 50).selectExpr(f"id AS {name}", "id % 2 AS shade").coalesce(1)
        rows.write.mode("append").parquet(str(tmp_path / "things"))
    session = PushdownSession(spark)
    session.add_source("facts", path=str(tmp_path / "facts"), format="parquet")
    session.add_source("things", path=str(tmp_path / "things"), format="parquet", schema="id bigint, shade bigint")
    query = "SELECT f.id FROM facts f JOIN things t ON f.k = t.id WHERE t.shade = 1"
    assert session.sql(query, JoinOptions(min_bytes=0)).df.count() == 30_000


def test_partition_columns_are_not_sampled_from_files(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(60_000).selectExpr("id", "id % 100 AS k").write.parquet(str(tmp_path / "facts"))
    for part in (1, 2):
        # The files have a column with the name of the partition column and other values.
        rows = spark.range(50 * (part - 1), 50 * part).selectExpr("id", "9 AS w").coalesce(1)
        rows.write.parquet(str(tmp_path / "things" / f"w={part}"))
    session = PushdownSession(spark)
    for name in ("facts", "things"):
        session.add_source(name, path=str(tmp_path / name), format="parquet")
    query = "SELECT f.id FROM facts f JOIN things t ON f.k = t.id WHERE t.w = 1"
    assert session.sql(query, JoinOptions(min_bytes=0)).df.count() == 30_000


def test_conditions_that_differ_by_casts_alone_stay_separate(spark: SparkSession) -> None:
    strings = spark.sql("SELECT CAST(id % 10 AS STRING) AS t, id AS k FROM range(60)")
    numbers = spark.sql("SELECT id % 10 AS num, id AS k FROM range(30)")
    more = spark.sql("SELECT id AS k FROM range(20)")
    join = strings.join(numbers, (strings.t == numbers.num) & (strings.t == numbers.num.cast("string")))
    frame = join.join(more, more.k == numbers.k).select(strings.t, numbers.num, more.k)
    assert count_rows(reorder_joins(spark, frame).df) == count_rows(frame)


@pytest.fixture(scope="module")
def chain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Create tables for which another join order pays."""
    queries = {
        "o": "SELECT id AS oid, if(id % 9 = 0, NULL, id % 230) AS customer, id % 5 AS kind FROM range(4000)",
        "c": "SELECT id AS customer, id % 25 AS nation, concat('customer ', id) AS cname FROM range(200)",
        "n": "SELECT id AS nid, id % 4 AS region FROM range(20)",
        "r": "SELECT id AS rid, concat('region ', id) AS name FROM range(4)",
        "x": "SELECT id AS xk, id AS xv FROM range(5)",
        "y": "SELECT id AS yk, id * 2 AS yv FROM range(5)",
    }
    root = tmp_path_factory.mktemp("chain")
    for name, query in queries.items():
        spark.sql(query).coalesce(1).write.parquet(str(root / name))
    return {name: spark.read.parquet(str(root / name)) for name in queries}


def join(chain: dict[str, DataFrame]) -> DataFrame:
    o, c, n, r = (chain[name] for name in "ocnr")
    return o.join(c, "customer").join(n, c.nation == n.nid).join(r, n.region == r.rid).where("name = 'region 1'")


@pytest.mark.parametrize("condition", ["xv + rand(7) * 4 > yv", "uniform(0, 4, 7) + xv > yv", "xv < 3"])
def test_conditions_above_reordered_joins_keep_their_place(
    spark: SparkSession, chain: dict[str, DataFrame], condition: str
) -> None:
    x, y = chain["x"], chain["y"]
    inner = join(chain).groupBy("kind").agg(f.count("*").alias("n"))
    frame = x.join(y, x.xk == y.yk).join(inner, inner.kind == x.xk).where(condition)
    actual = reorder_joins(spark, frame)
    assert any(report.reordered for report in actual.joins)
    assert count_rows(actual.df) == count_rows(frame)


def test_hidden_keys_of_joins_by_name_can_still_be_selected(spark: SparkSession, chain: dict[str, DataFrame]) -> None:
    o, c, frame = chain["o"], chain["c"], join(chain)
    actual = reorder_joins(spark, frame)
    assert actual.joins[0].reordered
    for select in (
        lambda frame: frame.select(c["customer"], o["oid"]),
        lambda frame: frame.where(c["customer"] > 100).select("*", c["customer"]),
        lambda frame: frame.join(chain["x"], c["customer"] == chain["x"].xk),
        lambda frame: frame.select("customer", "cname"),
    ):
        assert count_rows(select(actual.df)) == count_rows(select(frame))


def test_keys_that_an_alias_hides_stay_hidden(spark: SparkSession, chain: dict[str, DataFrame]) -> None:
    frame = join(chain).alias("q")
    actual = reorder_joins(spark, frame)
    assert actual.joins[0].reordered
    for each in (frame, actual.df):
        with pytest.raises(AnalysisException, match="MISSING_ATTRIBUTES"):
            each.where(chain["c"]["customer"] > 100)
    assert count_rows(actual.df.select("q.customer")) == count_rows(frame.select("q.customer"))


def test_columns_dropped_by_a_projection_stay_dropped(spark: SparkSession, chain: dict[str, DataFrame]) -> None:
    frame = join(chain).select("oid", "cname")
    for each in (frame, reorder_joins(spark, frame).df):
        with pytest.raises(AnalysisException):
            each.select(chain["x"]["xk"])
        with pytest.raises(AnalysisException):
            each.select("customer")


def test_deeply_nested_conditions_leave_a_dataframe_unchanged(spark: SparkSession, chain: dict[str, DataFrame]) -> None:
    frame = join(chain).where(reduce(or_, [chain["o"].oid == number for number in range(240)]))
    actual = reorder_joins(spark, frame)
    assert actual.df is frame
    assert actual.joins == ()
