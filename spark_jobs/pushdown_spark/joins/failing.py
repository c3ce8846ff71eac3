"""Finds conditions that may fail on a row: in another order joins meet rows that they never met before."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.joins.kept import is_typed_literal
from pushdown_spark.joins.outline import outline
from pushdown_spark.joins.push import Types
from pushdown_spark.runtime.jvm_gateway import elements, java_class, java_string

_NEVER_FAIL = (
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null),
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe, exp.Length),
    *(exp.StartsWith, exp.EndsWith, exp.Contains),
    *(exp.Coalesce, exp.Case, exp.If, exp.Nullif, exp.Greatest, exp.Least, exp.DataType),
)
_CONDITION = re.compile(r"^\W*(?:Join|Filter)\b")
_CAST = re.compile(r"\bcast\([^'\d]")
_HARMLESS = re.compile(
    r"\bcast\((?:(?:[\d.-]+|null) as [a-z]+(?:\(\d+,\d+\))?|\w+#\d+L as decimal\(20,0\))\)|\(0 [-+*/] 0\)"
)
"""Texts of casts and sums of constants, and of long integers as the decimals that hold them all."""
_WITH_CONDITIONS = ("Join", "Filter")


def may_fail(condition: exp.Expr, types: Types) -> bool:
    """Whether a condition does more than compare columns and constants; casts that Spark adds are not seen here."""
    return any(not _takes_any_value(node, types) for node in condition.walk())


def _takes_any_value(node: exp.Expr, types: Types) -> bool:
    """Whether a step of a condition fails on no value."""
    if isinstance(node, exp.Add | exp.Sub):
        # Days added to a date start again at the other end of time.
        date, days = node.left.unnest(), node.right.unnest()
        return isinstance(date, exp.Column) and types.is_date(date) and isinstance(days, exp.Literal) and days.is_int
    if isinstance(node, exp.Neg):
        # The least integer has no opposite.
        return isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Like | exp.ILike):
        # Patterns must not end in their escape character.
        return isinstance(node.expression, exp.Literal)
    return isinstance(node, _NEVER_FAIL) or is_typed_literal(node)


def casts_may_fail(frame: DataFrame) -> bool:
    """Whether Spark compares values in the conditions of a query by casts that not every value survives."""
    session = frame.sparkSession
    if not isinstance(session, SparkSession):
        return _told_to_cast(frame)
    plan = frame._jdf.queryExecution().analyzed()
    can_widen = java_class(session, "org.apache.spark.sql.catalyst.expressions.Cast").canUpCast
    return any(
        expression.getClass().getSimpleName() == "Cast"
        and not expression.child().foldable()
        and not can_widen(expression.child().dataType(), expression.dataType())
        for node in _found(plan, java_string(session, plan), _may_cast_rows)
        if node.nodeName() in _WITH_CONDITIONS
        for condition in elements(node.expressions())
        for expression in _found(condition, str(condition.treeString()), _is_cast)
    )


def _told_to_cast(frame: DataFrame) -> bool:
    """The same for Spark Connect, from what Spark tells of the plan: any cast of a column counts."""
    told = io.StringIO()
    with redirect_stdout(told):
        frame.explain(extended=True)
    analysed = told.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    lines = [line for line in analysed.splitlines() if _CONDITION.search(line)]
    return not analysed or any(_CAST.search(line) for line in lines)


def _found(tree: JavaObject, text: str, wanted: Callable[[str], object]) -> Iterator[JavaObject]:
    """The nodes of a tree, sub-queries included, whose lines in its text are wanted."""
    return (tree.apply(number) for number, line in enumerate(outline(tree, text)) if wanted(line.text))


def _may_cast_rows(line: str) -> bool:
    """Whether a line of a plan's text is a condition with casts of more than constants, or of what fits anyhow."""
    if not line.startswith(_WITH_CONDITIONS):
        return False
    before = ""
    while before != line:
        before, line = line, _HARMLESS.sub("0", line)
    return "cast(" in line


def _is_cast(line: str) -> bool:
    return line.startswith("cast(")
