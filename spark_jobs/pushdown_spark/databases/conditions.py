"""Turns compiled tests of columns, in which nothing is cast any more, into remote conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from sqlglot import exp

from pushdown_spark.databases import literals
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.operands import Operand, bare_operand, operand, remote_type
from pushdown_spark.databases.render import (
    all_of,
    any_of,
    binary,
    cast,
    is_null,
    is_true,
    negated,
    one_of,
    one_of_numbers,
)
from pushdown_spark.databases.texts import OPERATORS, Test, TextForm, column_text, nothing
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import (
    FLOATING,
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    IsTrue,
    IsUnknown,
    Kind,
    Node,
    Not,
    OneOf,
    Op,
    Or,
    Pair,
    Text,
    Value,
)

_EXACT_DOUBLES = 2**53 - 1
_REACH: dict[Op, tuple[int | None, int | None]] = {
    Op.EQ: (-1, 1),
    Op.LT: (None, 0),
    Op.LE: (None, 1),
    Op.GT: (0, None),
    Op.GE: (-1, None),
}
"""Between which numbers, counted from a whole one, a number lies that compares with that one once it is cut off."""


class Want(StrEnum):
    """Which rows a condition is to be true for, and so where it may be true for others as well.

    A condition with more rows than asked for is sound where it stands alone, in AND and in OR. NOT turns the question
    round: the rows for which a part is false. Where the value itself matters nothing may be left out or added.
    """

    TRUE_ROWS = "rows where it is true"
    FALSE_ROWS = "rows where it is false"
    VALUE = "its value in every row"

    @property
    def opposite(self) -> Want:
        """What NOT asks of its operand."""
        return {Want.TRUE_ROWS: Want.FALSE_ROWS, Want.FALSE_ROWS: Want.TRUE_ROWS}.get(self, self)


class Conditions:
    """Writes conditions over a table's columns; gathers `guards`, which tell the rows that Spark must judge itself."""

    def __init__(self, table: RemoteTable) -> None:
        self.table = table
        self.dialect = table.dialect
        self.guards: list[exp.Expr] = []

    def operand(self, column: RemoteColumn) -> Operand:
        """A column to be compared; notes its guard."""
        return self._noted(operand(column, self.dialect))

    def _noted(self, found: Operand) -> Operand:
        if found.suspect is not None and (guard := found.suspect()) not in self.guards:
            self.guards.append(guard)
        return found

    def text(self, found: Operand) -> TextForm:
        """A string column."""
        return column_text(found, self.dialect)

    def write(self, node: Node, want: Want) -> exp.Expr:
        """A compiled condition. Raises UnsupportedError where the remote has no condition that means the same."""
        match node:
            case And(parts=parts) | Or(parts=parts):
                is_and = isinstance(node, And) is not (want is Want.FALSE_ROWS)
                return (all_of if is_and else any_of)([self.write(part, want) for part in parts])
            case Not(part=part):
                inner = self.write(part, want.opposite)
                return negated(inner) if want is Want.VALUE else inner
            case Constant(value=value):
                return _constant(value, want)
            case IsTrue() | IsUnknown():
                return self._state(node, want)
            case IsNull(column=column):
                test = Test(self._is_null(self._noted(bare_operand(self._column(column), self.dialect))))
            case _:
                test = self._leaf(node)
        return written(test, want)

    def _is_null(self, found: Operand) -> exp.Expr:
        """`column IS NULL`, which to PostgreSQL is also true for a composite value whose members are all null."""
        if self.dialect is Dialect.POSTGRES and found.kind is Kind.OTHER:
            return exp.NullSafeEQ(this=found.value(), expression=exp.Null())
        return is_null(found.value())

    def _state(self, node: IsTrue | IsUnknown, want: Want) -> exp.Expr:
        """Tests that are never null."""
        if isinstance(node, IsTrue) and want is Want.TRUE_ROWS:
            return self.write(node.part, want)
        value = self.write(node.part, Want.VALUE)
        state = is_true(value) if isinstance(node, IsTrue) else is_null(value)
        return negated(state) if want is Want.FALSE_ROWS else state

    def _column(self, column: Column) -> RemoteColumn:
        found = self.table.column(column.path[0], case_sensitive=True) if len(column.path) == 1 else None
        if found is None:
            raise UnsupportedError(f"{'.'.join(column.path)} is no column of the remote table")
        return found

    def _leaf(self, node: Node) -> Test:
        match node:
            case Compare(column=column, op=op, value=value):
                return self._compare(self.operand(self._column(column)), op, value)
            case OneOf(column=column):
                return self._one_of(self.operand(self._column(column)), node)
            case Text(column=column, how=how, text=text):
                return self.text(self.operand(self._column(column))).holds(how, text)
            case Pair(op=op, left=left, right=right):
                pair = (self.operand(self._column(left)), self.operand(self._column(right)))
                return self._pair(op, *pair)
        raise UnsupportedError("the pattern has no equal there")

    def _compare(self, found: Operand, op: Op, value: Value) -> Test:
        if found.kind is Kind.STRING:
            return self.text(found).compare(op, str(value))
        if found.kind is Kind.BOOLEAN:
            return Test(found.value() if value else negated(found.value()))
        self._check_equality(found, op, [value])
        if found.kind in FLOATING and self.dialect is not Dialect.POSTGRES:
            decided = _decided(op, float(value), has_infinity=self.dialect is Dialect.SQLITE)
            if decided is not None:
                return Test(negated(nothing(found.value())) if decided else nothing(found.value()))
        hint = self._index_hint(found, op, [value])
        return Test(binary(OPERATORS[op], found.value(), self._literal(found, value)), hint=hint)

    def _index_hint(self, found: Operand, op: Op, values: Sequence[Value]) -> exp.Expr | None:
        """What is true for all rows of a test and lets SQLite use an index; None where nothing of the sort is needed.

        A column declared as integer is compared by its cast, since it may hold reals and texts: reals are cut off
        towards zero, and texts and blobs are greater than every number.
        """
        if self.dialect is not Dialect.SQLITE or found.kind is not Kind.INTEGER or found.column.uniform:
            return None
        if any(int(value) != value or abs(int(value)) > _EXACT_DOUBLES for value in values):
            return None
        below, above = _REACH[op]
        parts = []
        if below is not None:
            parts.append(binary(exp.GT, found.bare, literals.number(min(map(int, values)) + below)))
        if above is None:
            return parts[0]
        parts.append(binary(exp.LT, found.bare, literals.number(max(map(int, values)) + above)))
        return any_of([all_of(parts), binary(exp.GTE, found.bare, exp.Literal.string(""))])

    def _check_equality(self, found: Operand, op: Op, values: Sequence[Value]) -> None:
        """What compares equal only if nothing was lost on the way there."""
        if self.dialect is Dialect.POSTGRES or op is not Op.EQ:
            return
        if found.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) and any(int(value) % 1_000_000 for value in values):
            raise UnsupportedError("columns and literals may have lost fractions of seconds, so they are not compared")
        if self.dialect is Dialect.SQLITE and found.kind in FLOATING and any(math.isinf(float(v)) for v in values):
            raise UnsupportedError("SQLite has no literal for infinity")

    def _one_of(self, found: Operand, node: OneOf) -> Test:
        self._check_equality(found, Op.EQ, node.values)
        values = [value for value in node.values if not self._is_impossible(found, value)]
        has_nan = node.nan and self.dialect is Dialect.POSTGRES
        if not values and not has_nan and not node.null:
            return Test(nothing(found.value()))
        if found.kind is Kind.STRING:
            return self.text(found).one_of([str(value) for value in values], has_null=node.null)
        hint = self._index_hint(found, Op.EQ, values) if values else None
        numbers = [value for value in values if isinstance(value, int)]
        if found.kind is Kind.INTEGER and len(numbers) == len(values):
            return Test(one_of_numbers(found.value(), numbers, has_null=node.null), hint=hint)
        items = [self._literal(found, value) for value in (*values, *([math.nan] if has_nan else []))]
        return Test(one_of(found.value(), [*items, *([exp.Null()] if node.null else [])], self.dialect), hint=hint)

    def _is_impossible(self, found: Operand, value: Value) -> bool:
        """Whether no row can hold the value, because the database has no such number."""
        infinite = found.kind in FLOATING and math.isinf(float(value))
        return infinite and self.dialect.is_mysql

    def _pair(self, op: Op, left: Operand, right: Operand) -> Test:
        if left.kind is Kind.STRING:
            return self.text(left).pair(op, self.text(right))
        return Test(binary(OPERATORS[op], left.value(), right.value()))

    def _literal(self, found: Operand, value: Value) -> exp.Expr:
        """A constant of the column's own type."""
        match found.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                assert isinstance(value, int | Decimal)
                if found.kind is Kind.DECIMAL and self.dialect is Dialect.SQLITE:
                    return literals.double(float(value), self.dialect)
                return literals.number(value)
            case Kind.FLOAT | Kind.DOUBLE:
                tree = literals.double(float(value), self.dialect)
                is_single = found.kind is Kind.FLOAT and self.dialect is Dialect.POSTGRES
                return cast(tree, "REAL", self.dialect) if is_single else tree
            case Kind.BINARY:
                assert isinstance(value, bytes)
                return literals.binary(value, self.dialect)
        return self._time(found, int(value))

    def _time(self, found: Operand, value: int) -> exp.Expr:
        if found.kind is Kind.DATE:
            return literals.date_literal(value, self.dialect)
        if found.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
            return literals.timestamp_literal(value, self.dialect, zoned=found.kind is Kind.TIMESTAMP)
        raise UnsupportedError(f"{found.column.name} is of type {remote_type(found.column).base}")


def written(test: Test, want: Want) -> exp.Expr:
    """A test for the rows that are wanted, with its hint where that helps. Raises UnsupportedError if it may not be."""
    if want is Want.TRUE_ROWS:
        return test.tree if test.hint is None else all_of([test.hint, test.tree])
    if test.only_true:
        raise UnsupportedError(test.only_true)
    return negated(test.tree) if want is Want.FALSE_ROWS else test.tree


def _constant(value: bool | None, want: Want) -> exp.Expr:
    if want is Want.VALUE:
        return exp.Null() if value is None else exp.Boolean(this=value)
    return exp.Boolean(this=value is (want is Want.TRUE_ROWS))


def _decided(op: Op, value: float, *, has_infinity: bool) -> bool | None:
    """The answer for every number of a database without NaN (and without infinities), None where it takes a look.

    NaN is larger than all others.
    """
    if math.isnan(value):
        return op in (Op.LT, Op.LE)
    if math.isinf(value) and not has_infinity:
        return op in ((Op.LT, Op.LE) if value > 0 else (Op.GT, Op.GE))
    return None
