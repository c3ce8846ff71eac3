"""Finds conditions that may fail on a row: in another order joins meet rows that they never met before."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from spark_jobs.gateway import jvm
from spark_jobs.joins.text import is_typed_literal

_NEVER_FAIL = (
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Neg),
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is),
    *(exp.Like, exp.Lower, exp.Upper, exp.Coalesce, exp.DataType),
)
_CONDITION = re.compile(r"^\W*(?:Join|Filter)\b")
_CAST = re.compile(r"\bcast\([^'\d]")
_WITH_CONDITIONS = frozenset({"Join", "Filter"})


def may_fail(condition: exp.Expr) -> bool:
    """Whether a condition does more than compare columns and constants; casts that Spark adds are not seen here."""
    return any(not isinstance(node, _NEVER_FAIL) and not is_typed_literal(node) for node in condition.walk())


def casts_may_fail(frame: DataFrame) -> bool:
    """Whether Spark compares values in the conditions of a query by casts that not every value survives."""
    session = frame.sparkSession
    if not isinstance(session, SparkSession):
        return _told_to_cast(frame)
    plan = frame._jdf.queryExecution().analyzed()
    if _CAST.search(str(plan.toString())) is None:
        # Asking every node of a plan takes a while.
        return False
    can_widen = jvm(session).org.apache.spark.sql.catalyst.expressions.Cast.canUpCast
    return any(
        expression.getClass().getSimpleName() == "Cast"
        and not expression.child().foldable()
        and not can_widen(expression.child().dataType(), expression.dataType())
        for node in _plans(plan)
        if node.nodeName() in _WITH_CONDITIONS
        for condition in _each(node.expressions())
        for expression in _nodes(condition)
    )


def _told_to_cast(frame: DataFrame) -> bool:
    """The same for Spark Connect, from what Spark tells of the plan: any cast of a column counts."""
    told = io.StringIO()
    with redirect_stdout(told):
        frame.explain(extended=True)
    analysed = told.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    lines = [line for line in analysed.splitlines() if _CONDITION.search(line)]
    return not analysed or any(_CAST.search(line) for line in lines)


def _plans(plan: JavaObject) -> Iterator[JavaObject]:
    """A plan and all plans in it, those of sub-queries too."""
    for node in _nodes(plan):
        yield node
        for query in _each(node.subqueries()):
            yield from _plans(query)


def _nodes(tree: JavaObject) -> Iterator[JavaObject]:
    """A tree of Spark's, and all trees in it."""
    yield tree
    for child in _each(tree.children()):
        yield from _nodes(child)


def _each(sequence: JavaObject) -> Iterator[JavaObject]:
    yield from (sequence.apply(place) for place in range(sequence.size()))
