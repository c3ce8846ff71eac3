"""Rows and errors that Spark's readers lose if they evaluate filters."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import SourceFormat
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS
from pushdown_spark.session import PushdownSession

LINES = (
    '{"k": 1, "word": "a"}',
    '{"word": "b"}',
    '{"k": 3, "word": }',
    '{"k": 4',
    '{"k": 5, "word": "c", "k": 1}',
    '{"k": 6, "word": "d", "k": null}',
)
SCHEMA = "k bigint, word string"
SPARK_ERRORS = (PySparkException, Py4JJavaError)
PUSHED = "spark.sql.json.filterPushdown.enabled"


@pytest.fixture
def path(tmp_path: Path) -> str:
    lines = tmp_path / "lines.json"
    lines.write_text("\n".join(LINES))
    return str(lines)


def scanned(spark: SparkSession, path: str, where: str, reader: str, schema: str = SCHEMA) -> tuple[list[str], str]:
    """Return the rows, which are also those of the lazy DataFrame, and the setting of filter pushdown in the run."""
    session = PushdownSession(spark)
    session.add_source("t", path=path, format="json", schema=schema, reader=reader)
    result = session.scan("t", where=where)
    with session_settings(spark, {PUSHED: "true"}):
        outcome = result.run(lambda frame: (sorted_rows(frame), str(spark.conf.get(PUSHED))))
        assert sorted_rows(result.df) == outcome[0]
    return outcome


def expected(spark: SparkSession, path: str, where: str, schema: str = SCHEMA) -> list[str]:
    with pushdown_off(spark, "json"):
        return sorted_rows(spark.read.schema(schema).json(path).where(where))


@pytest.mark.parametrize("where", ["k IS NULL", "NOT (k <=> 7)", "k > 9 OR word IS NULL", "coalesce(k, 0) = 0"])
def test_auto_finds_malformed_lines(spark: SparkSession, path: str, where: str) -> None:
    assert scanned(spark, path, where, "auto") == (expected(spark, path, where), "false")


@pytest.mark.parametrize("where", ["k = 1", "k IS NULL", "k < 3 AND word > 'a'"])
def test_the_pushdown_reader_finds_every_line_if_spark_replaces_it(spark: SparkSession, path: str, where: str) -> None:
    unsupported = SCHEMA + ", more array<array<string>>"
    rows, _ = scanned(spark, path, where, "pushdown", unsupported)
    assert rows == expected(spark, path, where, unsupported)


def test_auto_finds_lines_with_their_text(spark: SparkSession, path: str) -> None:
    schema = f"{SCHEMA}, _corrupt_record string"
    where = "k < 5 AND _corrupt_record IS NULL"
    assert scanned(spark, path, where, "auto", schema) == (expected(spark, path, where, schema), "false")


def test_spark_evaluates_filters_that_no_malformed_line_satisfies(spark: SparkSession, path: str) -> None:
    assert scanned(spark, path, "k < 3 AND word IS NOT NULL", "auto")[1] == "true"


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize(
    ("options", "policy"), [({"mode": "FAILFAST"}, "CORRECTED"), ({"mode": "PERMISSIVE"}, "EXCEPTION")]
)
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_lines_that_fail_the_scan_are_parsed(
    spark: SparkSession, tmp_path: Path, file_format: str, options: dict[str, str], policy: str, reader: str
) -> None:
    """Only Spark 2 parses the second date. Neither it nor the third line satisfies the predicate."""
    lines = {
        "json": (LINES[0], '{"k": 2, "day": "2020-01-01x"}', '{"k": 3'),
        "csv": ("1,a,", "2,b,2020-01-01x", "3,x"),
    }
    (tmp_path / "lines").write_text("\n".join(lines[file_format]))
    session = PushdownSession(spark)
    schema = f"{SCHEMA}, day date"
    path = str(tmp_path / "lines")
    session.add_source("t", path=path, format=file_format, schema=schema, reader=reader, options=options)
    settings = {PUSHED.replace("json", file_format): "true", "spark.sql.legacy.timeParserPolicy": policy}
    with session_settings(spark, settings):
        with pytest.raises(SPARK_ERRORS):
            session.scan("t", where="k = 1").run(sorted_rows)
        if policy == "EXCEPTION":
            assert session.scan("t", columns=["word"], where="k = 1").run(sorted_rows) == ["Row(word='a')"]


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
@pytest.mark.parametrize(
    ("where", "is_pushed"),
    [
        ("day = DATE '1582-10-10'", "false"),
        ("day IN (DATE '1582-10-05', add_months(DATE '1582-11-14', -1))", "false"),
        ("at = TIMESTAMP '1582-10-10 01:02:03'", "false"),
        ("at <= TIMESTAMP '1883-11-18 12:03:57'", "false"),
        ("day >= DATE '1500-02-28' AND at > TIMESTAMP '1999-01-01 00:00:00'", "true"),
    ],
)
def test_old_dates_are_found(
    spark: SparkSession, tmp_path: Path, file_format: str, reader: str, where: str, is_pushed: str
) -> None:
    days = ("1500-02-28", "1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14", "1582-10-15", "2020-02-29")
    rows = spark.createDataFrame([(day,) for day in days], "day string")
    rows = rows.selectExpr("CAST(day AS DATE) AS day", "CAST(day || ' 01:02:03' AS TIMESTAMP) AS at")
    path, setting = str(tmp_path / "t"), FILTER_SETTINGS[SourceFormat(file_format)]
    settings = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}
    with session_settings(spark, {**settings, setting: "true"}):
        rows.coalesce(1).write.format(file_format).save(path)
        session = PushdownSession(spark)
        schema = "day date, at timestamp"
        session.add_source("t", path=path, format=file_format, schema=schema, reader=reader)
        result = session.scan("t", where=where)
        actual, setting_in_run = result.run(lambda frame: (sorted_rows(frame), str(spark.conf.get(setting))))
        assert sorted_rows(result.df) == actual
        assert setting_in_run == is_pushed or reader == "pushdown"
        with pushdown_off(spark):
            assert actual == sorted_rows(spark.read.schema(schema).format(file_format).load(path).where(where))
        assert actual
