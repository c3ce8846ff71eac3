"""Typed remote expressions, and integer and decimal arithmetic that never overflows or raises in the database.

Each integer expression carries the range of its values. If Spark's type may overflow, the database returns the rows to
Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.sql.builder import any_of, binary, call, case_when, cast, number
from pushdown_spark.databases.sql.column_conditions import ColumnConditions
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.databases.sql.string_comparison import StringComparison
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

BITS: dict[t.DataType, int] = {t.ByteType(): 8, t.ShortType(): 16, t.IntegerType(): 32, t.LongType(): 64}
_DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MAX_SCALE = 30
"""The largest scale of a product in MySQL."""
_WIDE_TYPES = {Dialect.POSTGRES: "NUMERIC", Dialect.MYSQL: "DECIMAL(65,0)", Dialect.MARIADB: "DECIMAL(65,0)"}
"""Exact types for integers that need more than 64 bits."""
_MAX_INTEGER = 10**60


@dataclass(frozen=True)
class IntegerRange:
    """Integers from `low` to `high`, inclusive."""

    low: int
    high: int

    @property
    def size(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def is_within(self, other: IntegerRange) -> bool:
        """Return whether all values are in the other range."""
        return other.low <= self.low and self.high <= other.high

    def common(self, other: IntegerRange) -> IntegerRange:
        """Return the integers that are in both ranges."""
        return IntegerRange(max(self.low, other.low), min(self.high, other.high))

    @staticmethod
    def around(values: list[int]) -> IntegerRange:
        """Return the smallest range with these values."""
        return IntegerRange(min(values), max(values))


def type_range(kind: t.DataType) -> IntegerRange:
    """Return all values of an integer type of Spark."""
    half = 2 ** (BITS[kind] - 1)
    return IntegerRange(-half, half - 1)


_LONG = type_range(t.LongType())


@dataclass(frozen=True)
class TypedExpression:
    """A remote expression that has Spark's value in all rows that Spark does not recheck.

    `type` is Spark's. `range` has the values that the database may compute for an integer, also in rows that
    Spark rechecks. `comparison` is how a string is compared. `is_literal` is set for constants, whose type adapts to
    the other operand.
    """

    tree: exp.Expr
    type: t.DataType
    range: IntegerRange = IntegerRange(0, 0)
    comparison: StringComparison | None = None
    is_literal: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether Spark's type is an integer."""
        return self.type in BITS


def integer_literal(value: int) -> TypedExpression:
    """Return an integer constant: an int, or a bigint if it does not fit an int."""
    kind = t.IntegerType() if IntegerRange(value, value).is_within(type_range(t.IntegerType())) else t.LongType()
    return TypedExpression(number(value), kind, IntegerRange(value, value), is_literal=True)


def wider_type(*values: TypedExpression) -> t.DataType:
    """Return the type of Spark's result for some integers."""
    return max((value.type for value in values), key=BITS.__getitem__)


