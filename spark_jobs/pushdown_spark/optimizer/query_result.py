"""The result of a query over several scans, with a report for each, the fallback to Spark's readers, and row counts.

The row counts of executed joins come from the plan graphs and metrics in Spark's SQL status store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinReport, JoinTree, SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.contract.report_text import joins_text
from pushdown_spark.optimizer.add_broadcast_hints import with_broadcast_hints
from pushdown_spark.optimizer.query_context import QueryScan
from pushdown_spark.result import PushdownResult, explained
from pushdown_spark.runtime.fallback import prefer_reader_error, recoverable_error
from pushdown_spark.runtime.query_metrics import QueryWatch, RowCount, StageWatch, query_number
from pushdown_spark.scan.advice import with_advice
from pushdown_spark.scan.base import running

T = TypeVar("T")

_NODE = re.compile(r'^\s*(\d+) \[id="node\d+" (?:labelType="html" )?label="(?:<b>)?(\w+)', re.MULTILINE)
_EDGE = re.compile(r'^\s*(\d+)->(\d+)(?: \[label="([\d,]+)")?', re.MULTILINE)
_JOINS = frozenset(
    {"BroadcastHashJoin", "SortMergeJoin", "ShuffledHashJoin", "BroadcastNestedLoopJoin", "CartesianProduct"}
)


@dataclass(frozen=True)
class AnalyzedQuery:
    """SQL over views that exist only while Spark analyzes it.

    `views` registers the views. `broadcast` are sets of views whose joins are to be broadcast. `analyzed` is the query
    over `frames`, which are the DataFrames of the views.
    """

    spark: SparkSession
    views: Callable[[Mapping[str, DataFrame]], AbstractContextManager[None]]
    sql: str
    broadcast: frozenset[frozenset[str]]
    frames: Mapping[str, DataFrame]
    analyzed: DataFrame

    def over(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return the query over other DataFrames for the views."""
        if all(frame is self.frames.get(view) for view, frame in frames.items()):
            return self.analyzed
        with self.views(frames):
            return with_broadcast_hints(self.spark.sql(self.sql), self.broadcast)


