"""How many rows a frame gave to an action, counted by Spark while it filters."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.gateway import elements
from pushdown_spark.query_watch import QueryWatch, query_number

_COUNT = "number of output rows"
"""What Spark calls this metric of a filter."""
_PASSED = "monotonically_increasing_id() >= 0 OR concat('{}', monotonically_increasing_id()) = ''"
"""A condition that every row meets; the text is behind an OR, where no row needs it."""


class RowCount:
    """Counts the rows of a frame in the first SQL query that runs over it.

    Where the query takes them as they come, the frame gets a filter that every row passes. A text in it tells it from
    all others; a number would be part of the code that Spark generates, so that it could use it for no other query.
    Spark does not merge the filter with others, because its result depends on a row's place. How many rows passed it is
    among the metrics of the query. `DataFrame.observe`, which is used otherwise, takes the rows out of the code that
    Spark generates: that costs an eighth of an ORC scan that keeps half of the rows. It is used also where Spark has
    the rows at hand when it plans, and then leaves the filter out.
    """

    def __init__(self, spark: SparkSession, frame: DataFrame, *, as_they_come: bool) -> None:
        self._mark = f"rows counted {secrets.token_hex(8)}"
        self._observation: Observation | None = None
        self.frame = frame.where(_PASSED.format(self._mark)) if as_they_come else frame
        """The rows, which are counted when they are asked for."""
        if as_they_come and self._mark in str(self.frame._jdf.queryExecution().optimizedPlan().toString()):
            self._watch = QueryWatch(spark)
        else:
            self._observation = Observation()
            self.frame = frame.observe(self._observation, f.count(f.lit(1)).alias("rows"))

    def rows(self) -> int | None:
        """Rows that the first query over the frame asked for; None where no query ran over it to its end."""
        if self._observation is not None:
            return int(self._observation.get["rows"])
        ran = (query for query in self._watch.queries() if self._mark in str(query.physicalPlanDescription()))
        query = next(ran, None)
        if query is None:
            return None
        metric = next(self._metrics(query_number(query)), None)
        if metric is None:
            # Spark took the filter out of a running query: it learnt that there are no rows.
            return 0
        value = self._watch.store.executionMetrics(query_number(query)).get(metric.accumulatorId())
        return int(str(value.get()).replace(",", "")) if value.isDefined() else None

    def _metrics(self, query: int) -> Iterator[JavaObject]:
        """The filter's count, as long as the filter is in the query's plan."""
        for node in elements(self._watch.store.planGraph(query).allNodes()):
            if node.name() == "Filter" and self._mark in str(node.desc()):
                yield from (metric for metric in elements(node.metrics()) if metric.name() == _COUNT)
