"""Filters that Spark derives from a whole query, or from expressions that it simplifies, lose no rows."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from session_settings import PUSHDOWN_OFF, pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.runtime.jvm_gateway import java_string
from pushdown_spark.runtime.spark_internals import physical_plan, spark_format
from pushdown_spark.session import PushdownSession

SCHEMA = "k int, x double, day date, at timestamp, s struct<x: double, n: int>"
PUSHDOWN_ON = dict.fromkeys(PUSHDOWN_OFF, "true")
GAP, EARLY, NEW = date(1582, 10, 10), datetime(1850, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
FILES = (
    [(1, 1.0, GAP, EARLY), (2, math.nan, GAP, EARLY)],
    [(3, -0.0, date(2024, 1, 1), NEW)],
    [(1, 0.0, GAP, EARLY), (4, 7.0, date(1582, 10, 15), NEW)],
)
"""Files with few rows, whose statistics exclude other values. Those of Arrow omit NaN."""
QUERIES = (
    "SELECT x, count(*) AS n FROM a GROUP BY x HAVING x > 3",
    "SELECT day, count(*) AS n FROM a GROUP BY day HAVING day = DATE'1582-10-10'",
    "SELECT * FROM (SELECT k, x, at, max(day) OVER (PARTITION BY x, at) AS m FROM a) WHERE x >= 0 AND x < 1",
    "SELECT * FROM (SELECT k, x, at, max(day) OVER (PARTITION BY x, at) AS m FROM a) WHERE at = '1850-01-01 00:00:00Z'",
    "SELECT * FROM (SELECT k, s, rank() OVER (PARTITION BY s.x ORDER BY k) AS m FROM a) WHERE s.x > 3",
    "SELECT * FROM (SELECT s.*, rank() OVER (PARTITION BY s.x ORDER BY k) AS m FROM a) AS t(c, n, m) WHERE c > 3",
    "FROM a |> WHERE x > 3",
    "FROM a |> WHERE day = DATE'1582-10-10'",
    "SELECT * FROM a WHERE x > (SELECT 3)",
    "SELECT * FROM a WHERE day = (SELECT DATE'1582-10-10')",
    "WITH w AS (SELECT x + 0 AS y, x, day FROM a) SELECT * FROM w WHERE x > 3 AND day = make_date(1582, 10, 10)",
    "SELECT a.k, b.k FROM a, b WHERE a.x = b.x AND b.x > 3",
    "SELECT a.k, b.k FROM a FULL JOIN b ON a.k = b.k WHERE a.x > 3",
    "SELECT a.k, b.k FROM a JOIN b USING (k) WHERE a.x > 3",
    "SELECT a.k, b.k FROM a JOIN b ON a.day = b.day AND b.day = DATE'1582-10-10'",
    "SELECT a.k, b.k FROM a LEFT JOIN b ON a.x = b.x AND b.x > 3",
)
PREDICATES = (
    "(x > 3) = TRUE",
    "IF(hash(k) = 0, x > 3, x > 3)",
    "NOT (NOT (x > 3) OR hash(k) = 0)",
    "CASE WHEN x > 3 THEN TRUE ELSE FALSE END",
    "x > (SELECT 3)",
    "s.x > (SELECT 3)",
    "day = (SELECT DATE'1582-10-10')",
    "IF(hash(k) = 0, day = DATE'1582-10-10', day = DATE'1582-10-10')",
    "at < '1851-01-01'",
    "(at = TIMESTAMP'1850-01-01 00:00:00Z') = TRUE",
)


@pytest.fixture(params=["parquet", "orc", "json", "avro"])
def tables(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """Return a format and the directories of two equal tables, which are also views of Spark's own readers."""
    paths = {}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths[name] = str(tmp_path / name)
        for number, rows in enumerate(FILES):
            columns = dict(zip(("k", "x", "day", "at"), map(list, zip(*rows, strict=True)), strict=True))
            columns["s"] = [{"x": x, "n": k} for k, x, *_ in rows]
            schema = pa.schema(
                [
                    ("k", pa.int32()),
                    ("x", pa.float64()),
                    ("day", pa.date32()),
                    ("at", pa.timestamp("us", "UTC")),
                    ("s", pa.struct([("x", pa.float64()), ("n", pa.int32())])),
                ]
            )
            table = pa.table(columns, schema)
            if request.param == "parquet":
                pyarrow.parquet.write_table(table, f"{paths[name]}/{number}.parquet")
            else:
                frame = spark.createDataFrame(table).coalesce(1)
                frame.write.mode("append").format(spark_format(request.param)).save(paths[name])
        spark.read.schema(SCHEMA).format(spark_format(request.param)).load(paths[name]).createOrReplaceTempView(name)
    return request.param, paths


