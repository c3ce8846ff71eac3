"""The row counts of executed joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pushdown_spark.contract import JoinReport, JoinTree
from pushdown_spark.runtime.executed_plan import PlanNode
from pushdown_spark.runtime.query_metrics import QueryWatch

_JOINS = frozenset(
    {"BroadcastHashJoin", "SortMergeJoin", "ShuffledHashJoin", "BroadcastNestedLoopJoin", "CartesianProduct"}
)


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
        try:
            return [root for query in self._watch.queries() for root in self._watch.plan(query)]
        except Py4JError:
            # The store may have dropped the query already. A missing count must not fail the query.
            return []


def is_join(node: PlanNode) -> bool:
    """Return whether a node of an executed plan joins its inputs."""
    return node.kind in _JOINS


def add_row_counts(tree: JoinTree, plans: Sequence[PlanNode]) -> JoinTree:
    """Return a tree with row counts, provided that exactly one part of the plans has joins of its shape."""
    joins = [node for plan in plans for node in plan.nodes() if is_join(node)]
    parts = [node for node in joins if _has_shape(tree, node)]
    topmost = [node for node in parts if not any(node in other.nodes() for other in parts if other is not node)]
    return _add_counts(tree, topmost[0]) if len(topmost) == 1 and tree.sides else tree


def _has_shape(tree: JoinTree, node: PlanNode | None) -> bool:
    """Return whether a plan has joins of the shape of a tree. Other nodes between the joins do not matter."""
    if not tree.sides:
        return True
    if node is None or not is_join(node) or len(node.inputs) != 2:
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
    return _first_below(node, is_join)


def _first_below(node: PlanNode, matches: Callable[[PlanNode], bool]) -> PlanNode | None:
    """Return the first node that matches on the way down through nodes with a single input, or None."""
    while not matches(node):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    return node
