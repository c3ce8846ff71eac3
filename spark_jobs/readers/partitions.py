"""What all our readers share about tasks: how files are packed into them, and the implicit columns of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.projection.fill import ImplicitFill
from spark_jobs.projection.paths import quote_name
from spark_jobs.readers.files import Packing, decoded


def packing(spark: SparkSession) -> Packing:
    """Spark's own settings for cutting files into tasks."""
    # Spark's own getters: looking up one of its classes by name makes the JVM go through all its jars.
    conf = spark._jsparkSession.sessionState().conf()
    return Packing(
        int(conf.filesMaxPartitionBytes()), int(conf.filesOpenCostInBytes()), spark.sparkContext.defaultParallelism
    )


def with_implicit(frame: DataFrame, names: Sequence[str], uris: Sequence[str], fill: ImplicitFill | None) -> DataFrame:
    """Add implicit columns to a frame whose partition number k holds rows of the file `uris[k]` alone.

    `fill` knows their values, None where none is asked for.
    """
    if fill is None:
        return frame
    added = fill.by_partition(names, list(map(decoded, uris)))
    return frame.selectExpr(*map(quote_name, frame.columns), *added)
