"""Counts the rows that really flowed out of the joins of a query, from what Spark's SQL status store knows of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    """A node of an executed plan: its kind, the rows that flowed out of it where Spark counted them, its inputs."""

    kind: str
    rows: int | None = None
    inputs: list[PlanNode] = field(default_factory=list)

    def nodes(self) -> Iterator[PlanNode]:
        """The node and all below it."""
        yield self
        for each in self.inputs:
            yield from each.nodes()


class JoinWatch:
    """The joins of the queries that Spark runs from when it is made."""

    def __init__(self, spark: SparkSession) -> None:
        self._watch = QueryWatch(spark)

    def counted(self, reports: Sequence[JoinReport]) -> tuple[JoinReport, ...]:
        """The reports with counts, where the plans that ran hold a tree of joins of the same shape, and only one."""
        if not reports:
            return ()
        plans = self._plans()
        return tuple(report.model_copy(update={"after": with_counts(report.after, plans)}) for report in reports)

    def rows_through_joins(self) -> int:
        """Rows that flowed out of all joins of the queries that ran."""
        return sum(node.rows or 0 for plan in self._plans() for node in plan.nodes() if node.kind in _JOINS)

    def _plans(self) -> list[PlanNode]:
        """The plans of the queries that ran, as they were in the end."""
        store, roots = self._watch.store, []
        try:
            for number in map(query_number, self._watch.queries()):
                roots += parsed_plan(str(store.planGraph(number).makeDotFile(store.executionMetrics(number))))
        except Py4JError:
            # Counts are an extra: a store that has forgotten the query must not make it fail.
            return []
        return roots


def parsed_plan(dot: str) -> list[PlanNode]:
    """The roots of a plan as Spark's web page draws it: nodes, edges from an input to what takes it, rows on edges."""
    nodes = {int(number): PlanNode(kind) for number, kind in _NODE.findall(dot)}
    below = set()
    for source, target, rows in _EDGE.findall(dot):
        if int(source) in nodes and int(target) in nodes:
            child = nodes[int(source)]
            child.rows = int(rows.replace(",", "")) if rows else None
            nodes[int(target)].inputs.append(child)
            below.add(int(source))
    return [node for number, node in nodes.items() if number not in below]


def with_counts(tree: JoinTree, plans: Sequence[PlanNode]) -> JoinTree:
    """The tree with rows counted, where exactly one place of the plans has joins of its shape."""
    tops = [node for plan in plans for node in plan.nodes() if node.kind in _JOINS]
    fitting = [node for node in tops if _fits(tree, node)]
    largest = [node for node in fitting if not any(node in other.nodes() for other in fitting if other is not node)]
    return _filled(tree, largest[0]) if len(largest) == 1 and tree.sides else tree


def _fits(tree: JoinTree, node: PlanNode | None) -> bool:
    """Whether a plan joins in the shape of a tree; what it does to a relation before that does not matter."""
    if not tree.sides:
        return True
    if node is None or node.kind not in _JOINS or len(node.inputs) != 2:
        return False
    return all(
        _fits(side, _join_below(each) if side.sides else each)
        for side, each in zip(tree.sides, node.inputs, strict=True)
    )


def _filled(tree: JoinTree, node: PlanNode) -> JoinTree:
    if not tree.sides:
        return tree.model_copy(update={"actual": _rows_below(node)})
    sides = []
    for side, each in zip(tree.sides, node.inputs, strict=True):
        below = _join_below(each)
        sides.append(_filled(side, below if side.sides and below is not None else each))
    return tree.model_copy(update={"actual": node.rows, "left": sides[0], "right": sides[1]})


def _join_below(node: PlanNode) -> PlanNode | None:
    """The join that a node's rows come from through nodes of one input."""
    while node.kind not in _JOINS:
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    return node


def _rows_below(node: PlanNode) -> int | None:
    """Rows of a relation: of the highest node of one input that counted them."""
    seen: PlanNode | None = node
    while seen is not None:
        if seen.rows is not None:
            return seen.rows
        seen = seen.inputs[0] if len(seen.inputs) == 1 else None
    return None
