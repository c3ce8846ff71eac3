"""Hints Spark to broadcast what comes out of joins: its SQL has no word for that, its plans do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.joins.outline import children, outline, queries
from pushdown_spark.runtime.jvm_gateway import (
    elements,
    java_class,
    java_string,
    plan_dataframe,
    scala_object,
    scala_seq,
)

CATALYST = "org.apache.spark.sql.catalyst"
LOGICAL = f"{CATALYST}.plans.logical"
_QUERY = f"{CATALYST}.expressions.PlanExpression"
_WAYS_UP: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: ("from_", "joins", "where", "having", "with_"),
    exp.Join: ("this",),
}
"""The parts of a query below which joins can be hinted: filters, and what becomes children of nodes of Spark's plan."""


def with_hints(frame: DataFrame, joined: frozenset[frozenset[str]]) -> DataFrame:
    """The frame, with a hint for every side of a join that joins just the views of one of the sets.

    A hint changes how Spark joins, never what. A set that no side has is passed over, and so is one in a sub-query that
    stands elsewhere than in a filter, see `takes_hints`.
    """
    if not joined:
        return frame
    spark = frame.sparkSession
    return plan_dataframe(spark, _Hints(spark, frame._jdf.queryExecution().analyzed(), joined).hinted())


def broadcast_hint(spark: SparkSession) -> JavaObject:
    """What the side of a join has in Spark's plan that is to be broadcast."""
    some = java_class(spark, "scala.Some")
    return some(java_class(spark, f"{LOGICAL}.HintInfo")(some(scala_object(spark, f"{LOGICAL}.BROADCAST"))))


def takes_hints(select: exp.Select) -> bool:
    """Whether joins of a SELECT can be hinted: not inside sub-queries in lists of columns or in conditions of joins.

    >>> from pushdown_spark.joins.text import parsed
    >>> tree = parsed("SELECT (SELECT max(x) FROM t) AS m FROM u WHERE y IN (SELECT y FROM v)")
    >>> [(select.args["from_"].name, takes_hints(select)) for select in tree.find_all(exp.Select)]
    [('u', True), ('t', False), ('v', True)]
    """
    node: exp.Expr = select
    while node.parent is not None:
        if node.arg_key not in _WAYS_UP.get(type(node.parent), (node.arg_key,)):
            return False
        node = node.parent
    return True


class _Hints:
    """Writes hints into a plan that Spark has analysed."""

    def __init__(self, spark: SparkSession, plan: JavaObject, joined: frozenset[frozenset[str]]) -> None:
        self._spark = spark
        self._plan = plan
        self._joined = joined
        self._join, self._both, self._filter = (
            java_class(spark, f"{LOGICAL}.{name}") for name in ("Join", "JoinHint", "Filter")
        )
        self._lines = outline(plan, java_string(spark, plan))
        self._children = children(self._lines)
        self._queries = [
            inner if line.text.startswith("Filter ") else []
            for line, inner in zip(self._lines, queries(self._lines), strict=True)
        ]
        self._reads = self._read_below()
        self._changes = self._changed()

    def hinted(self, number: int = 0) -> JavaObject:
        """A node of the plan with the hints for it and for what is below."""
        node, below = self._plan.apply(number), self._children[number]
        if not self._changes[number]:
            return node
        sides = [self.hinted(child) for child in below]
        if any(self._changes[query] for query in self._queries[number]):
            plans = iter([self.hinted(query) for query in self._queries[number]])
            return self._filter(self._with_plans(node.condition(), plans), *sides)
        if not self._has_side(number):
            return node.withNewChildren(scala_seq(self._spark, sides))
        hints = [self._hint(child, known) for child, known in zip(below, _known(node.hint()), strict=True)]
        return self._join(*sides, node.joinType(), node.condition(), self._both(*hints))

    def _with_plans(self, expression: JavaObject, plans: Iterator[JavaObject]) -> JavaObject:
        """An expression with other plans in its sub-queries, which are met in Spark's order."""
        if not expression.containsPattern(self._has_plan):
            return expression
        plan = next(plans) if self._is_query(expression) else None
        parts = [self._with_plans(part, plans) for part in elements(expression.children())]
        found = expression.withNewChildren(scala_seq(self._spark, parts))
        return found if plan is None else found.withNewPlan(plan)

    def _is_query(self, expression: JavaObject) -> bool:
        return bool(is_instance_of(self._spark.sparkContext._gateway, expression, _QUERY))

    @cached_property
    def _broadcast(self) -> JavaObject:
        return broadcast_hint(self._spark)

    @cached_property
    def _has_plan(self) -> JavaObject:
        return java_class(self._spark, f"{CATALYST}.trees.TreePattern").PLAN_EXPRESSION()

    def _read_below(self) -> list[frozenset[str]]:
        """For each node what it reads: the names of views in the sets, and numbers of other leaves."""
        named = frozenset[str]().union(*self._joined)
        found: list[frozenset[str]] = [frozenset()] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            kind, _, alias = self._lines[number].text.partition(" ")
            below = self._children[number]
            if kind == "SubqueryAlias" and alias in named:
                found[number] = frozenset({alias})
            else:
                found[number] = frozenset[str]().union(*(found[child] for child in below)) or frozenset({str(number)})
        return found

    def _changed(self) -> list[bool]:
        """For each node whether it is a join with a side to hint, or above one or around it."""
        found = [False] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            below = (*self._children[number], *self._queries[number])
            found[number] = self._has_side(number) or any(found[each] for each in below)
        return found

    def _has_side(self, number: int) -> bool:
        is_join = self._lines[number].text.startswith("Join ")
        return is_join and any(self._reads[child] in self._joined for child in self._children[number])

    def _hint(self, side: int, known: JavaObject) -> JavaObject:
        if self._reads[side] not in self._joined or known.isDefined():
            return known
        return self._broadcast


def _known(hint: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The hints that the sides of a join have already."""
    return hint.leftHint(), hint.rightHint()
