"""Typed remote expressions: what Spark computes from columns, in a form that never overflows or raises there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import literals
from pushdown_spark.databases.model import Dialect
from pushdown_spark.databases.render import any_of, binary, call, cast
from pushdown_spark.databases.texts import TextForm
from pushdown_spark.predicates.constants import UnsupportedError

BITS: dict[t.DataType, int] = {t.ByteType(): 8, t.ShortType(): 16, t.IntegerType(): 32, t.LongType(): 64}
INTEGER_TYPES = {bits: kind for kind, bits in BITS.items()}
_DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MAX_PRECISION = 38
_MAX_SCALE = 30
"""MySQL's largest scale of a product."""
_WIDE = {Dialect.POSTGRES: "NUMERIC", Dialect.MYSQL: "DECIMAL(65,0)", Dialect.MARIADB: "DECIMAL(65,0)"}
"""Exact types for integers beyond 64 bits."""
_WIDEST = 10**60


@dataclass(frozen=True)
class Range:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int

    def within(self, other: Range) -> bool:
        """Whether no value lies outside the other."""
        return other.low <= self.low and self.high <= other.high

    @staticmethod
    def around(values: list[int]) -> Range:
        """The smallest range with these values."""
        return Range(min(values), max(values))


def type_range(kind: t.DataType) -> Range:
    """All values of a Spark integer type."""
    half = 2 ** (BITS[kind] - 1)
    return Range(-half, half - 1)


_LONG = type_range(t.LongType())


@dataclass(frozen=True)
class Value:
    """A remote expression that has Spark's value where no guard holds.

    `tree` makes it anew, `type` is Spark's. `range` bounds what the remote computes for an integer, guarded rows
    included. `text` is how a string compares. `is_literal` marks a number written out, which adapts to its neighbour.
    """

    tree: Callable[[], exp.Expr]
    type: t.DataType
    range: Range | None = None
    text: TextForm | None = None
    is_literal: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether Spark's type is one of the integers."""
        return self.type in BITS


def integer(value: int) -> Value:
    """An integer as it is written: an int, or a bigint where it takes one."""
    kind = t.IntegerType() if Range(value, value).within(type_range(t.IntegerType())) else t.LongType()
    return Value(lambda: literals.number(value), kind, Range(value, value), is_literal=True)


def bound(value: Value) -> Range:
    """The range of an integer."""
    assert value.range is not None
    return value.range


def wider(left: Value, right: Value) -> t.DataType:
    """The type in which Spark computes with two integers."""
    return INTEGER_TYPES[max(BITS[left.type], BITS[right.type])]


