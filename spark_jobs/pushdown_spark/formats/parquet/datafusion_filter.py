"""Translates bound trees to DataFusion's expressions, as prefilters of a Parquet scan.

The result keeps every row that passes the predicate, also where DataFusion prunes row groups and pages by statistics
that other libraries wrote. Nodes whose meaning differs are left out where the result then keeps more rows. Our own
filter evaluates the whole tree over the rows that remain.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce

import pyarrow as pa
from datafusion import Expr, col, lit
from datafusion import functions as f

from pushdown_spark.expressions.bound import (
    And,
    Column,
    ColumnComparison,
    Comparison,
    InList,
    IsNull,
    IsTrue,
    LikeMatch,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
    StringTest,
)
from pushdown_spark.expressions.types import FLOATING, LogicalType, Value

_ARROW_TYPES = {
    LogicalType.DATE: pa.date32(),
    LogicalType.TIMESTAMP: pa.timestamp("us", "UTC"),
    LogicalType.TIMESTAMP_NTZ: pa.timestamp("us"),
}
"""Types of columns whose values are compared as integers in bound trees."""
_MAX_PRUNED_LIST = 20
"""DataFusion prunes by each value of a list up to this length."""
_TESTS: dict[StringTest, Callable[[Expr, Expr], Expr]] = {
    StringTest.PREFIX: f.starts_with,
    StringTest.SUFFIX: f.ends_with,
    StringTest.CONTAINS: f.contains,
}
_OPERATORS: dict[Op, Callable[[Expr, Expr], Expr]] = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}

FileName = Callable[[Column], str | None]
"""Returns the file's name of the top-level column that contains a column, or None if it must not be filtered."""


def datafusion_filter(root: Node, file_name: FileName) -> Expr | None:
    """Return an expression that is true for all rows that pass, or None if there is none but TRUE."""
    return _Translator(file_name).superset(root)


def quoted_column(name: str) -> Expr:
    """Return a top-level column. DataFusion would change the case of a name without quotes."""
    return col('"' + name.replace('"', '""') + '"')


class _Translator:
    """Translates nodes to expressions that are true wherever the node is, or that have its value."""

    def __init__(self, file_name: FileName) -> None:
        self._file_name = file_name

    def superset(self, node: Node) -> Expr | None:
        """Return an expression that is true wherever the node is, or None if there is none but TRUE."""
        match node:
            case And(parts=parts):
                expressions = [part for part in map(self.superset, parts) if part is not None]
                return reduce(operator.and_, expressions) if expressions else None
            case Or(parts=parts):
                return _join(parts, self.superset, operator.or_)
            case IsTrue(part=part):
                return self.superset(part)
            case Not(part=InList(column=column, values=(), has_null=False, has_nan=False)):
                value = self._column(column)
                return None if value is None else value.is_not_null()
            case LikeMatch():
                return self._like(node)
            case Comparison(column=column) if column.type in FLOATING:
                return self._float(node)
            case InList(column=column):
                return self._in_list(node)
        return self._exact(node)

    def _exact(self, node: Node) -> Expr | None:
        """Return an expression with the node's value in three-valued logic, or None if there is none."""
        match node:
            case And(parts=parts):
                return _join(parts, self._exact, operator.and_)
            case Or(parts=parts):
                return _join(parts, self._exact, operator.or_)
            case Not(part=part):
                inner = self._exact(part)
                return None if inner is None else ~inner
            case InList(column=column, has_null=False):
                return self._in_list(node)
            case IsNull(column=column):
                return self._is_null(column)
            case StringMatch(column=column, test=test, text=text):
                value = self._column(column)
                return None if value is None else _TESTS[test](value, lit(text))
            case Comparison():
                return self._comparison(node)
            case ColumnComparison():
                return self._column_comparison(node)
        return None

    def _column(self, column: Column) -> Expr | None:
        values = self._members(column)
        return values[-1] if values else None

    def _members(self, column: Column) -> list[Expr]:
        """Return a top-level column and the members below it on the way to a column, or nothing if it has no name."""
        name = self._file_name(column)
        if name is None:
            return []
        values = [quoted_column(name)]
        for member in column.path[1:]:
            values.append(values[-1][member])
        return values

    def _is_null(self, column: Column) -> Expr | None:
        """Test a member and every struct around it: DataFusion takes required members of a NULL struct for not NULL."""
        tests = [value.is_null() for value in self._members(column)]
        return reduce(operator.or_, tests) if tests else None

    def _comparison(self, node: Comparison) -> Expr | None:
        column = self._column(node.column)
        if column is None or node.column.type in FLOATING:
            return None
        return _OPERATORS[node.op](column, _literal(node.column, node.value))

    def _column_comparison(self, node: ColumnComparison) -> Expr | None:
        left, right = self._column(node.left), self._column(node.right)
        if left is None or right is None or node.left.type in FLOATING or node.left.storage != node.right.storage:
            return None
        return _OPERATORS[node.op](left, right)

    def _float(self, node: Comparison) -> Expr | None:
        """Compare floats so that NaN and both zeros pass.

        Statistics do not include NaN, and writers treat zeros differently. A disjunction with `isnan` has no pruning
        predicate, so that only values decide.
        """
        column = self._column(node.column)
        if column is None or not isinstance(node.value, float):
            return None
        is_nan = f.isnan(column)
        if math.isnan(node.value):
            return is_nan
        low = _literal(node.column, -0.0 if node.value == 0.0 else node.value)
        high = _literal(node.column, 0.0 if node.value == 0.0 else node.value)
        match node.op:
            case Op.EQ:
                test = (column >= low) & (column <= high)
            case Op.LT | Op.LE:
                test = _OPERATORS[node.op](column, high)
            case _:
                test = _OPERATORS[node.op](column, low)
        return test | is_nan

    def _in_list(self, node: InList) -> Expr | None:
        """Test for the values of a list. Statistics prune long lists only by the smallest and the largest value."""
        column = self._column(node.column)
        if column is None or node.column.type in FLOATING or not node.values:
            return None
        values = [_literal(node.column, value) for value in node.values]
        is_in = f.in_list(column, values)
        return is_in if len(values) <= _MAX_PRUNED_LIST else (column >= values[0]) & (column <= values[-1]) & is_in

    def _like(self, node: LikeMatch) -> Expr | None:
        """Search for the literals of a pattern, which every match contains."""
        column = self._column(node.column)
        if column is None:
            return None
        tests = [f.contains(column, lit(text)) for text in node.literals]
        if node.hint is not None:
            tests.append(_TESTS[node.hint.test](column, lit(node.hint.text)))
        return reduce(operator.and_, tests) if tests else None


def _join(
    parts: tuple[Node, ...], translate: Callable[[Node], Expr | None], join: Callable[[Expr, Expr], Expr]
) -> Expr | None:
    """Join all parts, or None if one has no expression."""
    expressions = [part for part in map(translate, parts) if part is not None]
    return reduce(join, expressions) if len(expressions) == len(parts) else None


def _literal(column: Column, value: Value) -> Expr:
    kind = _ARROW_TYPES.get(column.type)
    if kind is None:
        return lit(pa.scalar(value, column.storage))
    return lit(pa.scalar(value, column.storage).cast(kind))
