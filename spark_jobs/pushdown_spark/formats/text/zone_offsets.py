"""Offsets of a time zone, as Java's rules have them. Python may know another version of the rules."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from pushdown_spark.expressions.byte_patterns.spellings import Offsets
from pushdown_spark.runtime.jvm_gateway import java_class

_DAY = 86_400


def zone_offsets(spark: SparkSession, zone: str) -> Offsets:
    """Return the function that finds the offsets of a zone. It asks the JVM only when it is called."""

    def offsets(low: int, high: int) -> Sequence[int]:
        rules = java_class(spark, "org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(zone).getRules()
        instant = java_class(spark, "java.time.Instant").ofEpochSecond(low - _DAY)
        totals = [int(rules.getOffset(instant).getTotalSeconds())]
        transition = rules.nextTransition(instant)
        while transition is not None and int(transition.toEpochSecond()) <= high + _DAY:
            totals.append(int(transition.getOffsetAfter().getTotalSeconds()))
            transition = rules.nextTransition(transition.getInstant())
        return totals

    return offsets