class Arithmetic:
    """Integer and decimal arithmetic; rows where Spark's type overflows get a guard in `guards`."""

    def __init__(self, dialect: Dialect, guards: list[exp.Expr]) -> None:
        self._dialect = dialect
        self._guards = guards

    def widened(self, value: Value) -> Value:
        """The value in 64 bits, signed, so that the remote's narrower types play no role."""
        if value.is_literal or self._dialect is Dialect.SQLITE:
            return value
        name = "BIGINT" if self._dialect is Dialect.POSTGRES else "SIGNED"
        return Value(lambda: cast(value.tree(), name, self._dialect), value.type, value.range)

    def integers(self, operator: type[exp.Binary], left: Value, right: Value) -> Value:
        """`left operator right` for + - * of two integers."""
        outcome = _outcome(operator, bound(left), bound(right))
        if not outcome.within(_LONG) and self._may_box(operator, left, right):
            return self._boxed(operator, left, right)
        sides = (left, right) if outcome.within(_LONG) else (self._wide(left, right), self._wide(right, left))

        def tree() -> exp.Expr:
            one, two = sides[0].tree(), sides[1].tree()
            return binary(operator, one if _is_wide(two) else self._with_room(one, outcome), two)

        return self.checked(tree, wider(left, right), outcome)

    def _with_room(self, tree: exp.Expr, outcome: Range) -> exp.Expr:
        """An operand that PostgreSQL does not compute with in 32 bits where the outcome may take more: it would raise.

        Columns are wide enough already, constants and what is computed of these alone are not.
        """
        has_room = self._dialect is not Dialect.POSTGRES or outcome.within(type_range(t.IntegerType()))
        return tree if has_room or _is_wide(tree) else _long_cast(tree)

    def _wide(self, value: Value, beside: Value) -> Value:
        """The value in a type beyond 64 bits; a literal takes that of what is `beside` it, unless that is one too."""
        adapts = value.is_literal and not beside.is_literal
        if adapts or not bound(value).within(_LONG):
            return value
        name = _WIDE[self._dialect]
        return Value(lambda: cast(value.tree(), name, self._dialect), value.type, value.range)

    def checked(self, tree: Callable[[], exp.Expr], kind: t.DataType, outcome: Range) -> Value:
        """An integer result; where it is beyond Spark's type Spark raises or wraps, so it must see those rows."""
        allowed = type_range(kind)
        if max(abs(outcome.low), abs(outcome.high)) > _WIDEST:
            raise UnsupportedError("the numbers may have more digits than the database computes with")
        if not outcome.within(allowed):
            self.outside(tree, outcome, allowed)
        return Value(tree, kind, outcome)

    def outside(self, tree: Callable[[], exp.Expr], possible: Range, allowed: Range) -> None:
        """Guards the rows where an integer lies outside a range."""
        below = [binary(exp.LT, tree(), literals.number(allowed.low))] if possible.low < allowed.low else []
        above = [binary(exp.GT, tree(), literals.number(allowed.high))] if possible.high > allowed.high else []
        self.guard(any_of([*below, *above]))

    def guard(self, condition: exp.Expr) -> None:
        """Keeps the rows where a condition is true for Spark to judge."""
        if condition not in self._guards:
            self._guards.append(condition)

    def _may_box(self, operator: type[exp.Binary], left: Value, right: Value) -> bool:
        """Whether operands are held to what 64 bits have room for, and not computed with in wider types.

        Of two factors that vary ordinary numbers may be too large for that. What is itself computed would be written
        twice at each level.
        """
        varying = [value for value in (left, right) if not value.is_literal]
        if self._dialect is Dialect.SQLITE:
            return True
        return (operator is not exp.Mul or len(varying) == 1) and all(map(_is_column, varying))

    def _boxed(self, operator: type[exp.Binary], left: Value, right: Value) -> Value:
        """In 64 bits: Spark gets the rows where an operand is too large to be sure."""
        sides = []
        for value, other in ((left, right), (right, left)):
            limit = _safe_limit(operator, value, other)
            if bound(value).within(limit):
                sides.append(value)
                continue
            self.outside(value.tree, bound(value), limit)
            allowed = Range(max(bound(value).low, limit.low), min(bound(value).high, limit.high))
            sides.append(self._held(value, allowed))
        outcome = _outcome(operator, bound(sides[0]), bound(sides[1]))
        # What is cast to an int may still be as large as the bigint that it comes from.
        return self.checked(lambda: binary(operator, sides[0].tree(), sides[1].tree()), wider(left, right), outcome)

    def _held(self, value: Value, allowed: Range) -> Value:
        """The value, NULL outside a range: but for SQLite databases raise where a result is too large, guard or not."""
        if self._dialect is Dialect.SQLITE:
            return replace(value, range=allowed)

        def tree() -> exp.Expr:
            ends = {"low": literals.number(allowed.low), "high": literals.number(allowed.high)}
            return exp.Case(ifs=[exp.If(this=exp.Between(this=value.tree(), **ends), true=value.tree())])

        return replace(value, tree=tree, range=allowed)

    def decimals(self, operator: type[exp.Binary], left: Value, right: Value) -> Value:
        """`left operator right` for + - * of which one is a decimal: exact, as long as Spark's result is."""
        if self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite computes decimals as doubles")
        one, two = decimal_type(left), decimal_type(right)
        if operator is exp.Mul:
            precision, scale = one.precision + two.precision + 1, one.scale + two.scale
        else:
            scale = max(one.scale, two.scale)
            precision = max(one.precision - one.scale, two.precision - two.scale) + scale + 1
        if precision > _MAX_PRECISION or scale > _MAX_SCALE:
            raise UnsupportedError("Spark rounds decimals of more than 38 digits")
        sides = [self._as_decimal(value) for value in (left, right)]
        return Value(lambda: binary(operator, sides[0](), sides[1]()), t.DecimalType(precision, scale))

    def _as_decimal(self, value: Value) -> Callable[[], exp.Expr]:
        """Integers become decimals first, lest the remote computes in integers."""
        if value.is_literal or not value.is_integer:
            return value.tree
        return lambda: cast(value.tree(), _WIDE[self._dialect], self._dialect)

    def remainder(self, left: Value, right: Value) -> Value:
        """`left % right` by a number other than 0, 1 and -1: the sign is that of the left side everywhere."""
        size = abs(_divisor(right)) - 1
        low, high = bound(left).low, bound(left).high
        outcome = Range(-size if low < 0 else 0, size if high > 0 else 0)
        return Value(lambda: binary(exp.Mod, left.tree(), right.tree()), wider(left, right), outcome)

    def quotient(self, left: Value, right: Value) -> Value:
        """`left div right`, cut towards zero; a bigint in Spark."""
        divisor = _divisor(right)
        ends = [int(Decimal(end) / divisor) for end in (bound(left).low, bound(left).high)]
        outcome = Range(min(*ends, 0) - 1, max(*ends, 0) + 1)

        def tree() -> exp.Expr:
            if self._dialect is Dialect.SQLITE:
                return exp.Div(this=exp.Paren(this=left.tree()), expression=right.tree(), typed=True)
            if self._dialect is Dialect.POSTGRES:
                return call("DIV", cast(left.tree(), "NUMERIC", self._dialect), right.tree())
            return exp.IntDiv(this=exp.Paren(this=left.tree()), expression=right.tree())

        return Value(tree, t.LongType(), outcome)

    def bits(self, operator: type[exp.Binary], left: Value, right: Value) -> Value:
        """`&`, `|` and `^`: the same in 64 bits as in fewer, because the sign fills them."""
        self._need_long(left, right)
        if operator is exp.BitwiseXor and self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite has no operator for exclusive or")
        kind = wider(left, right)
        sides = (self.as_long(left), self.as_long(right))
        return Value(lambda: self._signed(binary(operator, sides[0](), sides[1]())), kind, type_range(kind))

    def inverted(self, value: Value) -> Value:
        """`~value`."""
        self._need_long(value)
        if self._dialect.is_mysql:
            raise UnsupportedError("MySQL inverts the bits of unsigned numbers")
        tree = self.as_long(value)
        return Value(lambda: exp.BitwiseNot(this=exp.Paren(this=tree())), value.type, type_range(value.type))

    def as_long(self, value: Value) -> Callable[[], exp.Expr]:
        """An integer as a type that has bits: PostgreSQL may have computed it as numeric."""
        if self._dialect is not Dialect.POSTGRES or value.is_literal:
            return value.tree
        return lambda: _long_cast(value.tree())

    def _need_long(self, *values: Value) -> None:
        if not all(bound(value).within(type_range(value.type)) for value in values):
            raise UnsupportedError("bits of a number that may overflow")

    def _signed(self, tree: exp.Expr) -> exp.Expr:
        """MySQL's bit operators give unsigned numbers."""
        return cast(tree, "SIGNED", self._dialect) if self._dialect.is_mysql else tree

    def absolute(self, value: Value) -> Value:
        """`abs(value)` of an integer."""
        low, high = bound(value).low, bound(value).high
        outcome = Range(0, max(abs(low), abs(high)))
        if not outcome.within(_LONG) and self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite raises for the absolute value of the smallest number")
        source = value if outcome.within(_LONG) else self._wide(value, value)
        return self.checked(lambda: call("ABS", self._with_room(source.tree(), outcome)), value.type, outcome)


