"""The two sides of a scan benchmark, a session of ours and Spark's reader, whose rows go to the same sink."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.session import PushdownSession


def save(frame: DataFrame) -> None:
    """Compute all rows of a DataFrame, and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def scan(spark: SparkSession, columns: Sequence[str] | None, where: str | None, **source: object) -> int:
    """Scan a source with a new session of ours. Return the number of rows."""
    session = PushdownSession(spark)
    session.add_source("t", **source)
    result = session.scan("t", columns=columns, where=where)
    result.run(save, single_pass=True)
    return result.rows or 0


def select(frame: DataFrame, columns: Sequence[str] | None, where: str | None) -> DataFrame:
    """Return columns and rows of a DataFrame, as users of Spark's reader write it."""
    rows = frame if where is None else frame.where(where)
    return rows if columns is None else rows.select(*columns)
