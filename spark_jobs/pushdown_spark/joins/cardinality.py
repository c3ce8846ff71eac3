"""Estimates how many rows joins give, from the rows of their relations and the distinct values of their keys.

The textbook model: values of equated columns are contained in each other and spread evenly. Every set of relations has
one estimate, whatever the order. Columns that equalities connect form classes, each counted once; several classes
between the same relations are a composite key, which cannot have more values than its relations have rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from numpy import count_nonzero, int64
from numpy.typing import NDArray
from sqlglot import exp

from pushdown_spark.joins.order import bits

_INEQUALITY = 1 / 3
_UNKNOWN = 0.25
_DEFAULT_DISTINCT_SHARE = 0.1
_LEAST_ROW = 16.0
"""Bytes of a row of no columns."""

LeavingColumns = Callable[[int, int], Collection[str] | None]
"""Columns of a relation (the second) that leave the join of a set (the first), by lower-case names; None for all."""

Key = tuple[str, str]
"""A column: its relation's name and its own, both lower-case."""


@dataclass(frozen=True)
class KeyValues:
    """All values of an integer key, and those of the rows that the relation's conditions keep.

    `certain`: Spark finds no other rows in the files, and these conditions keep none of them that is not among `kept`.
    """

    every: NDArray[int64]
    kept: NDArray[int64]
    certain: bool = False

    def between(self, low: int, high: int) -> tuple[int, int]:
        """How many of both lie between two values, these included."""
        every, kept = (int(count_nonzero((each >= low) & (each <= high))) for each in (self.every, self.kept))
        return every, kept


@dataclass(frozen=True)
class ColumnFigures:
    """What is known of a column over the whole relation: distinct values, the share of nulls, whether it is a key.

    `kept` is the share of its values that conditions on this very column keep, `limits` are its least and its greatest
    value, `values` those of a key that was seen whole.
    """

    distinct: float
    null_share: float = 0.0
    unique: bool = False
    kept: float = 1.0
    limits: tuple[int, int] | None = None
    values: KeyValues | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RelationFigures:
    """What is known of a relation: rows in all, rows that its own conditions keep, and columns.

    `at_most` is a proven bound on the bytes of its rows in memory, None where there is none; `stored` are the bytes of
    its files, from which Spark tells whether a relation is small, None where it has no files. `row_bytes` is what a row
    has in memory, at most or, of texts that nobody measured, on average; None where `rows` is no count. `widths` are
    the bytes of columns at most, by their lower-case names, of those whose values are known to be no longer.
    """

    rows: float
    kept: float
    columns: Mapping[Key, ColumnFigures] = field(default_factory=dict)
    at_most: float | None = None
    stored: float | None = None
    row_bytes: float | None = None
    widths: Mapping[str, float] = field(default_factory=dict)

    def bytes_of(self, columns: Collection[str] | None) -> float | None:
        """Bytes of a row with some columns, None for all that are read; None where `rows` is no count."""
        if self.row_bytes is None or columns is None or any(name not in self.widths for name in columns):
            return self.row_bytes
        return min(sum(self.widths[name] for name in columns), self.row_bytes)

    def distinct(self, key: Key) -> float:
        """Distinct values of a column that conditions on it keep.

        Other conditions keep rows of some values, each of which meets as many rows elsewhere as any value does.
        """
        known = self.columns.get(key)
        if known is None:
            return max(self.rows * _DEFAULT_DISTINCT_SHARE, 1.0)
        return max(min(known.distinct, self.rows) * known.kept, 1.0)

    def distinct_kept(self, key: Key) -> float:
        """Distinct values of a column among the rows kept."""
        known = self.columns.get(key)
        whole = known.distinct if known is not None else max(self.rows * _DEFAULT_DISTINCT_SHARE, 1.0)
        if self.rows <= 0 or self.kept >= self.rows:
            return max(min(whole, self.rows), 1.0)
        per_value = max(self.rows / max(whole, 1.0), 1.0)
        seen = whole * (1.0 - math.pow(1.0 - self.kept / self.rows, per_value))
        return max(min(seen, self.kept), 1.0)

    def present(self, key: Key) -> float:
        """The share of rows in which a column is not null."""
        known = self.columns.get(key)
        return 1.0 if known is None else 1.0 - known.null_share


@dataclass(frozen=True)
class Equality:
    """`left = right` between columns of two relations, by the relations' numbers."""

    left: int
    left_key: Key
    right: int
    right_key: Key


