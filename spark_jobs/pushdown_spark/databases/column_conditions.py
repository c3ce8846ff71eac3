"""Remote conditions for bound predicates, whose columns and constants need no casts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from sqlglot import exp

from pushdown_spark.databases import sql_literals as literals
from pushdown_spark.databases.column_operands import ColumnOperand, column_operand, null_test_operand, remote_type
from pushdown_spark.databases.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.sql_builder import (
    all_of,
    any_of,
    binary,
    cast,
    in_integers,
    in_list,
    is_null,
    is_true,
    negated,
)
from pushdown_spark.databases.string_comparison import (
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
    Node,
    Not,
    Op,
    Or,
    StringMatch,
)
from pushdown_spark.expressions.types import FLOATING, LogicalType, Value

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
    """A writer of conditions over a table's columns. `guards` has the conditions of rows to return to Spark."""

    def __init__(self, table: RemoteTable) -> None:
        self.table = table
        self.dialect = table.dialect
        self.guards: list[exp.Expr] = []

    def column_operand(self, column: RemoteColumn) -> ColumnOperand:
        """Return a column for comparisons, and collect its guard."""
        return self._with_guard(column_operand(column, self.dialect))

    def _with_guard(self, operand: ColumnOperand) -> ColumnOperand:
        if operand.guard is not None and (guard := operand.guard()) not in self.guards:
            self.guards.append(guard)
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
                operand = self.write(part, polarity.opposite)
                return negated(operand) if polarity is Polarity.VALUE else operand
            case BooleanConstant(value=value):
                return _constant(value, polarity)
            case IsTrue() | IsUnknown():
                return self._null_safe_test(node, polarity)
            case IsNull(column=column):
                test = ColumnTest(
                    self._is_null(self._with_guard(null_test_operand(self._column(column), self.dialect)))
                )
            case _:
                test = self._leaf(node)
        return with_polarity(test, polarity)

    def _is_null(self, operand: ColumnOperand) -> exp.Expr:
        """Return `column IS NULL`. For PostgreSQL's composite types, IS NULL is also true if all members are NULL."""
        if self.dialect is Dialect.POSTGRES and operand.kind is LogicalType.OTHER:
            return exp.NullSafeEQ(this=operand.value(), expression=exp.Null())
        return is_null(operand.value())

    def _null_safe_test(self, node: IsTrue | IsUnknown, polarity: Polarity) -> exp.Expr:
        """Return a test that is never NULL."""
        if isinstance(node, IsTrue) and polarity is Polarity.TRUE_ROWS:
            return self.write(node.part, polarity)
        value = self.write(node.part, Polarity.VALUE)
        test = is_true(value) if isinstance(node, IsTrue) else is_null(value)
        return negated(test) if polarity is Polarity.FALSE_ROWS else test

    def _column(self, column: Column) -> RemoteColumn:
        remote_column = self.table.column(column.path[0], case_sensitive=True) if len(column.path) == 1 else None
        if remote_column is None:
            raise UnsupportedError(f"{'.'.join(column.path)} is not a column of the remote table")
        return remote_column

    def _leaf(self, node: Node) -> ColumnTest:
        match node:
            case Comparison(column=column, op=op, value=value):
                return self._compare(self.column_operand(self._column(column)), op, value)
            case InList(column=column):
                return self._one_of(self.column_operand(self._column(column)), node)
            case StringMatch(column=column, test=how, text=text):
                return self.comparison(self.column_operand(self._column(column))).holds(how, text)
            case ColumnComparison(op=op, left=left, right=right):
                pair = (self.column_operand(self._column(left)), self.column_operand(self._column(right)))
                return self._pair(op, *pair)
        raise UnsupportedError("the database has no equivalent of the pattern")

    def _compare(self, operand: ColumnOperand, op: Op, value: Value) -> ColumnTest:
        if operand.kind is LogicalType.STRING:
            return self.comparison(operand).compare(op, str(value))
        if operand.kind is LogicalType.BOOLEAN:
            return ColumnTest(operand.value() if value else negated(operand.value()))
        self._check_equality(operand, op, [value])
        if operand.kind in FLOATING and self.dialect is not Dialect.POSTGRES:
            outcome = _constant_outcome(op, float(value), has_infinity=self.dialect is Dialect.SQLITE)
            if outcome is not None:
                return ColumnTest(negated(never_true(operand.value())) if outcome else never_true(operand.value()))
        hint = self._index_hint(operand, op, [value])
        return ColumnTest(binary(OPERATORS[op], operand.value(), self._literal(operand, value)), index_hint=hint)

    def _index_hint(self, operand: ColumnOperand, op: Op, values: Sequence[Value]) -> exp.Expr | None:
        """Return a condition that the test implies and that lets SQLite use an index. None if it is not needed.

        A column declared as integer may hold reals and strings, so its cast is compared. The cast truncates reals
        towards zero. Strings and blobs are greater than every number.
        """
        if self.dialect is not Dialect.SQLITE or operand.kind is not LogicalType.INTEGER or operand.column.uniform:
            return None
        if any(int(value) != value or abs(int(value)) > _MAX_EXACT_DOUBLE for value in values):
            return None
        below, above = _TRUNCATION_BOUNDS[op]
        parts = []
        if below is not None:
            parts.append(binary(exp.GT, operand.bare, literals.number(min(map(int, values)) + below)))
        if above is None:
            return parts[0]
        parts.append(binary(exp.LT, operand.bare, literals.number(max(map(int, values)) + above)))
        return any_of([all_of(parts), binary(exp.GTE, operand.bare, exp.Literal.string(""))])

    def _check_equality(self, operand: ColumnOperand, op: Op, values: Sequence[Value]) -> None:
        """Raise UnsupportedError for equality with values that may have lost precision in the database."""
        if self.dialect is Dialect.POSTGRES or op is not Op.EQ:
            return
        is_timestamp = operand.kind in (LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ)
        if is_timestamp and any(int(value) % 1_000_000 for value in values):
            raise UnsupportedError("the database may have rounded fractions of seconds, so equality is not sent")
        if self.dialect is Dialect.SQLITE and operand.kind in FLOATING and any(math.isinf(float(v)) for v in values):
            raise UnsupportedError("SQLite has no literal for infinity")

    def _one_of(self, operand: ColumnOperand, node: InList) -> ColumnTest:
        self._check_equality(operand, Op.EQ, node.values)
        values = [value for value in node.values if not self._is_impossible(operand, value)]
        has_nan = node.has_nan and self.dialect is Dialect.POSTGRES
        if not values and not has_nan and not node.has_null:
            return ColumnTest(never_true(operand.value()))
        if operand.kind is LogicalType.STRING:
            return self.comparison(operand).one_of([str(value) for value in values], has_null=node.has_null)
        hint = self._index_hint(operand, Op.EQ, values) if values else None
        numbers = [value for value in values if isinstance(value, int)]
        if operand.kind is LogicalType.INTEGER and len(numbers) == len(values):
            return ColumnTest(in_integers(operand.value(), numbers, has_null=node.has_null), index_hint=hint)
        items = [self._literal(operand, value) for value in (*values, *([math.nan] if has_nan else []))]
        return ColumnTest(
            in_list(operand.value(), [*items, *([exp.Null()] if node.has_null else [])], self.dialect), index_hint=hint
        )

    def _is_impossible(self, operand: ColumnOperand, value: Value) -> bool:
        """Return whether no row can hold the value, because the database cannot represent it."""
        infinite = operand.kind in FLOATING and math.isinf(float(value))
        return infinite and self.dialect.is_mysql

    def _pair(self, op: Op, left: ColumnOperand, right: ColumnOperand) -> ColumnTest:
        if left.kind is LogicalType.STRING:
            return self.comparison(left).pair(op, self.comparison(right))
        return ColumnTest(binary(OPERATORS[op], left.value(), right.value()))

    def _literal(self, operand: ColumnOperand, value: Value) -> exp.Expr:
        """Return a constant of the column's type."""
        match operand.kind:
            case LogicalType.INTEGER | LogicalType.DECIMAL:
                assert isinstance(value, int | Decimal)
                if operand.kind is LogicalType.DECIMAL and self.dialect is Dialect.SQLITE:
                    return literals.double(float(value), self.dialect)
                return literals.number(value)
            case LogicalType.FLOAT | LogicalType.DOUBLE:
                tree = literals.double(float(value), self.dialect)
                is_single = operand.kind is LogicalType.FLOAT and self.dialect is Dialect.POSTGRES
                return cast(tree, "REAL", self.dialect) if is_single else tree
            case LogicalType.BINARY:
                assert isinstance(value, bytes)
                return literals.binary(value, self.dialect)
        return self._time(operand, int(value))

    def _time(self, operand: ColumnOperand, value: int) -> exp.Expr:
        if operand.kind is LogicalType.DATE:
            return literals.date_literal(value, self.dialect)
        if operand.kind in (LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ):
            return literals.timestamp_literal(value, self.dialect, zoned=operand.kind is LogicalType.TIMESTAMP)
        raise UnsupportedError(f"{operand.column.name} is of type {remote_type(operand.column).base}")


def with_polarity(test: ColumnTest, polarity: Polarity) -> exp.Expr:
    """Return the condition for a test. Raises UnsupportedError if the test does not meet the requirement."""
    if polarity is Polarity.TRUE_ROWS:
        return test.tree if test.index_hint is None else all_of([test.index_hint, test.tree])
    if test.only_true_reason:
        raise UnsupportedError(test.only_true_reason)
    return negated(test.tree) if polarity is Polarity.FALSE_ROWS else test.tree


def _constant(value: bool | None, polarity: Polarity) -> exp.Expr:
    if polarity is Polarity.VALUE:
        return exp.Null() if value is None else exp.Boolean(this=value)
    return exp.Boolean(this=value is (polarity is Polarity.TRUE_ROWS))


def _constant_outcome(op: Op, value: float, *, has_infinity: bool) -> bool | None:
    """Return the outcome of a comparison that is the same for all numbers of the database. None if it varies.

    The database has no NaN, and possibly no infinities. In Spark, NaN is greater than all other numbers.
    """
    if math.isnan(value):
        return op in (Op.LT, Op.LE)
    if math.isinf(value) and not has_infinity:
        return op in ((Op.LT, Op.LE) if value > 0 else (Op.GT, Op.GE))
    return None