class ArithmeticWriter:
    """A writer of integer and decimal arithmetic. Spark rechecks the rows where its types overflow."""

    def __init__(self, conditions: ColumnConditions) -> None:
        self._dialect = conditions.dialect
        self._recheck = conditions.recheck

    def widen(self, value: TypedExpression) -> TypedExpression:
        """Return the value as a signed 64-bit integer, so that narrower types of the database do not overflow."""
        if value.is_literal or self._dialect is Dialect.SQLITE:
            return value
        name = "BIGINT" if self._dialect is Dialect.POSTGRES else "SIGNED"
        return TypedExpression(cast(value.tree, name, self._dialect), value.type, value.range)

    def integers(self, operator: type[exp.Binary], left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Return `left operator right` for `+`, `-` and `*` of two integers.

        They are computed in 64 bits if the result always fits. Otherwise, either the operands are limited so that it
        does, or a type with more bits is used.
        """
        outcome = _outcome(operator, left.range, right.range)
        if outcome.is_within(_LONG):
            # PostgreSQL computes narrower integers with fewer bits. Sums and products have enough.
            is_wide = isinstance(left.tree, exp.Add | exp.Sub | exp.Mul)
            left_tree, right_tree = left.tree if is_wide else self._long(left), right.tree
        elif self._can_limit(operator, left, right):
            left_tree, right_tree, outcome = self._limited_operands(operator, left, right)
        else:
            left_tree, right_tree = self._wide(left, right), self._wide(right, left)
        # An expression of type int may be as large as a bigint in rows that Spark rechecks.
        return self.recheck_overflow(binary(operator, left_tree, right_tree), wider_type(left, right), outcome)

    def _long(self, value: TypedExpression) -> exp.Expr:
        """Return an integer as a bigint in PostgreSQL. The integers of the other databases have 64 bits or more."""
        tree = value.tree
        is_long = isinstance(tree, exp.Cast) and tree.to.this is exp.DataType.Type.BIGINT
        if is_long or self._dialect is not Dialect.POSTGRES or not value.range.is_within(_LONG):
            return tree
        return cast(tree, "BIGINT", self._dialect)

    def _wide(self, value: TypedExpression, other: TypedExpression) -> exp.Expr:
        """Return the value in a type of more than 64 bits. A literal next to another operand adapts to its type."""
        adapts = value.is_literal and not other.is_literal
        if adapts or not value.range.is_within(_LONG):
            return value.tree
        return cast(value.tree, _WIDE_TYPES[self._dialect], self._dialect)

    def recheck_overflow(self, tree: exp.Expr, kind: t.DataType, outcome: IntegerRange) -> TypedExpression:
        """Return an integer result. Spark rechecks the rows where it does not fit Spark's type."""
        type_bounds = type_range(kind)
        if outcome.size > _MAX_INTEGER:
            raise UnsupportedError("the result may have more digits than the database supports")
        if not outcome.is_within(type_bounds):
            self._recheck_outside(tree, outcome, type_bounds)
        return TypedExpression(tree, kind, outcome)

    def _recheck_outside(self, tree: exp.Expr, possible: IntegerRange, type_bounds: IntegerRange) -> None:
        """Let Spark recheck the rows where an integer is outside a range."""
        below = [binary(exp.LT, tree, number(type_bounds.low))] if possible.low < type_bounds.low else []
        above = [binary(exp.GT, tree, number(type_bounds.high))] if possible.high > type_bounds.high else []
        self._recheck(any_of([*below, *above]))

    def _can_limit(self, operator: type[exp.Binary], left: TypedExpression, right: TypedExpression) -> bool:
        """Return whether to limit the operands so that 64 bits suffice.

        Two varying factors are not limited, because ordinary values may exceed the limit. Computed operands are not
        limited either, because the SQL would double at each level.
        """
        if self._dialect is Dialect.SQLITE:
            return True
        variables = [value for value in (left, right) if not value.is_literal]
        return (operator is not exp.Mul or len(variables) == 1) and all(map(_is_column, variables))

    def _limited_operands(
        self, operator: type[exp.Binary], left: TypedExpression, right: TypedExpression
    ) -> tuple[exp.Expr, exp.Expr, IntegerRange]:
        """Return operands with which the result fits 64 bits, and the range of the result.

        Spark rechecks the rows where an operand exceeds its limit.
        """
        left_value = self._limit(left, _safe_limit(operator, left, right))
        right_value = self._limit(right, _safe_limit(operator, right, left))
        return left_value.tree, right_value.tree, _outcome(operator, left_value.range, right_value.range)

    def _limit(self, value: TypedExpression, limit: IntegerRange) -> TypedExpression:
        if value.range.is_within(limit):
            return value
        self._recheck_outside(value.tree, value.range, limit)
        return self._null_outside(value, value.range.common(limit))

    def _null_outside(self, value: TypedExpression, type_bounds: IntegerRange) -> TypedExpression:
        """Return the value, NULL outside a range. Databases other than SQLite raise on overflow in these rows, too."""
        if self._dialect is Dialect.SQLITE:
            return replace(value, range=type_bounds)
        low, high = number(type_bounds.low), number(type_bounds.high)
        tree = case_when(exp.Between(this=value.tree, low=low, high=high), value.tree)
        return replace(value, tree=tree, range=type_bounds)

    def decimals(self, operator: type[exp.Binary], left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Return `left operator right` for `+`, `-` and `*` with a decimal, if Spark's result is exact."""
        if self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite computes decimals as doubles")
        left_type, right_type = _decimal_type(left), _decimal_type(right)
        if operator is exp.Mul:
            precision, scale = left_type.precision + right_type.precision + 1, left_type.scale + right_type.scale
        else:
            scale = max(left_type.scale, right_type.scale)
            precision = max(left_type.precision - left_type.scale, right_type.precision - right_type.scale) + scale + 1
        if precision > MAX_DECIMAL_DIGITS or scale > _MAX_SCALE:
            raise UnsupportedError("Spark rounds decimals of more than 38 digits")
        sides = [self._as_decimal(value) for value in (left, right)]
        return TypedExpression(binary(operator, sides[0], sides[1]), t.DecimalType(precision, scale))

    def _as_decimal(self, value: TypedExpression) -> exp.Expr:
        """Return an operand of decimal arithmetic. Integers are cast, to avoid integer arithmetic."""
        if value.is_literal or not value.is_integer:
            return value.tree
        return cast(value.tree, _WIDE_TYPES[self._dialect], self._dialect)

    def remainder(self, left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Return `left % right` for constants other than 0, 1 and -1. The sign is that of the left operand."""
        size = abs(_divisor(right)) - 1
        low, high = left.range.low, left.range.high
        outcome = IntegerRange(-size if low < 0 else 0, size if high > 0 else 0)
        return TypedExpression(binary(exp.Mod, left.tree, right.tree), wider_type(left, right), outcome)

    def quotient(self, left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Return `left div right`, truncated towards zero. Its type in Spark is bigint."""
        divisor = _divisor(right)
        ends = [int(Decimal(end) / divisor) for end in (left.range.low, left.range.high)]
        outcome = IntegerRange(min(*ends, 0) - 1, max(*ends, 0) + 1)
        tree: exp.Expr = exp.IntDiv(this=exp.Paren(this=left.tree), expression=right.tree)
        if self._dialect is Dialect.SQLITE:
            tree = exp.Div(this=exp.Paren(this=left.tree), expression=right.tree, typed=True)
        elif self._dialect is Dialect.POSTGRES:
            tree = call("DIV", cast(left.tree, "NUMERIC", self._dialect), right.tree)
        return TypedExpression(tree, t.LongType(), outcome)

    def bits(self, operator: type[exp.Binary], left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Return `&`, `|` or `^`. Sign extension makes the result in 64 bits equal to that in fewer bits."""
        if not all(value.range.is_within(type_range(value.type)) for value in (left, right)):
            raise UnsupportedError("bit operators need integers that cannot overflow")
        if operator is exp.BitwiseXor and self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite has no exclusive OR")
        kind = wider_type(left, right)
        # PostgreSQL may have computed an operand as numeric.
        sides = [value.tree if value.is_literal else self._long(value) for value in (left, right)]
        tree: exp.Expr = binary(operator, *sides)
        if self._dialect.is_mysql:
            # The result of MySQL's operators is unsigned.
            tree = cast(tree, "SIGNED", self._dialect)
        return TypedExpression(tree, kind, type_range(kind))

    def negative(self, value: TypedExpression, *, is_literal: bool) -> TypedExpression:
        """Return `-value`. In Spark, a minus before a number is part of the literal (`is_literal`)."""
        if value.is_literal and value.is_integer:
            negative = integer_literal(-value.range.low)
            return negative if is_literal else replace(negative, type=value.type, is_literal=False)
        if value.is_integer:
            # The 0 has the type of the value. A literal 0 would make the result an int: -(-128) overflows a tinyint.
            return self.integers(exp.Sub, replace(integer_literal(0), type=value.type), value)
        if isinstance(value.type, t.DecimalType):
            return TypedExpression(exp.Paren(this=exp.Neg(this=exp.Paren(this=value.tree))), value.type)
        raise UnsupportedError(f"the negation of a {value.type.simpleString()} is not sent")

    def absolute(self, value: TypedExpression) -> TypedExpression:
        """Return `abs(value)` of an integer."""
        outcome = IntegerRange(0, value.range.size)
        if not outcome.is_within(_LONG) and self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite raises for the absolute value of the smallest integer")
        source = self._long(value) if outcome.is_within(_LONG) else self._wide(value, value)
        return self.recheck_overflow(call("ABS", source), value.type, outcome)


def _is_column(value: TypedExpression) -> bool:
    """Return whether an integer is a column, possibly in a cast."""
    tree = value.tree
    return isinstance(tree.this if isinstance(tree, exp.Cast) else tree, exp.Column)


def _divisor(value: TypedExpression) -> int:
    limits = value.range
    if not value.is_literal or limits.low in (-1, 0, 1):
        raise UnsupportedError("only constant divisors other than 0, 1 and -1 are sent")
    return limits.low


def _outcome(operator: type[exp.Binary], left: IntegerRange, right: IntegerRange) -> IntegerRange:
    if operator is exp.Add:
        return IntegerRange(left.low + right.low, left.high + right.high)
    if operator is exp.Sub:
        return IntegerRange(left.low - right.high, left.high - right.low)
    return IntegerRange.around([x * y for x in (left.low, left.high) for y in (right.low, right.high)])


def _safe_limit(operator: type[exp.Binary], value: TypedExpression, other: TypedExpression) -> IntegerRange:
    """Return the values of an operand for which the result fits 64 bits, given the range of the other operand."""
    if value.is_literal:
        return value.range
    largest = other.range.size
    if operator is exp.Mul:
        size = _LONG.high // largest if other.is_literal and largest else 2**31
    else:
        size = _LONG.high - largest if other.is_literal else 2**62 - 1
    return IntegerRange(-size, size)


def _decimal_type(value: TypedExpression) -> t.DecimalType:
    """Return the type to which Spark casts a number in decimal arithmetic."""
    if isinstance(value.type, t.DecimalType):
        return value.type
    if not value.is_integer:
        raise UnsupportedError("arithmetic with doubles is not sent")
    if value.is_literal:
        return t.DecimalType(len(str(abs(value.range.low))), 0)
    return t.DecimalType(_DECIMAL_DIGITS[BITS[value.type]], 0)


def are_comparable(left: TypedExpression, right: TypedExpression) -> bool:
    """Return whether Spark compares two values without loss. Decimals need a common type with at most 38 digits."""
    if left.type == right.type or (left.is_integer and right.is_integer):
        return True
    if not all(value.is_integer or isinstance(value.type, t.DecimalType) for value in (left, right)):
        return False
    left_type, right_type = _decimal_type(left), _decimal_type(right)
    integer_digits = max(left_type.precision - left_type.scale, right_type.precision - right_type.scale)
    return integer_digits + max(left_type.scale, right_type.scale) <= MAX_DECIMAL_DIGITS
