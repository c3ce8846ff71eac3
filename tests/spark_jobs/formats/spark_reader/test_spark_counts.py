"""Spark's readers count some bytes and rows only. The report has no count that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceReport
from pushdown_spark.session import PushdownSession

ROWS, MATCHING = 7_000, 1_000
SCHEMA = "id bigint, k int"


def report(spark: SparkSession, path: Path, file_format: str, where: str | None) -> SourceReport:
    session = PushdownSession(spark)
    schema = SCHEMA if file_format in ("json", "csv") else None
    session.add_source("data", path=str(path), format=file_format, schema=schema, reader="spark")
    result = session.scan("data", where=where)
    result.run(lambda frame: frame.write.format("noop").mode("overwrite").save(), single_pass=True)
    return result.report()["data"]


def write(spark: SparkSession, path: Path, file_format: str) -> Path:
    frame = spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS INT) AS k")
    frame.coalesce(1).write.format(file_format).save(str(path))
    return path


@pytest.mark.parametrize(("where", "rows_returned", "rows_decoded"), [(None, ROWS, ROWS), ("k = 3", MATCHING, None)])
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_rows_that_the_reader_of_text_files_drops_are_not_counted_as_decoded(
    spark: SparkSession,
    tmp_path: Path,
    file_format: str,
    where: str | None,
    rows_returned: int,
    rows_decoded: int | None,
) -> None:
    """The reader evaluates the filter, so that Spark counts the matching rows only."""
    actual = report(spark, write(spark, tmp_path / "data", file_format), file_format, where)
    assert actual.rows_returned == actual.rows_after_pushdown == rows_returned
    assert actual.rows_decoded == rows_decoded
    assert (actual.bytes_read or 0) >= actual.bytes_total


@pytest.mark.parametrize(("where", "rows_returned"), [(None, ROWS), ("k = 3", MATCHING)])
@pytest.mark.parametrize("file_format", ["orc", "parquet"])
def test_bytes_that_columnar_readers_do_not_count_are_unknown(
    spark: SparkSession, tmp_path: Path, file_format: str, where: str | None, rows_returned: int
) -> None:
    actual = report(spark, write(spark, tmp_path / "data", file_format), file_format, where)
    assert actual.rows_returned == rows_returned
    assert actual.rows_decoded == actual.rows_after_pushdown == ROWS
    assert actual.bytes_read is None