def session_over(
    spark: SparkSession, tables: tuple[str, dict[str, str]], reader: str, *, filter_pushdown: bool = True
) -> PushdownSession:
    session = PushdownSession(spark)
    source_format, paths = tables
    for name, path in paths.items():
        session.add_source(
            name, path=path, format=source_format, schema=SCHEMA, reader=reader, filter_pushdown=filter_pushdown
        )
    return session


CORRECTED = {"spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED"}


@pytest.mark.parametrize("case_sensitive", ["false", "true"])
@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_filters_of_whole_queries_lose_no_rows(
    spark: SparkSession, tables: tuple[str, dict[str, str]], reader: str, case_sensitive: str
) -> None:
    settings = {**PUSHDOWN_ON, **CORRECTED, "spark.sql.caseSensitive": case_sensitive}
    with session_settings(spark, settings):
        session = session_over(spark, tables, reader)
        for sql in QUERIES:
            with pushdown_off(spark):
                expected = sorted_rows(spark.sql(sql))
            # Spark's ORC files cannot store the days between the calendars.
            assert expected or tables[0] == "orc", sql
            assert session.sql(sql).run(sorted_rows) == expected, sql
            if reader == "auto":
                # The pushdown reader of ORC raises for old dates, for which a lazy DataFrame has no fallback.
                assert sorted_rows(session.sql(sql).df) == expected, sql


