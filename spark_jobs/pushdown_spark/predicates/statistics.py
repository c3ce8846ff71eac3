"""Judges a compiled predicate by what is known of a file, stripe or row group as a whole: may any row in it pass?

Every judgement errs on one side: a unit is ruled out only where no row of it can make the predicate true.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    Path,
    Pattern,
    Text,
    TextTest,
    Value,
    VectorFilter,
)


@dataclass(frozen=True)
class ColumnBounds:
    """What is known of one column's values in a unit; None for what is not known.

    `low` and `high` enclose all values that are neither null nor NaN, in the units of `vector.Value`; a text may be cut
    short as long as that holds, and one that is not valid UTF-8 is no bound. `has_null` also tells of rows whose value
    is null because a parent is. `values` is the number of rows that are not null.
    """

    low: Value | None = None
    high: Value | None = None
    has_null: bool | None = None
    values: int | None = None


@dataclass(frozen=True)
class Probe:
    """A column and the values of it that a bloom filter may be asked for, ascending."""

    path: Path
    values: tuple[Value, ...]


def can_match(compiled: VectorFilter, statistics: Callable[[Path], ColumnBounds | None]) -> bool:
    """Whether a row of the unit may pass; False is certain. `statistics` gives None for a column it does not know."""
    return _judge(compiled.root, statistics).true


def may_contain(compiled: VectorFilter, contains: Callable[[Path, Value], bool]) -> bool:
    """Whether a row of the unit may pass, by a test that is False only where no row has a value; False is certain.

    Only =, <=> and IN are asked for. Of floats 0.0 and -0.0 are asked for both, NaN never.
    """
    return _may_be(compiled.root, True, contains)


def probes(compiled: VectorFilter) -> tuple[Probe, ...]:
    """What `may_contain` may ask for, by column: the columns whose bloom filters are worth reading."""
    found: dict[Path, set[Value]] = {}
    for column, values in _asked(compiled.root, True):
        found.setdefault(column.path, set()).update(values)
    return tuple(Probe(path, tuple(sorted(values))) for path, values in found.items())


@dataclass(frozen=True)
class _Outcomes:
    """Which answers a part may give for some row of the unit."""

    true: bool
    false: bool
    null: bool


_ANY = _Outcomes(True, True, True)


def _judge(node: Node, statistics: Callable[[Path], ColumnBounds | None]) -> _Outcomes:
    match node:
        case Constant(value=value):
            return _Outcomes(value is True, value is False, value is None)
        case And(parts=parts):
            sides = [_judge(part, statistics) for part in parts]
            return _Outcomes(all(s.true for s in sides), any(s.false for s in sides), any(s.null for s in sides))
        case Or(parts=parts):
            sides = [_judge(part, statistics) for part in parts]
            return _Outcomes(any(s.true for s in sides), all(s.false for s in sides), any(s.null for s in sides))
        case Not(part=part):
            inner = _judge(part, statistics)
            return _Outcomes(inner.false, inner.true, inner.null)
        case IsTrue(part=part):
            inner = _judge(part, statistics)
            return _Outcomes(inner.true, inner.false or inner.null, False)
        case IsUnknown(part=part):
            inner = _judge(part, statistics)
            return _Outcomes(inner.null, inner.true or inner.false, False)
    return _judge_leaf(node, statistics)


def _judge_leaf(node: Node, statistics: Callable[[Path], ColumnBounds | None]) -> _Outcomes:
    match node:
        case IsNull(column=column):
            known = statistics(column.path) or ColumnBounds()
            return _Outcomes(known.has_null is not False, known.values != 0, False)
        case Pair(op=op, left=left, right=right):
            return _pair(op, _range(left, statistics(left.path)), _range(right, statistics(right.path)))
        case Compare(column=column) | OneOf(column=column) | Text(column=column) | Pattern(column=column):
            bounds = statistics(column.path)
            return _ANY if bounds is None else _of_values(node, bounds, _range(column, bounds))
    return _ANY


@dataclass(frozen=True)
class _Range:
    """A closed interval, None for an open side; `nan` tells that NaN may be above it."""

    low: Value | None
    high: Value | None
    nan: bool
    empty: bool

    def reaches(self, value: Value) -> bool:
        """Whether something in it may be at or above a value."""
        return self.nan or self.high is None or value <= self.high  # type: ignore[operator]

    def exceeds(self, value: Value) -> bool:
        """Whether something in it may be above a value."""
        return self.nan or self.high is None or value < self.high  # type: ignore[operator]

    def starts_by(self, value: Value) -> bool:
        """Whether something in it may be at or below a value."""
        return self.low is None or self.low <= value  # type: ignore[operator]

    def starts_before(self, value: Value) -> bool:
        """Whether something in it may be below a value."""
        return self.low is None or self.low < value  # type: ignore[operator]

    def encloses(self, value: Value) -> bool:
        """Whether a value, which is not NaN, may be in it."""
        return self.starts_by(value) and (self.high is None or value <= self.high)  # type: ignore[operator]

    def is_only(self, value: Value) -> bool:
        """Whether it holds nothing but one value."""
        return not self.nan and self.low == value == self.high


def _range(column: Column, bounds: ColumnBounds | None) -> _Range:
    known = bounds or ColumnBounds()
    low, high = known.low, known.high
    if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
        low = high = None
    return _Range(low, high, column.kind in FLOATING, known.values == 0)


def _of_values(node: Node, bounds: ColumnBounds, values: _Range) -> _Outcomes:
    """A test that is null just where its column is."""
    if values.empty:
        inner = _Outcomes(False, False, False)
    elif isinstance(node, Compare):
        inner = _compare(node, values)
    elif isinstance(node, OneOf):
        inner = _one_of(node, values)
    else:
        inner = _Outcomes(_text(node, values), True, False)
    return _Outcomes(inner.true, inner.false, inner.null or bounds.has_null is not False)


def _compare(node: Compare, values: _Range) -> _Outcomes:
    value = node.value
    if isinstance(value, float) and math.isnan(value):
        return _Outcomes(True, True, False)
    match node.op:
        case Op.EQ:
            return _Outcomes(values.encloses(value), not values.is_only(value), False)
        case Op.LT:
            return _Outcomes(values.starts_before(value), values.reaches(value), False)
        case Op.LE:
            return _Outcomes(values.starts_by(value), values.exceeds(value), False)
        case Op.GT:
            return _Outcomes(values.exceeds(value), values.starts_by(value), False)
    return _Outcomes(values.reaches(value), values.starts_before(value), False)


def _one_of(node: OneOf, values: _Range) -> _Outcomes:
    first = 0 if values.low is None else bisect_left(node.values, values.low)
    last = len(node.values) if values.high is None else bisect_right(node.values, values.high)
    hit = first < last or node.nan
    miss = not any(values.is_only(value) for value in node.values[first:last][:1])
    return _Outcomes(hit, miss and not node.null, miss and node.null)


def _text(node: Node, values: _Range) -> bool:
    """Whether a text may start with what is asked; nothing is known of its end and middle."""
    hint = node.hint if isinstance(node, Pattern) else node
    if not isinstance(hint, Text) or hint.how is not TextTest.PREFIX:
        return True
    prefix = hint.text.encode()
    low, high = (
        end.encode("utf-8", "surrogatepass") if isinstance(end, str) else None for end in (values.low, values.high)
    )
    return (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)


def _pair(op: Op, left: _Range, right: _Range) -> _Outcomes:
    """Two columns: the smallest of one against the largest of the other."""
    if left.empty or right.empty:
        return _Outcomes(False, False, True)
    if left.nan:
        return _ANY
    if op is Op.LT:
        return _Outcomes(right.high is None or left.starts_before(right.high), True, True)
    overlap = right.high is None or left.starts_by(right.high)
    if op is Op.EQ:
        overlap = overlap and (left.high is None or right.starts_by(left.high))
    return _Outcomes(overlap, True, True)


def _may_be(node: Node, answer: bool, contains: Callable[[Path, Value], bool]) -> bool:
    """Whether a part may give an answer for some row; True where nothing can be said."""
    match node:
        case Constant(value=value):
            return value is answer
        case And(parts=parts) | Or(parts=parts):
            every = isinstance(node, And) is answer
            return (all if every else any)(_may_be(part, answer, contains) for part in parts)
        case Not(part=part):
            return _may_be(part, not answer, contains)
        case IsTrue(part=part) if answer:
            return _may_be(part, True, contains)
        case Compare() | OneOf() if answer and (values := _values(node)) is not None:
            return any(contains(node.column.path, value) for value in values)
    return True


def _asked(node: Node, answer: bool) -> Iterator[tuple[Column, tuple[Value, ...]]]:
    match node:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _asked(part, answer)
        case Not(part=part):
            yield from _asked(part, not answer)
        case IsTrue(part=part) if answer:
            yield from _asked(part, True)
        case Compare() | OneOf() if answer and (values := _values(node)) is not None:
            yield node.column, values


def _values(node: Compare | OneOf) -> tuple[Value, ...] | None:
    """The values of which a column must have one, as a bloom filter knows them; None where there is no such list."""
    values = node.values if isinstance(node, OneOf) else (node.value,)
    is_range = isinstance(node, Compare) and node.op is not Op.EQ
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    if is_range or has_nan or (isinstance(node, OneOf) and node.nan) or node.column.kind is Kind.BOOLEAN:
        return None
    has_zeros = node.column.kind in FLOATING and 0.0 in values
    return (*(value for value in values if value != 0.0), 0.0, -0.0) if has_zeros else values
