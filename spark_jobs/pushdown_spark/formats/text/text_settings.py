"""Session settings that decide whether byte search is sound."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import check_meaning, setting
from pushdown_spark.relations.request import ScanRequest


@dataclass(frozen=True)
class _Setting:
    """A setting, the value with which byte search is sound, and the effect of other values."""

    key: str
    safe: str
    effect: str


_SETTINGS = (
    _Setting("spark.sql.json.enablePartialResults", "true", "one malformed field makes the whole line NULL"),
    _Setting("spark.sql.files.ignoreCorruptFiles", "false", "only Spark's readers skip damaged files"),
    _Setting("spark.sql.files.ignoreMissingFiles", "false", "only Spark's readers skip damaged files"),
    _Setting("spark.sql.files.archive.reader.enabled", "false", "only Spark's readers read archives"),
    _Setting("spark.sql.json.enableExactStringParsing", "true", "numbers and objects in string columns are rewritten"),
)
_HADOOP = {
    "io.compression.codecs": "only Hadoop knows which files are compressed",
    "mapreduce.input.linerecordreader.line.maxlength": "Hadoop skips longer lines",
}
"""Hadoop settings that must not be set."""


def check_settings(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError if the session's settings rule out byte search."""
    for checked in _SETTINGS:
        value = setting(spark, checked.key, checked.safe).lower()
        if value != checked.safe:
            raise UnsupportedError(f"{checked.key} is {value}: {checked.effect}")
    predicate = request.predicate
    check_meaning(spark, "" if predicate is None else predicate.sql)
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    for key, effect in _HADOOP.items():
        if hadoop.get(key):
            raise UnsupportedError(f"{key} is {hadoop.get(key)}: {effect}")
    corrupt = setting(spark, "spark.sql.columnNameOfCorruptRecord", "_corrupt_record")
    if corrupt in request.schema.fieldNames():
        raise UnsupportedError(f"column {corrupt} keeps corrupt lines, so every line must be parsed")


def uses_current_date_rules(spark: SparkSession) -> bool:
    """Return whether dates are parsed by current rules, not by those of Spark 2."""
    return setting(spark, "spark.sql.legacy.timeParserPolicy", "CORRECTED").upper() == "CORRECTED"
