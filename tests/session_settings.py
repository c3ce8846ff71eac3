"""Temporary settings of the shared Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

from pushdown_spark.contract.sources import SourceFormat
from pushdown_spark.formats.native.scan import FILTER_SETTINGS

PUSHDOWN_OFF = dict.fromkeys(FILTER_SETTINGS.values(), "false")
"""The settings that turn off all filters in Spark's own readers."""


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings for a block, and restore the old values."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value_before in before.items():
            spark.conf.unset(key) if value_before is None else spark.conf.set(key, value_before)


def pushdown_off(spark: SparkSession, *source_formats: str) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's own readers of these formats, of all if none is given."""
    named = {FILTER_SETTINGS[SourceFormat(name)]: "false" for name in source_formats}
    return session_settings(spark, named or PUSHDOWN_OFF)
