"""Fixtures of the optimizer tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def no_broadcasts(spark: SparkSession) -> Iterator[None]:
    """As with large tables: every join shuffles both of its sides."""
    key = "spark.sql.autoBroadcastJoinThreshold"
    spark.conf.set(key, "-1")
    yield
    spark.conf.unset(key)
