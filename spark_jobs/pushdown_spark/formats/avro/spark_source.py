"""The options and settings of Spark's own Avro source that the pushdown reader must follow."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import check_broken_files, is_option_on
from pushdown_spark.runtime.spark_internals import reader_configuration

_ONLY_AVRO_EXTENSION = "avro.mapred.ignore.inputs.without.extension"
"""Hadoop's setting for the opposite of the option `ignoreExtension`."""
_SPARK_ONLY_OPTIONS = {
    "avroschema": "option avroSchema resolves the files with another schema, which only Spark's reader does",
    "avroschemaurl": "option avroSchemaUrl is resolved by Spark's reader",
    "recursivefieldmaxdepth": "option recursiveFieldMaxDepth limits nested records, which only Spark's reader does",
}
_SPARK_ONLY_SWITCHES = {
    "positionalfieldmatching": "option positionalFieldMatching goes by position, which only Spark's reader does",
    "enablestableidentifiersforuniontype": "option enableStableIdentifiersForUnionType names the branches of unions, "
    "which only Spark's reader does",
}


def check_avro_options(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError if only Spark's reader can follow the options of a source, whose names are in lower case.

    The option `mode` is ignored, because Spark's reader of files ignores it: a damaged block fails in every mode.
    """
    check_broken_files(spark, options)
    for option, reason in _SPARK_ONLY_OPTIONS.items():
        if option in options:
            raise UnsupportedError(reason)
    for option, reason in _SPARK_ONLY_SWITCHES.items():
        if is_option_on(options, option):
            raise UnsupportedError(reason)


def allows_any_extension(spark: SparkSession, options: Mapping[str, str]) -> bool:
    """Return whether the names of files need not end with `.avro`."""
    if "ignoreextension" in options:
        return is_option_on(options, "ignoreextension")
    return str(reader_configuration(spark, options).get(_ONLY_AVRO_EXTENSION)).strip().lower() != "true"
