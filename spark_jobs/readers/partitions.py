"""What all our readers share about tasks: how files are packed into them, and the implicit columns of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.gateway import byte_size
from spark_jobs.projection.implicit import implicit_values, root_of
from spark_jobs.projection.paths import quote_name
from spark_jobs.readers.files import Packing, decoded


def packing(spark: SparkSession) -> Packing:
    """Spark's own settings for cutting files into tasks."""
    return Packing(
        _size(spark, "spark.sql.files.maxPartitionBytes", "128m"),
        _size(spark, "spark.sql.files.openCostInBytes", "4m"),
        spark.sparkContext.defaultParallelism,
    )


def _size(spark: SparkSession, key: str, default: str) -> int:
    return byte_size(spark, (spark.conf.get(key, default) or default).strip())


def with_implicit(frame: DataFrame, names: Sequence[str], uris: Sequence[str], roots: Sequence[str]) -> DataFrame:
    """Add implicit columns to a frame whose partition number k holds rows of the file `uris[k]` alone."""
    if not names:
        return frame
    values = [implicit_values(uri, root_of(uri, roots) or uri) for uri in map(decoded, uris)]
    added = []
    for name in names:
        items = ", ".join(_sql_text(row.get(name)) for row in values)
        added.append(f"get(array({items}), spark_partition_id()) AS {name}")
    return frame.selectExpr(*map(quote_name, frame.columns), *added)


def _sql_text(value: str | None) -> str:
    if value is None:
        return "CAST(NULL AS STRING)"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
