"""Temporary settings of the shared Spark session and of the reader of lines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from pyspark.sql import SparkSession

from pushdown_spark.contract.sources import SourceFormat
from pushdown_spark.expressions.session_settings import temporary_settings as session_settings
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS
from pushdown_spark.formats.text import planner

PUSHDOWN_OFF = dict.fromkeys(FILTER_SETTINGS.values(), "false")
"""The settings that turn off all filters in Spark's own readers."""


def pushdown_off(spark: SparkSession, *source_formats: str) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's own readers of these formats, of all if none is given."""
    settings = {FILTER_SETTINGS[SourceFormat(name)]: "false" for name in source_formats}
    return session_settings(spark, settings or PUSHDOWN_OFF)


def searched_by(*carriers: str) -> AbstractContextManager[object]:
    """Let scans of JSON and CSV search lines only in Python workers (`workers`), inside the JVM (`jvm`), or in both."""
    return patch.object(planner, "CARRIERS", frozenset(carriers))
