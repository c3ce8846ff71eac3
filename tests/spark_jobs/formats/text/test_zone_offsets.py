"""Offsets of timestamps without a zone, which follow Java's rules of the zone."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.formats.text.text_options import zone_offsets

TRANSITION = 1_425_798_000
"""2015-03-08T07:00:00Z, when daylight saving time began in New York."""
HOUR = 3_600


@pytest.mark.parametrize(
    ("zone", "start", "offsets"),
    [
        ("America/New_York", TRANSITION, {-5 * HOUR, -4 * HOUR}),
        ("America/New_York", TRANSITION + 23 * HOUR, {-5 * HOUR, -4 * HOUR}),
        ("America/New_York", TRANSITION - 23 * HOUR, {-5 * HOUR, -4 * HOUR}),
        ("America/New_York", TRANSITION + 50 * HOUR, {-4 * HOUR}),
        ("UTC", TRANSITION, {0}),
        ("-12:00", TRANSITION, {-12 * HOUR}),
        ("Asia/Kathmandu", TRANSITION, {5 * HOUR + 2_700}),
    ],
)
def test_offsets_include_those_around_a_transition(
    spark: SparkSession, zone: str, start: int, offsets: set[int]
) -> None:
    assert set(zone_offsets(spark, zone)(start, start + 300)) == offsets
