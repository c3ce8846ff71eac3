"""Evaluates bound trees over the statistics of a unit (a file, stripe or row group): can any row in it pass?

A unit is pruned only if no row in it can make the predicate true. Unknown statistics prune nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
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


def can_match(root: Node, statistics: Callable[[Path], ColumnBounds | None]) -> bool:
    """Return whether a row of the unit can pass.

    False is certain. `statistics` returns None for columns without any.
    """
    return _may_be(root, True, lambda leaf, truth: _outcomes(leaf, statistics)[_OUTCOME_INDEX[truth]])


def may_contain(root: Node, contains: Callable[[Path, Value], bool]) -> bool:
    """Return whether a row of the unit can pass, according to bloom filters. False is certain.

    `contains` returns False only if no row has an equal value. It is called for the values of =, <=> and IN, not for
    NaN.
    """

    def has_value(leaf: Node, truth: _Truth) -> bool:
        probe = _probe(leaf) if truth else None
        return probe is None or any(contains(probe[0], value) for value in probe[1])

    return _may_be(root, True, has_value)


def probes(root: Node) -> dict[Path, tuple[Value, ...]]:
    """Return the values that `may_contain` can look up, in order, by the columns whose bloom filters have a use."""
    by_path: dict[Path, set[Value]] = {}

    def record(leaf: Node, truth: _Truth) -> bool:
        if truth and (probe := _probe(leaf)) is not None:
            by_path.setdefault(probe[0], set()).update(probe[1])
        return True

    _may_be(root, True, record)
    return {path: tuple(sorted(values)) for path, values in by_path.items()}


_Truth = bool | None
"""True, false or null."""


def _may_be(node: Node, truth: _Truth, leaf_may_be: Callable[[Node, _Truth], bool]) -> bool:
    """Return whether a node may have a truth value for some row. `leaf_may_be` answers that for the tests in it."""
    match node:
        case BooleanConstant(value=value):
            return value is truth
        case And(parts=parts) | Or(parts=parts):
            outcomes = [_may_be(part, truth, leaf_may_be) for part in parts]
            return all(outcomes) if isinstance(node, And) is truth else any(outcomes)
        case Not(part=part):
            return _may_be(part, None if truth is None else not truth, leaf_may_be)
        case IsTrue(part=part) | IsUnknown(part=part):
            true_value = True if isinstance(node, IsTrue) else None
            values = [value for value in (True, False, None) if truth is not None and (value is true_value) is truth]
            return any(_may_be(part, value, leaf_may_be) for value in values)
    return leaf_may_be(node, truth)


_OUTCOME_INDEX: dict[_Truth, int] = {True: 0, False: 1, None: 2}
_Pair = tuple[bool, bool]
_ANY = (True, True)


def _outcomes(node: Node, statistics: Callable[[Path], ColumnBounds | None]) -> tuple[bool, bool, bool]:
    """Return whether a test may be true, false or null for some row of the unit."""
    match node:
        case IsNull(column=column):
            nulls = statistics(column.path) or ColumnBounds()
            return nulls.has_null is not False, nulls.values != 0, False
        case ColumnComparison(op=op, left=left, right=right):
            ranges = _range(left, statistics(left.path)), _range(right, statistics(right.path))
            return (*_compare_columns(op, *ranges), True)
        case Comparison(column=column) | InList(column=column) | StringMatch(column=column) | LikeMatch(column=column):
            bounds = statistics(column.path) or ColumnBounds()
            may_be_null = bounds.has_null is not False or (isinstance(node, InList) and node.has_null)
            return (*_column_outcomes(node, _range(column, bounds)), may_be_null)
    return True, True, True


@dataclass(frozen=True)
class _Range:
    """A closed interval. None means unbounded; `has_nan` says that there may also be NaN, the largest value."""

    low: Value | None
    high: Value | None
    has_nan: bool
    is_empty: bool

    def may_reach(self, value: Value) -> bool:
        """Return whether an element may be greater than or equal to a value."""
        return self.has_nan or self.high is None or value <= self.high  # type: ignore[operator]

    def may_exceed(self, value: Value) -> bool:
        """Return whether an element may be greater than a value."""
        return self.has_nan or self.high is None or value < self.high  # type: ignore[operator]

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
        return not self.has_nan and self.low == value == self.high


def _range(column: Column, bounds: ColumnBounds | None) -> _Range:
    bounds = bounds or ColumnBounds()
    low, high = bounds.low, bounds.high
    if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
        low = high = None
    return _Range(low, high, column.type in FLOATING, bounds.values == 0)


def _column_outcomes(node: Node, values: _Range) -> _Pair:
    """Return whether a test may be true and may be false where its column is not null."""
    if values.is_empty:
        return False, False
    if isinstance(node, Comparison):
        return _compare(node, values)
    return _in_list(node, values) if isinstance(node, InList) else (_may_match(node, values), True)


def _compare(node: Comparison, values: _Range) -> _Pair:
    value = node.value
    if isinstance(value, float) and math.isnan(value):
        return _ANY
    match node.op:
        case Op.EQ:
            return values.may_contain(value), not values.is_only(value)
        case Op.LT:
            return values.may_be_below(value), values.may_reach(value)
        case Op.LE:
            return values.may_be_at_most(value), values.may_exceed(value)
        case Op.GT:
            return values.may_exceed(value), values.may_be_at_most(value)
    return values.may_reach(value), values.may_be_below(value)


def _in_list(node: InList, values: _Range) -> _Pair:
    first = 0 if values.low is None else bisect_left(node.values, values.low)
    last = len(node.values) if values.high is None else bisect_right(node.values, values.high)
    hit = first < last or node.has_nan
    miss = not any(values.is_only(value) for value in node.values[first:last][:1])
    return hit, miss and not node.has_null


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


def _compare_columns(op: Op, left: _Range, right: _Range) -> _Pair:
    """Compare the smallest value of one column with the largest of the other."""
    if left.is_empty or right.is_empty:
        return False, False
    if left.has_nan:
        return _ANY
    if op is Op.LT:
        return right.high is None or left.may_be_below(right.high), True
    overlap = right.high is None or left.may_be_at_most(right.high)
    if op is Op.EQ:
        overlap = overlap and (left.high is None or right.may_be_at_most(left.high))
    return overlap, True


def _probe(node: Node) -> tuple[Path, tuple[Value, ...]] | None:
    """Return the column of an equality or a list, and the values that satisfy it; None for other tests."""
    if not isinstance(node, Comparison | InList):
        return None
    values = node.values if isinstance(node, InList) else (node.value,)
    is_range = isinstance(node, Comparison) and node.op is not Op.EQ
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    if is_range or has_nan or (isinstance(node, InList) and node.has_nan) or node.column.type is LogicalType.BOOLEAN:
        return None
    return node.column.path, values
