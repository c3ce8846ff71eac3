"""Finds Spark's own Avro source: under its short name where the jar is given, else among Spark's own classes."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_jobs.errors import BadSpecError
from spark_jobs.failures import classify

SHORT_NAME = "avro"
FILE_FORMAT = "org.apache.spark.sql.avro.AvroFileFormat"
"""What the short name stands for. Since Spark 4.0 it is part of Spark; the jar brings the name and SQL functions."""

PACKAGE = "org.apache.spark:spark-avro_2.13"
_UNKNOWN = frozenset({"AVRO_DATA_SOURCE_NOT_ENABLED", "DATA_SOURCE_NOT_FOUND"})


def format_name(spark: SparkSession, names: Sequence[str] = (SHORT_NAME, FILE_FORMAT)) -> str:
    """The first of the Avro source's names that this Spark knows.

    Raises BadSpecError, which says what to give, where it knows none.
    """
    for name in names:
        if _knows(spark, name):
            return name
    raise BadSpecError(
        f"format 'avro': this Spark has no Avro source; give packages={PACKAGE}:{spark.version}, or that jar in jars"
    )


def _knows(spark: SparkSession, name: str) -> bool:
    """Whether a name stands for a data source: Spark looks it up before it looks at anything else."""
    try:
        spark.read.format(name).schema("x int").load([])
    except (AnalysisException, Py4JJavaError) as problem:
        return classify(problem).error_class not in _UNKNOWN
    return True
