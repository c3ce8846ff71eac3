"""Asks Spark whether two frames are the same query, and whether a text is still itself once it was read and written."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.runtime.jvm_gateway import java_class

Framed = Callable[[str], DataFrame]
"""Has Spark analyse a text."""


def is_same_query(left: DataFrame, right: DataFrame) -> bool:
    """Whether Spark takes two frames for the same query; common table expressions have numbers of their own in each."""
    if left.sameSemantics(right):
        return True
    session = left.sparkSession
    if not isinstance(session, SparkSession) or "CTERelation" not in str(left._jdf.queryExecution().analyzed()):
        return False
    numbered = java_class(session, "org.apache.spark.sql.catalyst.normalizer.NormalizeCTEIds")
    plans = [numbered.apply(each._jdf.queryExecution().analyzed()) for each in (left, right)]
    return bool(plans[0].sameResult(plans[1]))


def reads_alike(original: DataFrame, written: str, framed: Framed) -> bool:
    """Whether a query's text, read by our parser and written again, is the query that Spark read in the first place."""
    try:
        return is_same_query(original, framed(written))
    except PySparkException:
        return False
