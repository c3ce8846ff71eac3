"""Metrics of queries and stages that Spark ran: new queries, row counts, and the input of Spark's readers."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import cast

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.runtime.executed_plan import ROW_METRIC, PlanGraph, PlanNode, plan_roots
from pushdown_spark.runtime.jvm_gateway import class_name, elements, java_list, scala_value
from pushdown_spark.runtime.spark_internals import java_context, java_session, optimized_plan, wait_for_events

_FILE_METRIC = "number of written files"
_ALWAYS_TRUE = "monotonically_increasing_id() >= 0 OR concat('{}', monotonically_increasing_id()) = ''"
"""A condition that every row meets. The OR keeps Spark from evaluating the marker string for each row."""


class QueryWatch:
    """The SQL queries that started after the creation of the watch.

    Queries are identified by their numbers. Spark keeps the last thousand, so a change of their count means nothing.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.store: JavaObject = java_session(spark).sharedState().statusStore()
        """Spark's `SQLAppStatusStore`."""
        # The store registers a query shortly after its start.
        wait_for_events(spark)
        self._before = max(map(query_number, elements(self.store.executionsList().takeRight(1))), default=-1)

    def queries(self) -> list[JavaObject]:
        """Return the new queries from the status store, oldest first."""
        wait_for_events(self._spark)
        new: list[JavaObject] = []
        for query in elements(self.store.executionsList().reverse()):
            if query_number(query) <= self._before:
                break
            new.append(query)
        return new[::-1]

    def written_files(self) -> int | None:
        """Return the number of files that the tasks of the newest write have closed, or None if Spark has no count."""
        for query in reversed(self.queries()):
            metrics = cast("list[dict[str, str | int]]", scala_value(self._spark, query.metrics()))
            values = cast("dict[str, str]", scala_value(self._spark, self.store.executionMetrics(query_number(query))))
            # Each version of an adaptive plan has the metric, and the last one has a value.
            numbers = (str(metric["accumulatorId"]) for metric in metrics if metric["name"] == _FILE_METRIC)
            if counts := [int(values[number].replace(",", "")) for number in numbers if number in values]:
                return max(counts)
        return None

    def plan(self, query: JavaObject) -> list[PlanNode]:
        """Return the roots of the final plan of a query."""
        number = query_number(query)
        # One transfer of both takes less time than two.
        pair = java_list(self._spark)
        pair.add(self.store.planGraph(number))
        pair.add(self.store.executionMetrics(number))
        graph, values = cast("tuple[PlanGraph, dict[str, str]]", scala_value(self._spark, pair))
        return plan_roots(graph, values)


def query_number(query: JavaObject) -> int:
    """Return the number that Spark gave a query."""
    return int(query.executionId())


class RowCount:
    """The number of rows that the first SQL query over a DataFrame returns.

    With `single_pass`, the DataFrame gets a filter that every row passes, and Spark's metrics of the query have the
    number of rows that passed. A marker string in the filter identifies it. A number would do as well, but it would be
    a part of the code that Spark generates, which then could not be reused for other queries. Spark does not merge the
    filter with others because its result depends on the position of the row. It removes the filter if it has the rows
    when it plans.

    `DataFrame.observe` is used otherwise. It takes the rows out of the generated code, which is slower.
    """

    def __init__(self, spark: SparkSession, frame: DataFrame, *, single_pass: bool) -> None:
        self._marker = f"rows counted {secrets.token_hex(8)}"
        self._observation: Observation | None = None
        self.frame: DataFrame
        """The DataFrame whose rows are counted."""
        if single_pass:
            self.frame = frame.where(_ALWAYS_TRUE.format(self._marker))
            self._watch = QueryWatch(spark)
        else:
            self._observation = Observation()
            self.frame = frame.observe(self._observation, f.count(f.lit(1)).alias("rows"))

    def rows(self) -> int | None:
        """Return the number of rows of the first query, or None if no query over the DataFrame has completed."""
        if self._observation is not None:
            return int(self._observation.get["rows"])
        for query in self._watch.queries():
            nodes = (node for root in self._watch.plan(query) for node in root.nodes())
            filters = (node for node in nodes if node.kind == "Filter" and self._marker in node.description)
            counter = next((node for node in filters if ROW_METRIC in node.metrics), None)
            if counter is not None:
                return counter.rows
            if self._marker in str(query.physicalPlanDescription()):
                # Spark removed the filter from the running query, because there are no rows.
                return 0
        return self._count_in_plan()

    def _count_in_plan(self) -> int | None:
        """Return the number of rows that Spark has when it plans, or None if it has the filter instead."""
        plan = optimized_plan(self.frame)
        if self._marker in str(plan.toString()):
            return None
        return int(plan.data().size()) if plan.nodeName() == "LocalRelation" else self.frame.count()


@dataclass(frozen=True)
class StageCounts:
    """The run time of the tasks of some stages in seconds, and the input that Spark's readers counted in them."""

    seconds: float
    bytes_read: int
    rows: int


@contextmanager
def job_tag(spark: SparkSession) -> Iterator[str]:
    """Give the jobs that start within the block a tag. Yield the tag."""
    tag = f"airflow_pushdown-{uuid.uuid4().hex}"
    spark.sparkContext.addJobTag(tag)
    try:
        yield tag
    finally:
        # The JVM may have ended. Its error must not replace the error of the query.
        with suppress(Exception):
            spark.sparkContext.removeJobTag(tag)


def stages_with_tag(spark: SparkSession, tag: str) -> set[int]:
    """Return the numbers of the stages of the jobs with a tag."""
    tracker = java_context(spark).statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
    return {int(stage) for job in jobs if job.isDefined() for stage in job.get().stageIds()}


@contextmanager
def count_stages(spark: SparkSession) -> Iterator[Callable[[], StageCounts]]:
    """Yield a function that returns the counts of the stages that start within the block."""
    with job_tag(spark) as tag:
        yield lambda: _stage_counts(spark, tag)


def _stage_counts(spark: SparkSession, tag: str) -> StageCounts:
    wait_for_events(spark)
    store = java_context(spark).statusStore()
    last_attempts = [_last_attempt(store, stage) for stage in stages_with_tag(spark, tag)]
    attempts = [attempt for attempt in last_attempts if attempt is not None]
    return StageCounts(
        sum(int(attempt.executorRunTime()) for attempt in attempts) / 1000,
        sum(int(attempt.inputBytes()) for attempt in attempts),
        sum(int(attempt.inputRecords()) for attempt in attempts),
    )


def _last_attempt(store: JavaObject, stage: int) -> JavaObject | None:
    """Return the last attempt of a stage, or None if Spark has forgotten it.

    Spark keeps a thousand stages. It first forgets those that it skipped because their output existed.
    """
    try:
        return store.lastStageAttempt(stage)
    except Py4JJavaError as problem:
        if class_name(problem.java_exception) != "NoSuchElementException":
            raise
        return None