class QueryResult(PushdownResult):
    """A planned query over several scans."""

    def __init__(self, query: AnalyzedQuery, scans: Sequence[QueryScan], joins: Sequence[JoinReport]) -> None:
        self._query = query
        self._scans = tuple(scans)
        self._joins = tuple(joins)
        self._executed: dict[str, SourceReport] | None = None
        self._may_fall_back = any(scan.native("check") is not scan for scan in scans)
        self._problem = next((scan.planned.problem for scan in scans if scan.planned.problem is not None), None)

    @property
    def df(self) -> DataFrame:
        """The result as a lazy DataFrame."""
        return self._query.over({scan.view: scan.scan.frame() for scan in self._scans})

    def run(self, action: Callable[[DataFrame], T], *, as_they_come: bool = False) -> T:
        """Run an action over the result. If a pushdown reader fails, run it again with Spark's readers alone."""
        if self._may_fall_back:
            try:
                return self._run_and_release(action, as_they_come=as_they_come)
            except Exception as exc:
                problem = recoverable_error(exc)
                if problem is None:
                    raise
                reason = f"a pushdown reader gave up: {problem}"
                self._scans = tuple(scan.native(reason) for scan in self._scans)
                self._may_fall_back, self._problem = False, problem
        with prefer_reader_error(self._problem):
            return self._run_and_release(action, as_they_come=as_they_come)

    def _run_and_release(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        """Run an action, and release the resources of the scans afterwards."""
        with ExitStack() as stack:
            for scan in self._scans:
                stack.enter_context(running(scan.scan, self._query.spark))
            return self._run_once(action, as_they_come=as_they_come)

    def _run_once(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        with StageWatch(self._query.spark) as watch:
            counted = RowCount(self._query.spark, self._frame_of_fetched_rows(), as_they_come=as_they_come)
            joins = JoinWatch(self._query.spark)
            outcome = action(counted.frame)
        self.rows = counted.rows()
        self._executed = self._reports_after_run(watch)
        self._joins = joins.with_row_counts(self._joins)
        return outcome

    def _frame_of_fetched_rows(self) -> DataFrame:
        """Return the result. Scans that the driver fetches itself are fetched now, so that Spark knows their size."""
        frames = {}
        for scan in self._scans:
            fetched = scan.scan.fetch_local(None)
            frames[scan.view] = scan.scan.frame() if fetched is None else fetched
        return self._query.over(frames)

    def _reports_after_run(self, watch: StageWatch) -> dict[str, SourceReport]:
        """Return the reports after a run.

        Spark counts the bytes of all its readers together, so they belong to a scan only if it is the only one.
        """
        reports = {scan.key: scan.scan.report() for scan in self._scans}
        uncounted = [scan for scan in self._scans if reports[scan.key].bytes_read is None]
        if len(uncounted) == 1:
            (scan,) = uncounted
            reports[scan.key] = watch.completed(
                reports[scan.key],
                counts_bytes=scan.scan.counts_bytes_in_spark,
                counts_decoded_rows=scan.scan.counts_decoded_rows_in_spark,
            )
        return reports

    def report(self) -> dict[str, SourceReport]:
        """Return for each scan what was planned and, after run(), what happened."""
        if self._executed is not None:
            return {key: with_advice(report) for key, report in self._executed.items()}
        return {scan.key: scan.scan.report() for scan in self._scans}

    def joins(self) -> tuple[JoinReport, ...]:
        """Return the joins of each SELECT, as written and as run, with row counts after run()."""
        return self._joins

    def progress(self) -> Sequence[SourceProgress | None]:
        """Return the progress of each scan."""
        return [scan.scan.progress() for scan in self._scans]

    def explain(self) -> str:
        """Describe the plan: each scan, then the joins before and after. This runs nothing."""
        lines = [line for key, report in self.report().items() for line in explained(key, report)]
        return "\n".join([*lines, *explained_joins(self._joins)])


def explained_joins(joins: Sequence[JoinReport]) -> list[str]:
    """Return the lines that describe the joins of each SELECT."""
    lines = []
    for number, join in enumerate(joins, 1):
        lines += [f"joins {number}", *(f"  {line}" for line in joins_text(join))]
    return lines


@dataclass
class PlanNode:
    """A node of an executed plan: its kind, its output rows if Spark counted them, and its inputs."""

    kind: str
    rows: int | None = None
    inputs: list[PlanNode] = field(default_factory=list)

    def nodes(self) -> Iterator[PlanNode]:
        """Yield the node and all nodes below it."""
        yield self
        for node in self.inputs:
            yield from node.nodes()


class JoinWatch:
    """The joins of the queries that Spark runs after the creation of this object."""

    def __init__(self, spark: SparkSession) -> None:
        self._watch = QueryWatch(spark)

    def with_row_counts(self, reports: Sequence[JoinReport]) -> tuple[JoinReport, ...]:
        """Return the reports with row counts, provided that exactly one executed plan has joins of the same shape."""
        if not reports:
            return ()
        plans = self._executed_plans()
        return tuple(report.model_copy(update={"after": add_row_counts(report.after, plans)}) for report in reports)

    def rows_through_joins(self) -> int:
        """Return the total output rows of all joins."""
        return sum(node.rows or 0 for plan in self._executed_plans() for node in plan.nodes() if node.kind in _JOINS)

    def _executed_plans(self) -> list[PlanNode]:
        """Return the final plans of the queries that ran."""
        store, roots = self._watch.store, []
        try:
            for number in map(query_number, self._watch.queries()):
                roots += parse_plan_graph(str(store.planGraph(number).makeDotFile(store.executionMetrics(number))))
        except Py4JError:
            # The store may have dropped the query already. A missing count must not fail the query.
            return []
        return roots


def parse_plan_graph(dot: str) -> list[PlanNode]:
    """Return the roots of a plan graph in DOT format. Its edges lead from inputs to consumers and show row counts.

    >>> graph = '''
    ... 1 [id="node1" labelType="html" label="<b>SortMergeJoin</b>"]
    ... 2 [id="node2" labelType="html" label="<b>Scan</b>"]
    ... 2->1 [label="1,200"]
    ... '''
    >>> parse_plan_graph(graph)
    [PlanNode(kind='SortMergeJoin', rows=None, inputs=[PlanNode(kind='Scan', rows=1200, inputs=[])])]
    """
    nodes = {int(number): PlanNode(kind) for number, kind in _NODE.findall(dot)}
    inputs = set()
    for source, target, rows in _EDGE.findall(dot):
        if int(source) in nodes and int(target) in nodes:
            node = nodes[int(source)]
            node.rows = int(rows.replace(",", "")) if rows else None
            nodes[int(target)].inputs.append(node)
            inputs.add(int(source))
    return [node for number, node in nodes.items() if number not in inputs]


def add_row_counts(tree: JoinTree, plans: Sequence[PlanNode]) -> JoinTree:
    """Return a tree with row counts, provided that exactly one part of the plans has joins of its shape."""
    joins = [node for plan in plans for node in plan.nodes() if node.kind in _JOINS]
    matching = [node for node in joins if _has_shape(tree, node)]
    topmost = [node for node in matching if not any(node in other.nodes() for other in matching if other is not node)]
    return _counted(tree, topmost[0]) if len(topmost) == 1 and tree.sides else tree


def _has_shape(tree: JoinTree, node: PlanNode | None) -> bool:
    """Return whether a plan has joins of the shape of a tree. Other nodes between the joins do not matter."""
    if not tree.sides:
        return True
    if node is None or node.kind not in _JOINS or len(node.inputs) != 2:
        return False
    return all(
        _has_shape(side, _next_join(child) if side.sides else child)
        for side, child in zip(tree.sides, node.inputs, strict=True)
    )


def _counted(tree: JoinTree, node: PlanNode) -> JoinTree:
    if not tree.sides:
        counted = _first_below(node, lambda each: each.rows is not None)
        return tree.model_copy(update={"actual": counted and counted.rows})
    sides = []
    for side, child in zip(tree.sides, node.inputs, strict=True):
        join = _next_join(child) if side.sides else None
        sides.append(_counted(side, child if join is None else join))
    return tree.model_copy(update={"actual": node.rows, "left": sides[0], "right": sides[1]})


def _next_join(node: PlanNode) -> PlanNode | None:
    return _first_below(node, lambda each: each.kind in _JOINS)


def _first_below(node: PlanNode, matches: Callable[[PlanNode], bool]) -> PlanNode | None:
    """Return the first node that matches on the way down through nodes with a single input, or None."""
    while not matches(node):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    return node
