"""The SQL queries that Spark has run since a moment, as its status store knows them."""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pushdown_spark.gateway import elements, wait_for_events


class QueryWatch:
    """Remembers which queries had started when it was made.

    Spark numbers its queries. It keeps the last thousand, so that how many it knows says nothing about new ones.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.store: JavaObject = spark._jsparkSession.sharedState().statusStore()
        """Spark's `SQLAppStatusStore`."""
        # The store learns of a query a moment after the query starts.
        wait_for_events(spark)
        self._before = max(map(query_number, elements(self.store.executionsList().takeRight(1))), default=-1)

    def queries(self) -> list[JavaObject]:
        """What the store knows of the queries since then, first to last."""
        wait_for_events(self._spark)
        found: list[JavaObject] = []
        for query in elements(self.store.executionsList().reverse()):
            if query_number(query) <= self._before:
                break
            found.append(query)
        return found[::-1]


def query_number(query: JavaObject) -> int:
    """The number that Spark gave a query."""
    return int(query.executionId())