@dataclass(frozen=True)
class Selective:
    """Any other condition over several relations, and the share of rows that it keeps."""

    mask: int
    share: float


@dataclass(frozen=True)
class Member:
    """A column of a class of equal columns, by its relation's number."""

    relation: int
    key: Key


class Estimate:
    """Rows of the join of any set of relations."""

    def __init__(
        self,
        relations: Sequence[RelationFigures],
        equalities: Iterable[Equality],
        others: Iterable[Selective] = (),
        leaving: LeavingColumns | None = None,
    ) -> None:
        """`leaving` tells which columns leave the join of a set, None that all do."""
        self._relations = relations
        self._leaving = leaving
        self._classes = equal_columns(equalities)
        self._met = within_limits(relations, self._classes)
        self._others = tuple(others)
        self._known: dict[int, float] = {}
        self._bounds: dict[int, float] = {}
        self._started: dict[int, int] = {}
        self._met_keys = self._keys_met()

    def rows(self, mask: int) -> float:
        """Rows of the join of a set of relations, given as a bit mask; never less than one."""
        if mask not in self._known:
            self._known[mask] = max(self._estimated(mask), 1.0)
        return self._known[mask]

    def at_most(self, mask: int) -> float | None:
        """A bound on the bytes of the join of a set in memory, None where nothing proves one.

        Relations whose keys are met by columns of the others cannot multiply rows; any other does by its own.
        """
        numbers = list(bits(mask))
        widths = [self._width(mask, number) for number in numbers]
        known = [width for width in widths if width is not None]
        if len(known) < len(widths):
            return self._relations[numbers[0]].at_most if len(numbers) == 1 else None
        return self._most_rows(mask) * max(sum(known), _LEAST_ROW)

    def share_expected(self, mask: int) -> float:
        """The share of the most rows that the join of a set may give that is expected."""
        return min(self.rows(mask) / max(self._most_rows(mask), 1.0), 1.0)

    def _width(self, mask: int, number: int) -> float | None:
        """Bytes of what a relation gives to a row of the join of a set."""
        columns = None if self._leaving is None else self._leaving(mask, number)
        return self._relations[number].bytes_of(columns)

    def _most_rows(self, mask: int) -> float:
        """Rows of the join of a set at most, if the relations' rows are counted."""
        if mask not in self._bounds:
            starts = self._starts(mask)
            if starts:
                self._bounds[mask] = min(self._relations[number].rows for number in bits(starts))
            else:
                self._bounds[mask] = min(
                    self._relations[number].rows * self._most_rows(mask & ~(1 << number)) for number in bits(mask)
                )
        return self._bounds[mask]

    def _starts(self, mask: int) -> int:
        """The relations of a set to each of whose rows the others add one row at most, by their keys."""
        if mask & (mask - 1) == 0:
            return mask
        if mask not in self._started:
            found = 0
            for number in bits(mask):
                rest = mask & ~(1 << number)
                if self._met_keys[number] & rest:
                    found |= self._starts(rest)
            self._started[mask] = found
        return self._started[mask]

    def _keys_met(self) -> list[int]:
        """For each relation, which others have a column that is equal to a key of it."""
        met = [0] * len(self._relations)
        for group in self._classes:
            inside = sum(1 << number for number in {member.relation for member in group})
            for member in group:
                known = self._relations[member.relation].columns.get(member.key)
                if known is not None and known.unique:
                    met[member.relation] |= inside & ~(1 << member.relation)
        return met

    def _estimated(self, mask: int) -> float:
        if mask & (mask - 1) == 0:
            return max(self._relations[mask.bit_length() - 1].kept, 0.0)
        rows = 1.0
        for number in bits(mask):
            rows *= max(self._met[number].kept, 0.0)
        for group in self._classes:
            rows *= self._class_share(group, mask)
        rows *= self._composite_correction(mask)
        for other in self._others:
            if other.mask & mask == other.mask:
                rows *= other.share
        return rows

    def _class_share(self, group: Sequence[Member], mask: int) -> float:
        """The share of pairs that agree in a class: one over the distinct values of each member but the poorest."""
        inside = [member for member in group if mask >> member.relation & 1]
        if len({member.relation for member in inside}) < 2:
            return 1.0
        counts: dict[int, float] = {}
        share = 1.0
        for member in inside:
            figures = self._met[member.relation]
            counts[member.relation] = max(counts.get(member.relation, 1.0), figures.distinct(member.key))
            share *= figures.present(member.key)
        for count in sorted(counts.values())[1:]:
            share /= count
        return share

    def _composite_correction(self, mask: int) -> float:
        """Takes back what several classes between two relations count too much."""
        factor = 1.0
        for left, right in combinations(list(bits(mask)), 2):
            products = [1.0, 1.0]
            counted, shared = 1.0, 0
            for group in self._classes:
                sides = [self._of(group, number) for number in (left, right)]
                if None in sides:
                    continue
                shared += 1
                counts = [max(side or 1.0, 1.0) for side in sides]
                products = [product * count for product, count in zip(products, counts, strict=True)]
                counted *= max(counts)
            if shared > 1:
                limits = [
                    min(product, max(self._met[number].kept, 1.0))
                    for product, number in zip(products, (left, right), strict=True)
                ]
                factor *= max(counted / max(limits), 1.0)
        return factor

    def _of(self, group: Sequence[Member], relation: int) -> float | None:
        """Distinct values that a relation has of a class, None where it has no column in it."""
        found = [self._met[relation].distinct(member.key) for member in group if member.relation == relation]
        return max(found) if found else None


