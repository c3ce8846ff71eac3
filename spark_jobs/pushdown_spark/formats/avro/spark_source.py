"""The options and settings of Spark's own Avro source that the pushdown reader must follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import check_broken_files, is_option_on
from pushdown_spark.formats.calendars import DATETIMES
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


@dataclass(frozen=True)
class AvroSettings:
    """Settings that the pushdown reader follows.

    `has_corrected_calendar` says whether old dates and timestamps are in the proleptic Gregorian calendar if the file
    does not name its writer. `allows_any_extension` says whether the names of files need not end with `.avro`.
    """

    has_corrected_calendar: bool
    allows_any_extension: bool


def avro_settings(spark: SparkSession, options: Mapping[str, str]) -> AvroSettings:
    """Return the settings of a source, given options with lower-case names.

    Raises UnsupportedError if only Spark's reader can follow them.

    The option `mode` is ignored, because Spark's reader of files ignores it: a damaged block fails in every mode.
    """
    check_broken_files(spark, options)
    for option, reason in _SPARK_ONLY_OPTIONS.items():
        if option in options:
            raise UnsupportedError(reason)
    for option, reason in _SPARK_ONLY_SWITCHES.items():
        if is_option_on(options, option):
            raise UnsupportedError(reason)
    if "ignoreextension" in options:
        allows_any_extension = is_option_on(options, "ignoreextension")
    else:
        only_avro = reader_configuration(spark, options).get(_ONLY_AVRO_EXTENSION)
        allows_any_extension = str(only_avro).strip().lower() != "true"
    return AvroSettings(DATETIMES.is_corrected(spark, "avro", options), allows_any_extension)
