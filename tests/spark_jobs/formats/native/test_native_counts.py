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


@pytest.mark.parametrize("where", [None, "k = 3"])
@pytest.mark.parametrize("file_format", ["json", "csv", "orc", "parquet"])
def test_a_count_is_complete_or_unknown(
    spark: SparkSession, tmp_path: Path, file_format: str, where: str | None
) -> None:
    frame = spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS INT) AS k")
    frame.coalesce(1).write.format(file_format).save(str(tmp_path / "data"))
    found = report(spark, tmp_path / "data", file_format, where)
    is_text = file_format in ("json", "csv")
    assert found.rows_returned == (ROWS if where is None else MATCHING)
    if is_text:
        assert (found.bytes_read or 0) >= found.bytes_total
        # The reader evaluates the filter, so that Spark counts the matching rows only.
        assert found.rows_decoded == (ROWS if where is None else None)
        assert found.rows_after_pushdown == found.rows_returned
    else:
        assert found.bytes_read is None
        assert found.rows_decoded == found.rows_after_pushdown == ROWS
