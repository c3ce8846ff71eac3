"""What all our readers share about tasks: how files are packed into them, and the implicit columns of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.projection.implicit import implicit_values, root_of
from spark_jobs.projection.paths import quote_name
from spark_jobs.readers.files import Packing, decoded


def packing(spark: SparkSession) -> Packing:
    """Spark's own settings for cutting files into tasks."""
    # Spark's own getters: looking up one of its classes by name makes the JVM go through all its jars.
    conf = spark._jsparkSession.sessionState().conf()
    return Packing(
        int(conf.filesMaxPartitionBytes()), int(conf.filesOpenCostInBytes()), spark.sparkContext.defaultParallelism
    )


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
