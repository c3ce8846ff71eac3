"""The value of a constant expression, by Spark."""

from __future__ import annotations

from functools import cache

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pushdown_spark.predicates.derive import Fold

# Over a list of rows Spark's optimizer works a constant out by itself; without FROM it starts a job, which takes a
# tenth of a second, and in a session that has run none yet more than half a second.
_ONE_ROW = "FROM VALUES (0) AS one(`no column`)"


def value_of(spark: SparkSession, sql: str) -> object:
    """The value of a constant expression; None where Spark finds an error in it, or Python has no such value."""
    try:
        row = spark.sql(f"SELECT {sql} {_ONE_ROW}").head()
    except (PySparkException, ValueError, OverflowError):
        # An overflow in ANSI mode, or a date that Python's calendar has not.
        return None
    return None if row is None else row[0]


def folding(spark: SparkSession) -> Fold:
    """What tells the values of constant expressions; each is asked for once, as Spark takes milliseconds for it."""

    @cache
    def fold(sql: str) -> object:
        return value_of(spark, sql)

    return fold
