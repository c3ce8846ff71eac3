"""Add broadcast hints for the results of joins. Spark SQL has no syntax for these, but Spark's plans can carry them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.optimizer.catalyst import CATALYST, LOGICAL, child_numbers, subquery_numbers, tree_lines
from pushdown_spark.runtime.jvm_gateway import elements, is_instance, java_class, java_string, scala_object, scala_seq
from pushdown_spark.runtime.spark_internals import analyzed_plan, plan_dataframe

MAX_BROADCAST_BYTES = 64 << 20
"""Maximum bytes in memory of a relation that is hinted, unless its conditions are very selective."""
_UNFILTERED_FACTOR = 2.0
"""A filtered relation may have this many times the limit without its filter, in case the selectivity is wrong."""
_FILTERED_MARGIN = 4.0
"""A filtered relation must be expected to have this many times fewer bytes than the limit."""

_PLAN_EXPRESSION = f"{CATALYST}.expressions.PlanExpression"
_HINTABLE_PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: ("from_", "joins", "where", "having", "with_"),
    exp.Join: ("this",),
}
"""Parts of a query whose sub-queries can be hinted: filters, and parts that become children of Spark's plan nodes."""


def fits_broadcast(max_bytes: float | None, expected_fraction: float, limit: int) -> bool:
    """Return whether a relation fits a broadcast hint, given a bound on its bytes and its expected selectivity.

    >>> [fits_broadcast(size, fraction, 100) for size, fraction in ((100, 1.0), (150, 0.1), (150, 0.5), (None, 0.0))]
    [True, True, False, False]
    """
    if max_bytes is None:
        return False
    is_selective = max_bytes <= _UNFILTERED_FACTOR * limit and max_bytes * expected_fraction * _FILTERED_MARGIN <= limit
    return max_bytes <= limit or is_selective


def supports_join_hints(select: exp.Select) -> bool:
    """Return whether the joins of a SELECT can be hinted.

    Sub-queries in SELECT lists and in join conditions cannot.

    >>> from pushdown_spark.optimizer.plans.sql_reader import parse_query
    >>> tree = parse_query("SELECT (SELECT max(x) FROM t) AS m FROM u WHERE y IN (SELECT y FROM v)")
    >>> [(select.args["from_"].name, supports_join_hints(select)) for select in tree.find_all(exp.Select)]
    [('u', True), ('t', False), ('v', True)]
    """
    node: exp.Expr = select
    while node.parent is not None:
        if node.arg_key not in _HINTABLE_PARTS.get(type(node.parent), (node.arg_key,)):
            return False
        node = node.parent
    return True


def add_broadcast_hints(frame: DataFrame, broadcast: frozenset[frozenset[str]]) -> DataFrame:
    """Return a DataFrame with a hint for every side of a join that reads exactly the views of one of the sets.

    A hint changes how Spark joins, never the result. Sets without such a side are ignored.
    """
    if not broadcast:
        return frame
    spark = frame.sparkSession
    return plan_dataframe(spark, _HintWriter(spark, analyzed_plan(frame), broadcast).rewrite())


def broadcast_hint(spark: SparkSession) -> JavaObject:
    """Return the hint in Spark's plan for a side of a join that is to be broadcast."""
    some = java_class(spark, "scala.Some")
    return some(java_class(spark, f"{LOGICAL}.HintInfo")(some(scala_object(spark, f"{LOGICAL}.BROADCAST"))))


class _HintWriter:
    """Writes hints into an analyzed plan. Nodes are identified by their numbers in the tree string."""

    def __init__(self, spark: SparkSession, plan: JavaObject, broadcast: frozenset[frozenset[str]]) -> None:
        self._spark = spark
        self._plan = plan
        self._broadcast = broadcast
        self._broadcast_hint = broadcast_hint(spark)
        self._new_join, self._new_join_hint, self._new_filter = (
            java_class(spark, f"{LOGICAL}.{name}") for name in ("Join", "JoinHint", "Filter")
        )
        self._lines = tree_lines(plan, java_string(spark, plan))
        self._children = child_numbers(self._lines)
        self._queries = [
            queries if line.text.startswith("Filter ") else []
            for line, queries in zip(self._lines, subquery_numbers(self._lines), strict=True)
        ]
        self._relations = self._relations_below()
        self._changes = self._changed_nodes()

    def rewrite(self, number: int = 0) -> JavaObject:
        """Return a node of the plan with the hints for it and for all nodes below it."""
        node, children = self._plan.apply(number), self._children[number]
        if not self._changes[number]:
            return node
        inputs = [self.rewrite(child) for child in children]
        if any(self._changes[query] for query in self._queries[number]):
            plans = iter([self.rewrite(query) for query in self._queries[number]])
            return self._new_filter(self._with_plans(node.condition(), plans), *inputs)
        if not self._has_broadcast_side(number):
            return node.withNewChildren(scala_seq(self._spark, inputs))
        current = node.hint()
        # A hint of the query itself stays.
        hints = [
            hint if self._relations[child] not in self._broadcast or hint.isDefined() else self._broadcast_hint
            for child, hint in zip(children, (current.leftHint(), current.rightHint()), strict=True)
        ]
        return self._new_join(*inputs, node.joinType(), node.condition(), self._new_join_hint(*hints))

    def _with_plans(self, expression: JavaObject, plans: Iterator[JavaObject]) -> JavaObject:
        """Return an expression with other plans in its sub-queries, which are visited in Spark's order."""
        if not expression.containsPattern(self._plan_pattern):
            return expression
        is_subquery = is_instance(expression, _PLAN_EXPRESSION)
        plan = next(plans) if is_subquery else None
        parts = [self._with_plans(part, plans) for part in elements(expression.children())]
        new_expression = expression.withNewChildren(scala_seq(self._spark, parts))
        return new_expression if plan is None else new_expression.withNewPlan(plan)

    @cached_property
    def _plan_pattern(self) -> JavaObject:
        return java_class(self._spark, f"{CATALYST}.trees.TreePattern").PLAN_EXPRESSION()

    def _relations_below(self) -> list[frozenset[str]]:
        """Return for each node the views of the sets that it reads, and the numbers of other leaves."""
        views = frozenset[str]().union(*self._broadcast)
        relations: list[frozenset[str]] = [frozenset()] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            kind, _, alias = self._lines[number].text.partition(" ")
            if kind == "SubqueryAlias" and alias in views:
                relations[number] = frozenset({alias})
            else:
                below = frozenset[str]().union(*(relations[child] for child in self._children[number]))
                relations[number] = below or frozenset({str(number)})
        return relations

    def _changed_nodes(self) -> list[bool]:
        """Return for each node whether it, or a node below it or in its sub-queries, gets a hint."""
        changes = [False] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            below = (*self._children[number], *self._queries[number])
            changes[number] = self._has_broadcast_side(number) or any(changes[node] for node in below)
        return changes

    def _has_broadcast_side(self, number: int) -> bool:
        is_join = self._lines[number].text.startswith("Join ")
        return is_join and any(self._relations[child] in self._broadcast for child in self._children[number])
