"""What options and session settings mean for reading Avro files, and which of them only Spark's reader honours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.formats.columnar import conf
from pushdown_spark.readers.avro.rebase import rebase_mode

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
        if _is_true(options.get(option, conf(spark, key, "false"))):
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
