"""The row counts of executed joins, from the plan graphs and metrics in Spark's SQL status store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pushdown_spark.contract import JoinReport, JoinTree
from pushdown_spark.runtime.query_metrics import QueryWatch, query_number

_NODE = re.compile(r'^\s*(\d+) \[id="node\d+" (?:labelType="html" )?label="(?:<b>)?(\w+)', re.MULTILINE)
_EDGE = re.compile(r'^\s*(\d+)->(\d+)(?: \[label="([\d,]+)")?', re.MULTILINE)
_JOINS = frozenset(
    {"BroadcastHashJoin", "SortMergeJoin", "ShuffledHashJoin", "BroadcastNestedLoopJoin", "CartesianProduct"}
)


@dataclass
class PlanNode:
    """A node of an executed plan: its kind, its output rows if Spark counted them, and its inputs."""

    kind: str
    rows: int | None = None
    inputs: list[PlanNode] = field(default_factory=list)

    @property
    def is_join(self) -> bool:
        """Whether the node joins its inputs."""
        return self.kind in _JOINS

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
        plans = self.executed_plans()
        return tuple(report.model_copy(update={"after": add_row_counts(report.after, plans)}) for report in reports)

    def executed_plans(self) -> list[PlanNode]:
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
    joins = [node for plan in plans for node in plan.nodes() if node.is_join]
    matching = [node for node in joins if _has_shape(tree, node)]
    topmost = [node for node in matching if not any(node in other.nodes() for other in matching if other is not node)]
    return _add_counts(tree, topmost[0]) if len(topmost) == 1 and tree.sides else tree


def _has_shape(tree: JoinTree, node: PlanNode | None) -> bool:
    """Return whether a plan has joins of the shape of a tree. Other nodes between the joins do not matter."""
    if not tree.sides:
        return True
    if node is None or not node.is_join or len(node.inputs) != 2:
        return False
    return all(
        _has_shape(side, _next_join(child) if side.sides else child)
        for side, child in zip(tree.sides, node.inputs, strict=True)
    )


def _add_counts(tree: JoinTree, node: PlanNode) -> JoinTree:
    if not tree.sides:
        with_rows = _first_below(node, lambda candidate: candidate.rows is not None)
        return tree.model_copy(update={"actual": with_rows and with_rows.rows})
    sides = []
    for side, child in zip(tree.sides, node.inputs, strict=True):
        join = _next_join(child) if side.sides else None
        sides.append(_add_counts(side, child if join is None else join))
    return tree.model_copy(update={"actual": node.rows, "left": sides[0], "right": sides[1]})


def _next_join(node: PlanNode) -> PlanNode | None:
    return _first_below(node, lambda candidate: candidate.is_join)


def _first_below(node: PlanNode, matches: Callable[[PlanNode], bool]) -> PlanNode | None:
    """Return the first node that matches on the way down through nodes with a single input, or None."""
    while not matches(node):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    return node
