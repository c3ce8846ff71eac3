"""Fixtures of the differential tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.formats.text.planner import CARRIER_SETTING


@pytest.fixture(params=["workers", "jvm"])
def carrier(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return where lines of JSON and CSV are searched: in Python workers, then inside the JVM."""
    name: str = request.param
    with session_settings(spark, {CARRIER_SETTING: name}):
        yield name
