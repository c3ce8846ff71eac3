"""Evaluation of constant expressions: integer arithmetic here, everything else by Spark."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.expressions.scope import Fold

_FOLDABLE = (
    exp.Literal,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.IntervalSpan,
    exp.DateAdd,
    exp.DateSub,
    exp.AddMonths,
    exp.Boolean,
)
_ARITHMETIC: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_INT_DIGITS = 10
"""Digits of the longest 32-bit integer."""
_MAX_DEPTH = 20
# With a list of rows, Spark's optimizer evaluates the constant. Without FROM, Spark starts a job, which takes longer.
_ONE_ROW = "FROM VALUES (0) AS one(`no column`)"


def is_constant(node: exp.Expr) -> bool:
    """Return whether an expression consists of literals and of operations whose result never changes."""
    node = node.unnest()
    return isinstance(node, exp.Null | exp.HexString) or all(isinstance(part, _FOLDABLE) for part in node.walk())


def evaluate_constant(spark: SparkSession, sql: str) -> object:
    """Evaluate a constant expression. Returns None where Spark finds an error, or Python has no such value."""
    try:
        row = spark.sql(f"SELECT {sql} {_ONE_ROW}").head()
    except (PySparkException, ValueError, OverflowError):
        # For example an overflow in ANSI mode, or a date outside Python's calendar.
        return None
    return None if row is None else row[0]


def cached_fold(spark: SparkSession) -> Fold:
    """Return a function that evaluates constant expressions. Each is evaluated once, as Spark takes milliseconds."""

    @cache
    def fold(sql: str) -> object:
        return evaluate_constant(spark, sql)

    return fold


def prefetch(fold: Fold, expressions: Sequence[str]) -> Fold:
    """Return a fold that has evaluated some expressions in one query."""
    values = fold(f"struct({', '.join(expressions)})") if len(expressions) > 1 else None
    if not isinstance(values, tuple):
        return fold
    value_by_sql = dict(zip(expressions, values, strict=True))
    return lambda sql: value_by_sql[sql] if sql in value_by_sql else fold(sql)


def integer_value(node: exp.Expr, depth: int = _MAX_DEPTH) -> int | None:
    """Evaluate sums and products of integers where every step fits into 32 bits, as Spark does; else return None.

    Expressions that are nested more than `depth` levels deep are left to Spark.

    >>> import sqlglot
    >>> integer_value(sqlglot.parse_one("60 * (24 - 1)"))
    1380
    >>> integer_value(sqlglot.parse_one("100000 * 100000"))
    """
    if not depth:
        return None
    node = node.unnest()
    value: int | None = None
    if isinstance(node, exp.Literal) and not node.is_string and len(node.name) <= _INT_DIGITS and node.is_int:
        value = int(node.name)
    elif isinstance(node, exp.Neg):
        inner = integer_value(node.this, depth - 1)
        value = None if inner is None else -inner
    elif operation := _ARITHMETIC.get(type(node)):
        left, right = (integer_value(side, depth - 1) for side in (node.this, node.expression))
        value = None if left is None or right is None else operation(left, right)
    return value if value is not None and -(2**31) <= value < 2**31 else None
