"""Finds Spark's own Avro source: by its class, else under the short name that its jar registers."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.error_classification import classify

SHORT_NAME = "avro"
FILE_FORMAT = "org.apache.spark.sql.avro.AvroFileFormat"
"""What the short name stands for. Since Spark 4.0 it is part of Spark; the jar brings the name and SQL functions."""

PACKAGE = "org.apache.spark:spark-avro_2.13"
_UNKNOWN = frozenset({"AVRO_DATA_SOURCE_NOT_ENABLED", "DATA_SOURCE_NOT_FOUND"})


def format_name(spark: SparkSession, names: Sequence[str] = (FILE_FORMAT, SHORT_NAME)) -> str:
    """The first of the Avro source's names that this Spark knows.

    The class comes first: looking for a short name that nobody registered takes a tenth of a second for each query.

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
