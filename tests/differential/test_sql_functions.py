"""Functions whose body is SQL may call any function and compare with any value. Readers return the rows of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.expressions.predicate import sql_function
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

SCHEMA = "k bigint, d double, day date, at timestamp, s string"
BODIES = {
    "in_list": ("x bigint", "boolean", "x IN (1, 5, NULL)"),
    "is_positive": ("x double", "boolean", "x > 0.0D"),
    "is_old": ("x date", "boolean", "x = DATE'1582-10-10'"),
    "is_not_old": ("x timestamp", "boolean", "x >= TIMESTAMP'1582-10-10 00:00:00'"),
    "is_any": ("x bigint", "boolean", "rand() < 2 AND x > 3"),
    "file_of_row": ("", "string", "input_file_name()"),
}
PREDICATES = (
    "in_list(k)",
    "shop.in_list(k) AND s = 'z1'",
    "NOT IN_LIST(k) OR k = 7",
    "`shop`.`is_positive`(d)",
    "is_positive(d) AND k > 3",
    "is_old(day)",
    "is_not_old(at)",
    "is_any(k) AND s = 'z1'",
    "file_of_row() LIKE '%part%' AND s = 'z1'",
    "IDENTIFIER('in_list')(k)",
)
ROWS = """
IF(id % 7 = 0, NULL, id) AS k,
CASE id % 4 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN NULL ELSE id / 2 END AS d,
IF(id % 3 = 0, DATE'1582-10-04', DATE'2020-01-01') AS day,
IF(id % 3 = 0, TIMESTAMP'1582-10-04 00:00:00', TIMESTAMP'2020-01-01 00:00:00') AS at,
concat('z', id % 4) AS s
"""


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE DATABASE shop")
    for name, (arguments, kind, body) in BODIES.items():
        for function in (f"FUNCTION shop.{name}", f"TEMPORARY FUNCTION {name}"):
            spark.sql(f"CREATE {function}({arguments}) RETURNS {kind} RETURN {body}")
    yield
    for name in BODIES:
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.mark.parametrize("file_format", ["json", "csv", "avro", "orc", "parquet"])
def test_predicates_and_queries_may_call_sql_functions(
    spark: SparkSession, functions: None, tmp_path: Path, file_format: str
) -> None:
    path, options = str(tmp_path / "t"), {"header": "true"} if file_format == "csv" else {}
    rebase = {f"spark.sql.{name}.datetimeRebaseModeInWrite": "CORRECTED" for name in ("avro", "parquet")}
    with session_settings(spark, rebase):
        rows = spark.sql(f"SELECT {ROWS} FROM range(30)").coalesce(1)
        rows.write.format(spark_format(file_format)).options(**options).save(path)
    read = spark.read.format(spark_format(file_format)).schema(SCHEMA).options(**options)
    row_count = 0
    for where in PREDICATES:
        with pushdown_off(spark, file_format):
            expected = sorted_rows(read.load(path).where(where))
        row_count += len(expected)
        for reader in (ReaderChoice.PUSHDOWN, ReaderChoice.AUTO):
            session = PushdownSession(spark)
            session.add_source("t", path=path, format=file_format, schema=SCHEMA, options=options, reader=reader.value)
            for result in (session.scan("t", where=where), session.sql(f"SELECT * FROM t WHERE {where}")):
                assert result.run(sorted_rows) == expected, f"{where} with {reader}"
                assert sorted_rows(result.df) == expected, f"{where} with {reader}"
    assert row_count > 50


@pytest.mark.parametrize("call", ["in_list(1)", "`shop` . in_list\n(1)", "in_list /* of (numbers) */ -- here\n (1)"])
def test_a_call_is_found_in_text_that_only_spark_parses(spark: SparkSession, functions: None, call: str) -> None:
    assert sql_function(spark, f"upper('a') = 'A' AND {call}", None) is not None
    assert sql_function(spark, "upper('a') = 'A' AND (1 IN (1, 2))", None) is None