def within_limits(
    relations: Sequence[RelationFigures], classes: Iterable[Sequence[Member]]
) -> Sequence[RelationFigures]:
    """The relations without rows whose keys lie beyond the limits of what they are equated with.

    A table of days may cover centuries, of which sales have five years: of these a condition keeps another share.
    """
    found = list(relations)
    for group in classes:
        for member in group:
            column = relations[member.relation].columns.get(member.key)
            limits = limits_of_others(relations, group, member)
            if column is not None and column.values is not None and limits is not None:
                found[member.relation] = _between(found[member.relation], member.key, column.values, *limits)
    return found


def limits_of_others(
    relations: Sequence[RelationFigures], group: Sequence[Member], member: Member
) -> tuple[int, int] | None:
    """The least and the greatest value that a column can meet in those of other relations, None where none is known."""
    known = [
        column.limits
        for other in group
        if other.relation != member.relation
        and (column := relations[other.relation].columns.get(other.key)) is not None
        and column.limits is not None
    ]
    return (max(low for low, _ in known), min(high for _, high in known)) if known else None


def _between(figures: RelationFigures, key: Key, values: KeyValues, low: int, high: int) -> RelationFigures:
    """A relation without the rows whose key lies beyond some limits."""
    every, kept = values.between(low, high)
    columns = {**figures.columns, key: replace(figures.columns[key], distinct=max(float(every), 1.0))}
    # Conditions that nobody could count keep the same share of any rows.
    share = figures.kept / max(len(values.kept), 1)
    return replace(figures, rows=max(float(every), 1.0), kept=kept * min(share, 1.0), columns=columns)


def share_kept(node: exp.Expr, distinct: Mapping[Key, float]) -> float:
    """A guess at the share of rows that a condition keeps, where nothing can be counted.

    `distinct` holds the distinct values of columns by relation and name.
    """
    node = node.unnest()
    if isinstance(node, exp.And):
        return share_kept(node.left, distinct) * share_kept(node.right, distinct)
    if isinstance(node, exp.Or):
        return min(share_kept(node.left, distinct) + share_kept(node.right, distinct), 1.0)
    if isinstance(node, exp.Not):
        return max(1.0 - share_kept(node.this, distinct), 0.05)
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        counts = [
            distinct[key]
            for column in node.find_all(exp.Column)
            if (key := (column.table.lower(), column.name.lower())) in distinct
        ]
        return 1.0 / max([*counts, 1.0]) if counts else 0.1
    if isinstance(node, exp.In) and node.expressions:
        column = node.this
        known = distinct.get((column.table.lower(), column.name.lower())) if isinstance(column, exp.Column) else None
        return min(len(node.expressions) / known, 1.0) if known else min(0.05 * len(node.expressions), 0.5)
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
        return _INEQUALITY
    return _UNKNOWN


def equal_columns(equalities: Iterable[Equality]) -> tuple[tuple[Member, ...], ...]:
    """Columns that equalities connect, directly or through others."""
    groups: list[set[Member]] = []
    for each in equalities:
        merged = {Member(each.left, each.left_key), Member(each.right, each.right_key)}
        rest = []
        for group in groups:
            if group & merged:
                merged |= group
            else:
                rest.append(group)
        groups = [*rest, merged]
    return tuple(tuple(sorted(group, key=lambda member: (member.relation, member.key))) for group in groups)