def _long_cast(tree: exp.Expr) -> exp.Expr:
    is_long = isinstance(tree, exp.Cast) and tree.to.this is exp.DataType.Type.BIGINT
    return tree if is_long else cast(tree, "BIGINT", Dialect.POSTGRES)


def _is_column(value: Value) -> bool:
    """Whether an integer is a column, cast or not."""
    tree = value.tree()
    return isinstance(tree.this if isinstance(tree, exp.Cast) else tree, exp.Column)


def _is_wide(tree: exp.Expr) -> bool:
    """Whether PostgreSQL computes an integer in 64 bits or more: columns of fewer are cast."""
    tree = tree.unnest()
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul):
        return _is_wide(tree.left) or _is_wide(tree.right)
    return isinstance(tree, exp.Column | exp.Cast)


def _divisor(value: Value) -> int:
    limits = bound(value)
    if not value.is_literal or limits.low in (-1, 0, 1):
        raise UnsupportedError("only divisors that are written out are sent, and not 0, 1 and -1")
    return limits.low


def _outcome(operator: type[exp.Binary], left: Range, right: Range) -> Range:
    if operator is exp.Add:
        return Range(left.low + right.low, left.high + right.high)
    if operator is exp.Sub:
        return Range(left.low - right.high, left.high - right.low)
    return Range.around([one * two for one in (left.low, left.high) for two in (right.low, right.high)])


def _safe_limit(operator: type[exp.Binary], value: Value, other: Value) -> Range:
    """How large an operand may be, given what the other one may be, for the result to fit 64 bits."""
    if value.is_literal:
        return bound(value)
    largest = max(abs(bound(other).low), abs(bound(other).high))
    if operator is exp.Mul:
        size = _LONG.high // largest if other.is_literal and largest else 2**31
    else:
        size = _LONG.high - largest if other.is_literal else 2**62 - 1
    return Range(-size, size)


def decimal_type(value: Value) -> t.DecimalType:
    """The decimal type that Spark gives a number beside a decimal."""
    if isinstance(value.type, t.DecimalType):
        return value.type
    if not value.is_integer:
        raise UnsupportedError("doubles are not computed with")
    if value.is_literal:
        return t.DecimalType(len(str(abs(bound(value).low))), 0)
    return t.DecimalType(_DECIMAL_DIGITS[BITS[value.type]], 0)
