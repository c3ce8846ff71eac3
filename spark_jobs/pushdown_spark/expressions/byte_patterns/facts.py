"""Facts about single columns that a true predicate implies, derived from the bound tree.

Facts do not depend on the file format. They over-approximate: every row that passes the predicate satisfies them, and
other rows may. A predicate that may accept nulls implies no fact, because a null column need not contain any bytes.
This is an abstract interpretation of the predicate (Cousot and Cousot, POPL 1977).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from pushdown_spark.expressions.bound import (
    NEGATED,
    And,
    CaselessMatch,
    Column,
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
from pushdown_spark.expressions.types import EPOCH_ORDINAL, MICROSECONDS_PER_DAY, NUMERIC, LogicalType, Value

_MAX_VALUES = 20_000
"""Longer IN lists imply no fact: the pattern would take more time to compile than it saves."""

Scalar = Decimal | date | str | bytes | bool
"""A value in a fact. All numbers are exact decimals; a timestamp is a `datetime` in UTC, without a zone."""


@dataclass(frozen=True)
class EqualsAny:
    """The column equals one of these values."""

    column: Column
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class InRange:
    """The column is in a closed interval. None means unbounded."""

    column: Column
    low: Scalar | None
    high: Scalar | None


@dataclass(frozen=True)
class HasSubstrings:
    """A string column contains each of these strings; with `is_prefix`, it starts with the first one.

    With `is_any_case`, the strings are ASCII. The column contains them in any case, or a character that is not ASCII.
    """

    column: Column
    substrings: tuple[str, ...]
    is_prefix: bool
    is_any_case: bool = False


@dataclass(frozen=True)
class NotNull:
    """The column is not null."""

    column: Column


Fact = EqualsAny | InRange | HasSubstrings | NotNull


@dataclass(frozen=True)
class AnyOf:
    """All facts of at least one branch are true. Without branches, the predicate is never true."""

    branches: tuple[AllOf, ...]


@dataclass(frozen=True)
class AllOf:
    """All parts are true. Each part alone is a sound filter."""

    parts: tuple[Fact | AnyOf, ...]


def intervals_of(fact: EqualsAny | InRange) -> list[tuple[Scalar | None, Scalar | None]]:
    """Return the closed intervals of the values that a fact allows."""
    return [(fact.low, fact.high)] if isinstance(fact, InRange) else [(value, value) for value in fact.values]


def facts_of(root: Node) -> AllOf:
    """Return facts that are true wherever a bound tree is true. Without any parts, nothing is implied."""
    return AllOf(_merge_ranges(_facts(root, True)))


def _facts(node: Node, truth: bool) -> list[Fact | AnyOf]:
    """Return the facts that hold if a node is true (or false), an empty list if there are none."""
    match node:
        case Not(part=part):
            return _facts(part, not truth)
        case IsTrue(part=part) if truth:
            return _facts(part, True)
        case And(parts=parts) | Or(parts=parts):
            sides = [_facts(part, truth) for part in parts]
            return [fact for side in sides for fact in side] if isinstance(node, And) is truth else _either(sides)
        case IsNull(column=column) if not truth:
            return [NotNull(column)]
        case Comparison():
            return _comparison(node, truth)
        case InList(column=column, values=values, has_nan=has_nan) if truth:
            return [] if has_nan else _equals_any(column, values)
        case InList(column=column):
            return [NotNull(column)]
        case StringMatch() | LikeMatch() | CaselessMatch():
            return [_string_fact(node)] if truth else [NotNull(node.column)]
    return []


def _string_fact(node: StringMatch | LikeMatch | CaselessMatch) -> Fact:
    """Return the fact of a true test of a string."""
    match node:
        case StringMatch(column=column, test=test, text=text):
            return HasSubstrings(column, (text,), test is StringTest.PREFIX)
        case LikeMatch(column=column, literals=literals, hint=hint) if literals:
            return HasSubstrings(column, literals, hint is not None and hint.test is StringTest.PREFIX)
        case CaselessMatch(column=column, literals=literals, is_prefix=is_prefix):
            return HasSubstrings(column, literals, is_prefix, is_any_case=True)
    return NotNull(node.column)


def _either(sides: Sequence[list[Fact | AnyOf]]) -> list[Fact | AnyOf]:
    """Join the sides of an OR. If one side implies nothing, neither does the OR."""
    if not all(sides):
        return []
    branches: list[AllOf] = []
    for side in sides:
        if len(side) == 1 and isinstance(side[0], AnyOf):
            branches.extend(side[0].branches)
        else:
            branches.append(AllOf(_merge_ranges(side)))
    return [AnyOf(tuple(branches))]


def _comparison(node: Comparison, truth: bool) -> list[Fact | AnyOf]:
    column, value = node.column, node.value
    if column.type is LogicalType.BOOLEAN:
        return [EqualsAny(column, (bool(value) is truth,))]
    if node.op is Op.EQ:
        return _equals_any(column, (value,)) if truth else [NotNull(column)]
    if column.type in (LogicalType.STRING, LogicalType.BINARY):
        return [NotNull(column)]
    op = node.op if truth else NEGATED[node.op]
    if isinstance(value, int):
        # The next integer, day or microsecond makes the interval closed.
        value += (op is Op.GT) - (op is Op.LT)
    limit = _scalar(column, value)
    if limit is None:
        return []
    return [InRange(column, None, limit) if op in (Op.LT, Op.LE) else InRange(column, limit, None)]


def _equals_any(column: Column, values: Sequence[Value]) -> list[Fact | AnyOf]:
    if not values:
        return [AnyOf(())]
    if len(values) > _MAX_VALUES:
        return []
    scalars = [_scalar(column, value) for value in values]
    finite_scalars = tuple(scalar for scalar in scalars if scalar is not None)
    return [EqualsAny(column, tuple(dict.fromkeys(finite_scalars)))] if len(finite_scalars) == len(scalars) else []


def _scalar(column: Column, value: Value) -> Scalar | None:
    """Convert a constant. Returns None for NaN, infinities, and dates outside Python's calendar."""
    if column.type in NUMERIC and isinstance(value, int | float | Decimal):
        number = Decimal(value)
        return number if number.is_finite() else None
    if isinstance(value, str if column.type is LogicalType.STRING else bytes):
        return value
    if column.type is LogicalType.DATE and isinstance(value, int):
        return _date(value)
    if column.type in (LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ) and isinstance(value, int):
        return _moment(value)
    return None


def _date(days: int) -> date | None:
    ordinal = days + EPOCH_ORDINAL
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else None


def _moment(microseconds: int) -> datetime | None:
    days, time = divmod(microseconds, MICROSECONDS_PER_DAY)
    day = _date(days)
    return None if day is None else datetime(day.year, day.month, day.day) + timedelta(microseconds=time)


def _merge_ranges(facts: Iterable[Fact | AnyOf]) -> tuple[Fact | AnyOf, ...]:
    """Intersect the intervals of each column: two half-open ranges make one range that a pattern can use."""
    ranges: dict[Column, InRange] = {}
    others: list[Fact | AnyOf] = []
    for fact in facts:
        if isinstance(fact, InRange):
            other = ranges.get(fact.column)
            ranges[fact.column] = fact if other is None else _intersection(other, fact)
        else:
            others.append(fact)
    return (*others, *ranges.values())


def _intersection(one: InRange, two: InRange) -> InRange:
    lows = [end for end in (one.low, two.low) if end is not None]
    highs = [end for end in (one.high, two.high) if end is not None]
    return InRange(one.column, max(lows) if lows else None, min(highs) if highs else None)