@pytest.mark.parametrize("reader", ["auto", "spark"])
def test_lazy_queries_have_no_filters_if_the_user_turned_them_off(
    spark: SparkSession, tables: tuple[str, dict[str, str]], reader: str
) -> None:
    with session_settings(spark, {**PUSHDOWN_ON, **CORRECTED}):
        session = session_over(spark, tables, reader, filter_pushdown=False)
        for sql in (*QUERIES, "SELECT * FROM a WHERE k = 7 AND s.n < 3"):
            with pushdown_off(spark):
                expected = sorted_rows(spark.sql(sql))
            frame = session.sql(sql).df
            assert sorted_rows(frame) == expected, sql
            plan = java_string(spark, physical_plan(frame))
            assert set(re.findall(r"PushedFilters: \[[^]]*\]?", plan)) == {"PushedFilters: []"}, sql


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_filters_that_only_spark_derives_from_a_predicate_lose_no_rows(
    spark: SparkSession, tables: tuple[str, dict[str, str]], reader: str, zone: str
) -> None:
    with session_settings(spark, {**PUSHDOWN_ON, **CORRECTED, "spark.sql.session.timeZone": zone}):
        session = session_over(spark, tables, reader)
        for where in PREDICATES:
            with pushdown_off(spark):
                expected = sorted_rows(spark.table("a").where(where))
            assert expected or tables[0] == "orc", where
            assert session.scan("a", where=where).run(sorted_rows) == expected, where
            if reader == "auto":
                assert sorted_rows(session.scan("a", where=where).df) == expected, where


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_columns_with_comments_are_hidden(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    pyarrow.parquet.write_table(pa.table({"k": [1, 2], "x": [1.0, math.nan]}), tmp_path / "0.parquet")
    session = PushdownSession(spark)
    schema = "k bigint, x double COMMENT 'a number'"
    session.add_source("t", path=str(tmp_path), format="parquet", schema=schema, reader=reader)
    frame = session.sql("SELECT x FROM t GROUP BY x HAVING x > 3").df
    assert frame.count() == 1
    assert frame.schema["x"].metadata == {"comment": "a number"}


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize(
    "where",
    [
        "at < timestamp_ntz'2025-01-01'",
        "k IN (1, NULL)",
        "k IN (1, CAST(NULL AS INT))",
        "k IN (1, NULL) AND hash(k) <> 0",
        "k IN (1, CAST(NULL AS INT)) AND hash(k) <> 0",
        "k IN /* a list */ (1, CAST(NULL AS INT))",
        "k IN -- a list\n (1, NULL::INT) AND hash(k) <> 0",
        "k IN (1, /* 'a */ NULL) OR `IN` = 2",
        "k IN (1, ((NULL)))",
        "k IN (1, NULLIF(2, 2)) AND hash(k) <> 0",
        "k IN (1, IF(false, 1, NULL)) AND hash(k) <> 0",
        "k IN (1, try_cast('x' AS INT)) AND hash(k) <> 0",
        "k IN (1, 2 + NULL) AND hash(k) <> 0",
        "k IN (1, no_value) AND hash(k) <> 0",
        "`IN` IN (0, 2, NULL) AND hash(k) <> 0",
    ],
)
def test_filters_with_which_orc_fails_are_not_pushed(
    spark: SparkSession, tmp_path: Path, where: str, reader: str
) -> None:
    schema = "k int, at timestamp_ntz, `IN` int, more array<array<string>>"
    rows = spark.sql("SELECT int(id) AS k, timestamp_ntz'2024-01-01' AS at, int(id) AS `IN` FROM range(3)")
    rows.coalesce(1).write.orc(str(tmp_path / "t"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "t"), format="orc", schema=schema, reader=reader)
    # Only Spark's reader can read a directory that is listed with this setting.
    with session_settings(spark, {**PUSHDOWN_ON, "spark.sql.files.ignoreCorruptFiles": "true"}):
        spark.sql("DECLARE OR REPLACE VARIABLE no_value INT")
        with pushdown_off(spark):
            expected = sorted_rows(spark.read.schema(schema).orc(str(tmp_path / "t")).where(where))
        assert expected
        for result in (session.scan("t", where=where), session.sql(f"SELECT * FROM t WHERE {where}")):
            assert result.run(sorted_rows) == expected
            assert sorted_rows(result.df) == expected
        spark.sql("DROP TEMPORARY VARIABLE no_value")


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_old_dates_are_not_lost_by_queries_over_csv(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    (tmp_path / "days.csv").write_text("1,1582-10-10\n2,1582-10-15\n")
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="csv", schema="k int, day date", reader=reader)
    with session_settings(spark, PUSHDOWN_ON):
        for sql in (
            "SELECT day, max(k) AS k FROM t GROUP BY day HAVING day = DATE'1582-10-10'",
            "SELECT * FROM t WHERE day = (SELECT DATE'1582-10-10')",
        ):
            assert len(session.sql(sql).run(sorted_rows)) == 1, sql
        assert len(session.scan("t", where="(day = DATE'1582-10-10') = TRUE").run(sorted_rows)) == 1


LINES = ('{"k": 1, "word": "a"}', '{"k": 3, "word": }', '{"k": 5, "word": "c", "k": 1}', '{"k": 6, "k": null}')


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize(
    "sql",
    [
        "FROM t |> WHERE k IS NULL",
        "SELECT k, count(*) AS n FROM t GROUP BY k HAVING k IS NULL",
        "SELECT k, count(*) AS n FROM t WHERE word IS NULL GROUP BY k HAVING k IS NULL",
        "SELECT * FROM (SELECT k, word, rank() OVER (PARTITION BY k ORDER BY word) AS r FROM t) WHERE k IS NULL",
        "SELECT u.k FROM t FULL JOIN t AS u ON t.word = u.word WHERE u.k <=> NULL AND t.k IS NULL",
    ],
)
def test_malformed_lines_are_not_lost_by_queries(spark: SparkSession, tmp_path: Path, sql: str, reader: str) -> None:
    (tmp_path / "lines.json").write_text("\n".join(LINES))
    schema = "k bigint, word string"
    spark.read.schema(schema).json(str(tmp_path)).createOrReplaceTempView("t")
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="json", schema=schema, reader=reader)
    with session_settings(spark, PUSHDOWN_ON):
        with pushdown_off(spark):
            expected = sorted_rows(spark.sql(sql))
        assert expected
        assert session.sql(sql).run(sorted_rows) == expected
        assert sorted_rows(session.sql(sql).df) == expected


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_lines_that_fail_the_scan_fail_queries(
    spark: SparkSession, tmp_path: Path, file_format: str, reader: str
) -> None:
    lines = {"json": ('{"k": 1, "word": "a"}', '{"k": 3, "word": }'), "csv": ("1,a", "x,b")}
    (tmp_path / "lines").write_text("\n".join(lines[file_format]))
    session = PushdownSession(spark)
    options = {"mode": "FAILFAST"}
    session.add_source(
        "t", path=str(tmp_path), format=file_format, schema="k bigint, word string", reader=reader, options=options
    )
    sql = "SELECT word, k FROM t GROUP BY word, k HAVING word = 'a' AND k = 1"
    with session_settings(spark, PUSHDOWN_ON), pytest.raises((PySparkException, Py4JJavaError)):
        session.sql(sql).run(sorted_rows)
