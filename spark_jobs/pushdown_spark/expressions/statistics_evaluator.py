"""Evaluates bound trees over the statistics of a unit (a file, stripe or row group): can any row in it pass?

A unit is pruned only if no row in it can make the predicate true. Unknown statistics prune nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    StringTest,
)
from pushdown_spark.expressions.types import FLOATING, LogicalType, Path, Value


@dataclass(frozen=True)
class ColumnBounds:
    """Statistics of one column in a unit. None means unknown.

    `low` and `high` are bounds of all values that are neither null nor NaN, in the units of `types.Value`. Strings may
    be truncated if they are still bounds; invalid UTF-8 is not a bound. `has_null` includes values that are null
    because a parent is null. `values` is the number of rows that are not null.
    """

    low: Value | None = None
    high: Value | None = None
    has_null: bool | None = None
    values: int | None = None


@dataclass(frozen=True)
class Probe:
    """A column and the values to look up in its bloom filter, in ascending order."""

    path: Path
    values: tuple[Value, ...]


def can_match(root: Node, statistics: Callable[[Path], ColumnBounds | None]) -> bool:
    """Return whether a row of the unit can pass.

    False is certain. `statistics` returns None for columns without any.
    """
    return _outcomes(root, statistics).true


def may_contain(root: Node, contains: Callable[[Path, Value], bool]) -> bool:
    """Return whether a row of the unit can pass, according to bloom filters. False is certain.

    `contains` returns False only if no row has the value. It is called for the values of =, <=> and IN. Zeros of
    floats are looked up with both signs, NaN never.
    """
    return _may_be(root, True, contains)


def probes(root: Node) -> tuple[Probe, ...]:
    """Return the values that `may_contain` can look up, for each column whose bloom filter is worth reading."""
    by_path: dict[Path, set[Value]] = {}
    for column, values in _lookups(root, True):
        by_path.setdefault(column.path, set()).update(values)
    return tuple(Probe(path, tuple(sorted(values))) for path, values in by_path.items())


@dataclass(frozen=True)
class _Outcomes:
    """The values that a node can have for some row of the unit."""

    true: bool
    false: bool
    null: bool


_ANY = _Outcomes(True, True, True)


def _outcomes(node: Node, statistics: Callable[[Path], ColumnBounds | None]) -> _Outcomes:
    match node:
        case BooleanConstant(value=value):
            return _Outcomes(value is True, value is False, value is None)
        case And(parts=parts):
            sides = [_outcomes(part, statistics) for part in parts]
            return _Outcomes(all(s.true for s in sides), any(s.false for s in sides), any(s.null for s in sides))
        case Or(parts=parts):
            sides = [_outcomes(part, statistics) for part in parts]
            return _Outcomes(any(s.true for s in sides), all(s.false for s in sides), any(s.null for s in sides))
        case Not(part=part):
            inner = _outcomes(part, statistics)
            return _Outcomes(inner.false, inner.true, inner.null)
        case IsTrue(part=part):
            inner = _outcomes(part, statistics)
            return _Outcomes(inner.true, inner.false or inner.null, False)
        case IsUnknown(part=part):
            inner = _outcomes(part, statistics)
            return _Outcomes(inner.null, inner.true or inner.false, False)
    return _leaf_outcomes(node, statistics)


def _leaf_outcomes(node: Node, statistics: Callable[[Path], ColumnBounds | None]) -> _Outcomes:
    match node:
        case IsNull(column=column):
            nulls = statistics(column.path) or ColumnBounds()
            return _Outcomes(nulls.has_null is not False, nulls.values != 0, False)
        case ColumnComparison(op=op, left=left, right=right):
            return _compare_columns(op, _range(left, statistics(left.path)), _range(right, statistics(right.path)))
        case Comparison(column=column) | InList(column=column) | StringMatch(column=column) | LikeMatch(column=column):
            bounds = statistics(column.path)
            return _ANY if bounds is None else _column_outcomes(node, bounds, _range(column, bounds))
    return _ANY


@dataclass(frozen=True)
class _Range:
    """A closed interval. None means unbounded; `nan` says that there may also be NaN, the largest value."""

    low: Value | None
    high: Value | None
    nan: bool
    empty: bool

    def may_reach(self, value: Value) -> bool:
        """Return whether an element may be greater than or equal to a value."""
        return self.nan or self.high is None or value <= self.high  # type: ignore[operator]

    def may_exceed(self, value: Value) -> bool:
        """Return whether an element may be greater than a value."""
        return self.nan or self.high is None or value < self.high  # type: ignore[operator]

    def may_be_at_most(self, value: Value) -> bool:
        """Return whether an element may be less than or equal to a value."""
        return self.low is None or self.low <= value  # type: ignore[operator]

    def may_be_below(self, value: Value) -> bool:
        """Return whether an element may be less than a value."""
        return self.low is None or self.low < value  # type: ignore[operator]

    def may_contain(self, value: Value) -> bool:
        """Return whether a value, which is not NaN, may be an element."""
        return self.may_be_at_most(value) and (self.high is None or value <= self.high)  # type: ignore[operator]

    def is_only(self, value: Value) -> bool:
        """Return whether all elements equal a value."""
        return not self.nan and self.low == value == self.high


def _range(column: Column, bounds: ColumnBounds | None) -> _Range:
    bounds = bounds or ColumnBounds()
    low, high = bounds.low, bounds.high
    if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
        low = high = None
    return _Range(low, high, column.type in FLOATING, bounds.values == 0)


def _column_outcomes(node: Node, bounds: ColumnBounds, values: _Range) -> _Outcomes:
    """Return the outcomes of a test of one column, which is null where the column is null."""
    if values.empty:
        inner = _Outcomes(False, False, False)
    elif isinstance(node, Comparison):
        inner = _compare(node, values)
    elif isinstance(node, InList):
        inner = _in_list(node, values)
    else:
        inner = _Outcomes(_may_match(node, values), True, False)
    return _Outcomes(inner.true, inner.false, inner.null or bounds.has_null is not False)


def _compare(node: Comparison, values: _Range) -> _Outcomes:
    value = node.value
    if isinstance(value, float) and math.isnan(value):
        return _Outcomes(True, True, False)
    match node.op:
        case Op.EQ:
            return _Outcomes(values.may_contain(value), not values.is_only(value), False)
        case Op.LT:
            return _Outcomes(values.may_be_below(value), values.may_reach(value), False)
        case Op.LE:
            return _Outcomes(values.may_be_at_most(value), values.may_exceed(value), False)
        case Op.GT:
            return _Outcomes(values.may_exceed(value), values.may_be_at_most(value), False)
    return _Outcomes(values.may_reach(value), values.may_be_below(value), False)


def _in_list(node: InList, values: _Range) -> _Outcomes:
    first = 0 if values.low is None else bisect_left(node.values, values.low)
    last = len(node.values) if values.high is None else bisect_right(node.values, values.high)
    hit = first < last or node.has_nan
    miss = not any(values.is_only(value) for value in node.values[first:last][:1])
    return _Outcomes(hit, miss and not node.has_null, miss and node.has_null)


def _may_match(node: Node, values: _Range) -> bool:
    """Return whether a string may start with the prefix of a test. Bounds say nothing about other parts of a string."""
    hint = node.hint if isinstance(node, LikeMatch) else node
    if not isinstance(hint, StringMatch) or hint.test is not StringTest.PREFIX:
        return True
    prefix = hint.text.encode()
    low, high = (
        end.encode("utf-8", "surrogatepass") if isinstance(end, str) else None for end in (values.low, values.high)
    )
    return (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)


def _compare_columns(op: Op, left: _Range, right: _Range) -> _Outcomes:
    """Compare the smallest value of one column with the largest of the other."""
    if left.empty or right.empty:
        return _Outcomes(False, False, True)
    if left.nan:
        return _ANY
    if op is Op.LT:
        return _Outcomes(right.high is None or left.may_be_below(right.high), True, True)
    overlap = right.high is None or left.may_be_at_most(right.high)
    if op is Op.EQ:
        overlap = overlap and (left.high is None or right.may_be_at_most(left.high))
    return _Outcomes(overlap, True, True)


def _may_be(node: Node, truth: bool, contains: Callable[[Path, Value], bool]) -> bool:
    """Return whether a node may have a truth value for some row."""
    match node:
        case BooleanConstant(value=value):
            return value is truth
        case And(parts=parts) | Or(parts=parts):
            every = isinstance(node, And) is truth
            return (all if every else any)(_may_be(part, truth, contains) for part in parts)
        case Not(part=part):
            return _may_be(part, not truth, contains)
        case IsTrue(part=part) if truth:
            return _may_be(part, True, contains)
        case Comparison() | InList() if truth and (values := _values_to_look_up(node)) is not None:
            return any(contains(node.column.path, value) for value in values)
    return True


def _lookups(node: Node, truth: bool) -> Iterator[tuple[Column, tuple[Value, ...]]]:
    """Yield the columns, with the values that `_may_be` looks up in them."""
    match node:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _lookups(part, truth)
        case Not(part=part):
            yield from _lookups(part, not truth)
        case IsTrue(part=part) if truth:
            yield from _lookups(part, True)
        case Comparison() | InList() if truth and (values := _values_to_look_up(node)) is not None:
            yield node.column, values


def _values_to_look_up(node: Comparison | InList) -> tuple[Value, ...] | None:
    """Return the values that satisfy an equality or a list, as a bloom filter stores them; None for other tests."""
    values = node.values if isinstance(node, InList) else (node.value,)
    is_range = isinstance(node, Comparison) and node.op is not Op.EQ
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    if is_range or has_nan or (isinstance(node, InList) and node.has_nan) or node.column.type is LogicalType.BOOLEAN:
        return None
    has_zeros = node.column.type in FLOATING and 0.0 in values
    return (*(value for value in values if value != 0.0), 0.0, -0.0) if has_zeros else values
