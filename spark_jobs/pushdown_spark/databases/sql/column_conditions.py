"""Remote conditions for bound predicates, whose columns and constants need no casts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from sqlglot import exp

from pushdown_spark.databases.sql.builder import (
    all_of,
    any_of,
    binary,
    bytes_literal,
    cast,
    date_literal,
    double,
    in_integers,
    in_values,
    is_null,
    is_true,
    negate,
    number,
    timestamp_literal,
)
from pushdown_spark.databases.sql.column_operands import ColumnOperand, column_operand, null_test_operand
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.sql.string_comparison import (
    OPERATORS,
    ColumnTest,
    StringComparison,
    column_comparison,
    never_true,
)
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import (
    And,
    BooleanConstant,
    Column,
    ColumnComparison,
    Comparison,
    InList,
    IsNull,
    IsTrue,
    IsUnknown,
    LikeMatch,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
)
from pushdown_spark.expressions.names import EXACT_NAMES, NameRule
from pushdown_spark.expressions.types import FLOATING, TEMPORAL, LogicalType, Value

_MAX_EXACT_DOUBLE = 2**53 - 1
_TRUNCATION_BOUNDS: dict[Op, tuple[int | None, int | None]] = {
    Op.EQ: (-1, 1),
    Op.LT: (None, 0),
    Op.LE: (None, 1),
    Op.GT: (0, None),
    Op.GE: (-1, None),
}
"""Bounds of the numbers that satisfy a comparison with an integer after truncation, relative to that integer."""


class Polarity(StrEnum):
    """The requirement for a condition at its position in the predicate.

    At the top, in AND and in OR, a condition may be true for more rows than its original (`TRUE_ROWS`). Under NOT, it
    may be false for more rows (`FALSE_ROWS`). Inside expressions, its value must be equal in every row (`VALUE`).
    """

    TRUE_ROWS = "rows where it is true"
    FALSE_ROWS = "rows where it is false"
    VALUE = "its value in every row"

    @property
    def opposite(self) -> Polarity:
        """The requirement for the operand of NOT."""
        return {Polarity.TRUE_ROWS: Polarity.FALSE_ROWS, Polarity.FALSE_ROWS: Polarity.TRUE_ROWS}.get(self, self)


class ColumnConditions:
    """A writer of conditions over a table's columns. `rechecks` are conditions of rows that Spark rechecks."""

    def __init__(self, table: RemoteTable) -> None:
        self.table = table
        self.dialect = table.dialect
        self.rechecks: list[exp.Expr] = []

    def recheck(self, condition: exp.Expr | None) -> None:
        """Let the database return the rows where a condition is true, so that Spark evaluates the predicate on them."""
        if condition is not None and condition not in self.rechecks:
            self.rechecks.append(condition)

    def column_operand(self, column: RemoteColumn) -> ColumnOperand:
        """Return a column for comparisons, and collect the rows to recheck."""
        operand = column_operand(column, self.dialect)
        self.recheck(operand.recheck)
        return operand

    def comparison(self, operand: ColumnOperand) -> StringComparison:
        """Return how a string column is compared."""
        return column_comparison(operand, self.dialect)

    def write(self, node: Node, polarity: Polarity) -> exp.Expr:
        """Return a bound condition as SQL. Raises UnsupportedError if no remote condition meets the requirement."""
        match node:
            case And(parts=parts) | Or(parts=parts):
                is_and = isinstance(node, And) is not (polarity is Polarity.FALSE_ROWS)
                return (all_of if is_and else any_of)([self.write(part, polarity) for part in parts])
            case Not(part=part):
                inner = self.write(part, polarity.opposite)
                return negate(inner) if polarity is Polarity.VALUE else inner
            case BooleanConstant(value=value):
                return _constant(value, polarity)
            case IsTrue() | IsUnknown():
                return self._null_safe_test(node, polarity)
            case IsNull(column=column):
                operand = null_test_operand(self.column(column.path), self.dialect)
                self.recheck(operand.recheck)
                test = ColumnTest(self._is_null(operand))
            case _:
                test = self._leaf(node)
        return with_polarity(test, polarity)

    def _is_null(self, operand: ColumnOperand) -> exp.Expr:
        """Return `column IS NULL`. For PostgreSQL's composite types, IS NULL is also true if all members are NULL."""
        if self.dialect is Dialect.POSTGRES and operand.kind is LogicalType.OTHER:
            return exp.NullSafeEQ(this=operand.value, expression=exp.Null())
        return is_null(operand.value)

    def _null_safe_test(self, node: IsTrue | IsUnknown, polarity: Polarity) -> exp.Expr:
        if isinstance(node, IsTrue) and polarity is Polarity.TRUE_ROWS:
            return self.write(node.part, polarity)
        value = self.write(node.part, Polarity.VALUE)
        test = is_true(value) if isinstance(node, IsTrue) else is_null(value)
        return negate(test) if polarity is Polarity.FALSE_ROWS else test

    def column(self, path: Sequence[str], *, name_rule: NameRule = EXACT_NAMES) -> RemoteColumn:
        """Return the column of a path. Raises UnsupportedError if the table has no such column."""
        column = self.table.column(path[0], name_rule) if len(path) == 1 else None
        if column is None:
            raise UnsupportedError(f"{'.'.join(path)} is not a column of the remote table")
        return column

    def _operand(self, column: Column) -> ColumnOperand:
        return self.column_operand(self.column(column.path))

    def _leaf(self, node: Node) -> ColumnTest:
        match node:
            case Comparison(column=column, op=op, value=value):
                return self._compare(self._operand(column), op, value)
            case InList(column=column):
                return self._one_of(self._operand(column), node)
            case StringMatch(column=column, test=how, text=text):
                return self.comparison(self._operand(column)).match(how, text)
            case LikeMatch(column=column, pieces=pieces):
                comparison = self.comparison(self._operand(column))
                # SQLite's GLOB stops at a NUL character.
                self.recheck(comparison.stops_at_nul)
                return comparison.like(pieces)
            case ColumnComparison(op=op, left=left, right=right):
                return self._pair(op, self._operand(left), self._operand(right))
        raise UnsupportedError("the database has no equivalent of the pattern")

    def _compare(self, operand: ColumnOperand, op: Op, value: Value) -> ColumnTest:
        if operand.kind is LogicalType.STRING:
            return self.comparison(operand).compare(op, str(value))
        if operand.kind is LogicalType.BOOLEAN:
            return ColumnTest(operand.value if value else negate(operand.value))
        self._check_equality(operand, op, [value])
        if operand.kind in FLOATING and self.dialect is not Dialect.POSTGRES:
            outcome = _constant_outcome(op, float(value), has_infinity=self.dialect is Dialect.SQLITE)
            if outcome is not None:
                return ColumnTest(negate(never_true(operand.value)) if outcome else never_true(operand.value))
        hint = self._index_hint(operand, op, [value])
        return ColumnTest(binary(OPERATORS[op], operand.value, self._literal(operand, value)), index_hint=hint)

    def _index_hint(self, operand: ColumnOperand, op: Op, values: Sequence[Value]) -> exp.Expr | None:
        """Return a condition that the test implies and that lets SQLite use an index, or None if it is not needed.

        A column declared as integer may hold reals and strings, so its cast is compared. The cast truncates reals
        towards zero. Strings and blobs are greater than every number.
        """
        if (
            self.dialect is not Dialect.SQLITE
            or operand.kind is not LogicalType.INTEGER
            or operand.column.has_one_storage_class
        ):
            return None
        if any(int(value) != value or abs(int(value)) > _MAX_EXACT_DOUBLE for value in values):
            return None
        below, above = _TRUNCATION_BOUNDS[op]
        parts = []
        if below is not None:
            parts.append(binary(exp.GT, operand.column.reference, number(min(map(int, values)) + below)))
        if above is None:
            return parts[0]
        parts.append(binary(exp.LT, operand.column.reference, number(max(map(int, values)) + above)))
        return any_of([all_of(parts), binary(exp.GTE, operand.column.reference, exp.Literal.string(""))])

    def _check_equality(self, operand: ColumnOperand, op: Op, values: Sequence[Value]) -> None:
        """Raise UnsupportedError for equality with values that may have lost precision in the database."""
        if self.dialect is Dialect.POSTGRES or op is not Op.EQ:
            return
        is_timestamp = operand.kind in TEMPORAL - {LogicalType.DATE}
        if is_timestamp and any(int(value) % 1_000_000 for value in values):
            raise UnsupportedError("the database may have rounded fractions of seconds, so equality is not sent")
        if self.dialect is Dialect.SQLITE and operand.kind in FLOATING and any(math.isinf(float(v)) for v in values):
            raise UnsupportedError("SQLite has no literal for infinity")

    def _one_of(self, operand: ColumnOperand, node: InList) -> ColumnTest:
        self._check_equality(operand, Op.EQ, node.values)
        values = [value for value in node.values if not self._is_impossible(operand, value)]
        has_nan = node.has_nan and self.dialect is Dialect.POSTGRES
        if not values and not has_nan and not node.has_null:
            return ColumnTest(never_true(operand.value))
        if operand.kind is LogicalType.STRING:
            return self.comparison(operand).one_of([str(value) for value in values], has_null=node.has_null)
        hint = self._index_hint(operand, Op.EQ, values) if values else None
        numbers = [value for value in values if isinstance(value, int)]
        if operand.kind is LogicalType.INTEGER and len(numbers) == len(values):
            return ColumnTest(in_integers(operand.value, numbers, has_null=node.has_null), index_hint=hint)
        items = [self._literal(operand, value) for value in (*values, *([math.nan] if has_nan else []))]
        items += [exp.Null()] if node.has_null else []
        return ColumnTest(in_values(operand.value, items, self.dialect), index_hint=hint)

    def _is_impossible(self, operand: ColumnOperand, value: Value) -> bool:
        """Return whether no row can hold the value, because the database cannot represent it."""
        infinite = operand.kind in FLOATING and math.isinf(float(value))
        return infinite and self.dialect.is_mysql

    def _pair(self, op: Op, left: ColumnOperand, right: ColumnOperand) -> ColumnTest:
        if left.kind is LogicalType.STRING:
            return self.comparison(left).pair(op, self.comparison(right))
        return ColumnTest(binary(OPERATORS[op], left.value, right.value))

    def _literal(self, operand: ColumnOperand, value: Value) -> exp.Expr:
        """Return a constant of the column's type."""
        match operand.kind:
            case LogicalType.DECIMAL if self.dialect is Dialect.SQLITE:
                return double(float(value), self.dialect)
            case LogicalType.INTEGER | LogicalType.DECIMAL:
                assert isinstance(value, int | Decimal)
                return number(value)
            case LogicalType.FLOAT | LogicalType.DOUBLE:
                tree = double(float(value), self.dialect)
                is_single = operand.kind is LogicalType.FLOAT and self.dialect is Dialect.POSTGRES
                return cast(tree, "REAL", self.dialect) if is_single else tree
            case LogicalType.BINARY:
                assert isinstance(value, bytes)
                return bytes_literal(value, self.dialect)
            case LogicalType.DATE:
                return date_literal(int(value), self.dialect)
        return timestamp_literal(int(value), self.dialect, has_zone=operand.kind is LogicalType.TIMESTAMP)


def with_polarity(test: ColumnTest, polarity: Polarity) -> exp.Expr:
    """Return the condition for a test. Raises UnsupportedError if the test does not meet the requirement."""
    if polarity is Polarity.TRUE_ROWS:
        return test.tree if test.index_hint is None else all_of([test.index_hint, test.tree])
    if test.only_true_reason:
        raise UnsupportedError(test.only_true_reason)
    return negate(test.tree) if polarity is Polarity.FALSE_ROWS else test.tree


def _constant(value: bool | None, polarity: Polarity) -> exp.Expr:
    if polarity is Polarity.VALUE:
        return exp.Null() if value is None else exp.Boolean(this=value)
    return exp.Boolean(this=value is (polarity is Polarity.TRUE_ROWS))


def _constant_outcome(op: Op, value: float, *, has_infinity: bool) -> bool | None:
    """Return the outcome of a comparison that is the same for all numbers of the database, or None if it varies.

    The database has no NaN, and possibly no infinities. In Spark, NaN is greater than all other numbers.
    """
    if math.isnan(value):
        return op in (Op.LT, Op.LE)
    if math.isinf(value) and not has_infinity:
        return op in ((Op.LT, Op.LE) if value > 0 else (Op.GT, Op.GE))
    return None
