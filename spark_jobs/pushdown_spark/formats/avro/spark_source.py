"""Finds Spark's own Avro source: by its class, else under the short name that its jar registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.failures import classify

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


_SKIPPED_FILES = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
_ONLY_NAMED_AVRO = "avro.mapred.ignore.inputs.without.extension"
"""Hadoop's switch for what the option `ignoreExtension` turns around."""
_SPARK_S_OWN = {
    "avroschemaurl": "option avroSchemaUrl is resolved by Spark's reader",
    "recursivefieldmaxdepth": "option recursiveFieldMaxDepth cuts off records in records: only Spark's reader does",
}
_SPARK_S_OWN_SWITCHES = {
    "positionalfieldmatching": "option positionalFieldMatching takes columns by place, which only Spark's reader does",
    "enablestableidentifiersforuniontype": "option enableStableIdentifiersForUnionType names the branches of unions, "
    "which only Spark's reader does",
}


@dataclass(frozen=True)
class AvroSettings:
    """Settings that our reader honours.

    `reader_schema`: the option `avroSchema`, Avro's JSON. `takes_ancient`: dates and times before the calendars agreed
    are taken as they are, in files that do not say who wrote them. `any_extension`: files need not be named `*.avro`.
    """

    reader_schema: str | None
    takes_ancient: bool
    any_extension: bool


def avro_settings(spark: SparkSession, options: Mapping[str, str]) -> AvroSettings | str:
    """The settings of a source whose options have lower-case names, or why Spark's reader must take it.

    The option `mode` needs no word: Spark's file reader has no use for it either, a broken block fails in every mode.
    """
    for key in _SKIPPED_FILES:
        option = key.rpartition(".")[2].lower()
        if _is_true(options.get(option, spark.conf.get(key, "false") or "false")):
            return f"{key} is on, and only Spark's readers skip broken files"
    for option, reason in _SPARK_S_OWN.items():
        if option in options:
            return reason
    for option, reason in _SPARK_S_OWN_SWITCHES.items():
        if _is_true(options.get(option, "false")):
            return reason
    return AvroSettings(
        options.get("avroschema"), rebase_mode(spark, options) == "CORRECTED", _any_extension(spark, options)
    )


def _any_extension(spark: SparkSession, options: Mapping[str, str]) -> bool:
    given = options.get("ignoreextension")
    if given is not None:
        return _is_true(given)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return not _is_true(options.get(_ONLY_NAMED_AVRO) or str(hadoop.get(_ONLY_NAMED_AVRO) or "false"))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


_REBASE_MODE = "spark.sql.avro.datetimeRebaseModeInRead"


def rebase_mode(spark: SparkSession, options: Mapping[str, str]) -> str:
    """`CORRECTED` takes them as they are, `LEGACY` moves them, `EXCEPTION` fails; options have lower-case names."""
    return (options.get("datetimerebasemode") or spark.conf.get(_REBASE_MODE) or "EXCEPTION").strip().upper()
