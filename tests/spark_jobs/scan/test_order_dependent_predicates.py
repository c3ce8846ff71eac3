"""Conjuncts with side effects or memory see every row, because other conjuncts must not drop rows first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceReport
from pushdown_spark.session import PushdownSession

ROWS = [(str(number), "kept" if number % 2 else "dropped") for number in range(20)]
SCHEMA = "k string, word string"
FORMATS = ("csv", "json", "orc", "parquet")
DEPENDING = ("monotonically_increasing_id() < 10 AND word = 'kept'", "rand(7) < 0.5 AND word = 'kept'")
RAISING = (
    "assert_true(k <> '4') IS NULL AND word = 'kept'",
    "if(k = '4', raise_error('a bad row'), 1) = 1 AND word = 'kept'",
    "java_method('java.lang.Integer', 'valueOf', if(k = '4', 'x', k)) <> 'y' AND word = 'kept'",
)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one file in each format."""
    root = tmp_path_factory.mktemp("undivided")
    for name in FORMATS:
        spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.format(name).save(str(root / name))
    (root / "lines").write_text("".join(f"{key},{word}\n" for key, word in ROWS))
    return root


def scan_rows(
    spark: SparkSession, path: Path, name: str, where: str, **options: object
) -> tuple[list[str], SourceReport]:
    """Return the keys that the pushdown reader or its fallback returns, and the report."""
    session = PushdownSession(spark)
    fields: dict[str, Any] = {"reader": "pushdown", **options}
    session.add_source("t", path=str(path / name), format=name, schema=SCHEMA, **fields)
    result = session.scan("t", where=where)
    return sorted(result.run(lambda frame: [row.k for row in frame.collect()])), result.report()["t"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("where", DEPENDING)
def test_order_dependent_predicates_run_in_spark(spark: SparkSession, files: Path, name: str, where: str) -> None:
    actual, report = scan_rows(spark, files, name, where)
    # Nothing can be pushed into Spark's text reader: each row meets the conjuncts from left to right.
    lines = spark.read.text(str(files / "lines"))
    rows = lines.selectExpr("split(value, ',')[0] AS k", "split(value, ',')[1] AS word").where(where)
    assert actual == sorted(row.k for row in rows.collect())
    assert report.reader == "spark"
    assert report.pushed == ()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("where", RAISING)
def test_functions_that_raise_are_evaluated_on_all_rows(
    spark: SparkSession, files: Path, name: str, where: str
) -> None:
    with pytest.raises(Exception, match=r"is not true|a bad row|For input string"):
        scan_rows(spark, files, name, where)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "query",
    [
        "WITH x AS (SELECT k FROM t WHERE {where}) SELECT * FROM x",
        "SELECT k FROM t WHERE {where} UNION ALL SELECT k FROM t WHERE k = '-1'",
        "SELECT x.k FROM (SELECT k FROM t WHERE {where}) x JOIN t AS y ON x.k = y.k",
        "SELECT k FROM t WHERE {where} AND k IN (SELECT k FROM t WHERE word <> 'other')",
        "SELECT k FROM t WHERE (SELECT max(k) FROM t) <> '' AND {where}",
        r"SELECT k FROM t WHERE {where} AND k RLIKE '^\\d+$'",
    ],
)
def test_order_dependent_predicates_in_queries_with_several_tables_run_in_spark(
    spark: SparkSession, files: Path, name: str, query: str
) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=str(files / name), format=name, schema=SCHEMA, reader="pushdown")

    def keys(where: str) -> list[str]:
        return sorted(row.k for row in session.sql(query.format(where=where)).df.collect())

    for where in DEPENDING:
        assert keys(where) == scan_rows(spark, files, name, where)[0]
    for where in RAISING:
        with pytest.raises(Exception, match=r"is not true|a bad row|For input string"):
            keys(where)


@pytest.mark.parametrize("name", ["csv", "json"])
@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_without_filter_pushdown_spark_evaluates_every_conjunct(
    spark: SparkSession, files: Path, name: str, reader: str
) -> None:
    where = "CAST(if(k = '4', 'x', k) AS INT) > 5 AND word = 'kept'"
    assert scan_rows(spark, files, name, where, reader=reader)[0]
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        scan_rows(spark, files, name, where, reader=reader, filter_pushdown=False)


@pytest.fixture
def sql_function(spark: SparkSession) -> Iterator[None]:
    """Create the function `checked`, whose body must see every row."""
    spark.sql("CREATE TEMPORARY FUNCTION checked(x string) RETURNS boolean RETURN assert_true(x <> '4') IS NULL")
    yield
    spark.sql("DROP TEMPORARY FUNCTION checked")


@pytest.mark.parametrize("where", [RAISING[0], "checked(k) AND word = 'kept'"])
def test_databases_evaluate_no_conjunct_of_order_dependent_predicates(
    spark: SparkSession, sql_function: None, tmp_path: Path, where: str
) -> None:
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (k TEXT, word TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    session = PushdownSession(spark)
    session.add_remote("t", {"kind": "sqlite", "database": str(tmp_path / "t.db")}, table="t")
    assert session.scan("t", where="word = 'kept'").report()["t"].pushed == ("word = 'kept'",)
    assert session.scan("t", where=where).report()["t"].pushed == ()
    with pytest.raises(Exception, match="is not true"):
        session.scan("t", where=where).run(lambda frame: frame.collect())


def test_predicates_on_columns_named_like_nondeterministic_functions_are_pushed(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "json").write_text('{"uuid":"a"}\n{"uuid":"b"}\n')
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="json", schema="uuid string", reader="pushdown")
    assert session.scan("t", where="uuid = 'a'").report()["t"].pushed == ("uuid = 'a'",)
