"""Fixtures of the optimizer tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def no_broadcasts(spark: SparkSession) -> Iterator[None]:
    """Disable broadcasts, as if all tables were large."""
    key = "spark.sql.autoBroadcastJoinThreshold"
    spark.conf.set(key, "-1")
    yield
    spark.conf.unset(key)
