"""Text files as sources of a session, read by both readers."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_rows import sorted_rows

from pushdown_spark.contract import SourceReport
from pushdown_spark.session import PushdownSession


def text_session(
    spark: SparkSession, path: Path, schema: str, reader: str, source_format: str = "json", **options: str
) -> PushdownSession:
    """Return a session whose source `data` are JSON or CSV files."""
    session = PushdownSession(spark)
    session.add_source("data", path=str(path), format=source_format, schema=schema, options=options, reader=reader)
    return session


def both_readers(
    spark: SparkSession, path: Path, schema: str, where: str, source_format: str = "json", **options: str
) -> tuple[list[str], SourceReport]:
    """Return rows and report of reader='pushdown', compared with reader='spark' without Spark's pushdown."""
    results = {}
    for reader in ("spark", "pushdown"):
        session = text_session(spark, path, schema, reader, source_format, **options)
        with pushdown_off(spark):
            result = session.scan("data", where=where)
            results[reader] = result.run(sorted_rows), result.report()["data"]
    assert results["spark"][0] == results["pushdown"][0]
    assert results["spark"][1].reader == "spark"
    return results["pushdown"]
