"""Queries are told from earlier ones by their numbers, however many there were."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.query_watch import QueryWatch, query_number

_REPETITIONS = 200
"""Spark's status store lagged behind a short query in about one of forty repetitions."""


def test_queries_are_those_that_started_since(spark: SparkSession) -> None:
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


def test_queries_that_ended_just_before_are_not_counted(spark: SparkSession) -> None:
    earlier = []
    for _ in range(_REPETITIONS):
        spark.sql("SET spark.app.name")
        earlier += QueryWatch(spark).queries()
    assert earlier == []


@pytest.mark.nightly
def test_spark_forgets_old_queries_and_new_ones_are_known(spark: SparkSession) -> None:
    kept = int(str(spark.conf.get("spark.sql.ui.retainedExecutions")))
    for _ in range(kept + 1):
        spark.sql("SET spark.app.name")
    watch = QueryWatch(spark)
    spark.range(4).collect()
    assert len(watch.queries()) == 1
    assert int(watch.store.executionsCount()) <= kept + 1
