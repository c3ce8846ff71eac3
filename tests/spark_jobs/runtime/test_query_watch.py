"""New queries and stages are found even if Spark has dropped old ones."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.runtime.jvm_gateway import java_list
from pushdown_spark.runtime.query_metrics import QueryWatch, count_stages, query_number

_REPETITIONS = 200
"""Spark's status store is late for about one of forty short queries."""


def test_a_watch_returns_the_queries_that_started_after_it(spark: SparkSession) -> None:
    spark.range(3).collect()
    watch = QueryWatch(spark)
    assert watch.queries() == []
    spark.range(4).collect()
    first = [query_number(query) for query in watch.queries()]
    spark.range(5).collect()
    both = [query_number(query) for query in watch.queries()]
    assert len(first) == 1
    assert both[:1] == first
    assert len(both) == 2


def test_a_watch_returns_no_query_that_ended_before_it(spark: SparkSession) -> None:
    earlier = []
    for _ in range(_REPETITIONS):
        spark.sql("SET spark.app.name")
        earlier += QueryWatch(spark).queries()
    assert earlier == []


@pytest.mark.nightly
def test_a_watch_returns_new_queries_after_spark_dropped_old_ones(spark: SparkSession) -> None:
    limit = int(str(spark.conf.get("spark.sql.ui.retainedExecutions")))
    for _ in range(limit + 1):
        spark.sql("SET spark.app.name")
    watch = QueryWatch(spark)
    spark.range(4).collect()
    assert len(watch.queries()) == 1
    assert int(watch.store.executionsCount()) <= limit + 1


@pytest.mark.nightly
def test_stages_are_counted_after_spark_dropped_those_that_it_skipped(spark: SparkSession) -> None:
    limit = int(str(spark.conf.get("spark.ui.retainedStages", "1000")))
    numbers = spark._jsc.parallelize(java_list(spark), 1)
    for _ in range(limit + 1):
        numbers.count()
    with count_stages(spark) as stage_counts:
        spark.range(1_000).repartition(2).groupBy().count().collect()
    for _ in range(limit // 10 + 1):
        numbers.count()
    assert stage_counts().rows == 1_000
