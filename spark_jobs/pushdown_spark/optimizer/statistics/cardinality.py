"""Estimates of the number of rows that joins return.

The textbook model: the values of equated columns are contained in each other and evenly distributed. Every set of
relations has one estimate, whatever the join order. Equalities connect columns into classes, and each class counts
once. Several classes between the same relations are a composite key, which cannot have more values than its relations
have rows.

Relations are numbered. Sets of relations are bit masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from sqlglot import exp

from pushdown_spark.optimizer.join_order.enumeration import bits
from pushdown_spark.optimizer.join_order.equalities import ColumnKey, Equality, JoinColumn, equivalence_classes
from pushdown_spark.optimizer.statistics.relation_statistics import KeyValues, RelationStatistics

_MIN_ROW_BYTES = 16.0
"""Bytes of a row without columns."""
_INEQUALITY_SELECTIVITY = 1 / 3
"""The fraction of pairs of rows that an inequality keeps, as in System R (Selinger et al., 1979)."""
_UNKNOWN_SELECTIVITY = 0.25
"""The fraction of rows that any other condition keeps."""

OutputColumns = Callable[[int, int], Collection[str] | None]
"""Returns the columns of a relation (second argument) that leave the join of a set (first); None for all."""


@dataclass(frozen=True)
class JoinFilter:
    """A condition over several relations that is not an equality of columns, and its estimated selectivity."""

    mask: int
    selectivity: float


class CardinalityEstimator:
    """Estimated rows of the join of any set of relations.

    >>> orders = RelationStatistics(1000.0, 1000.0)
    >>> customers = RelationStatistics(100.0, 10.0)
    >>> equality = Equality(JoinColumn(0, ("orders", "customer")), JoinColumn(1, ("customers", "id")))
    >>> CardinalityEstimator([orders, customers], [equality]).rows(0b11)
    100.0
    """

    def __init__(
        self,
        relations: Sequence[RelationStatistics],
        equalities: Iterable[Equality],
        filters: Iterable[JoinFilter] = (),
        output_columns: OutputColumns | None = None,
    ) -> None:
        """Create an estimator. `output_columns` limits the columns that leave joins; None means that all do."""
        self._relations = relations
        self._output_columns = output_columns
        self._classes = equivalence_classes(equalities)
        self._in_bounds = restrict_to_joined_bounds(relations, self._classes)
        self._filters = tuple(filters)
        self._rows: dict[int, float] = {}
        self._max_rows_of: dict[int, float] = {}
        self._starts_of: dict[int, int] = {}
        self._joined_by_key = self._relations_joined_by_key()
        self._composite_keys = tuple(self._composite_key_corrections())

    def rows(self, mask: int) -> float:
        """Return the estimated rows of the join of a set of relations, at least one."""
        if mask not in self._rows:
            self._rows[mask] = max(self._estimate(mask), 1.0)
        return self._rows[mask]

    def max_bytes(self, mask: int) -> float | None:
        """Return an upper bound on the bytes of the join of a set in memory, or None if none can be proven.

        A relation that is joined by its unique key does not multiply rows. Any other multiplies them by its own.
        """
        numbers = list(bits(mask))
        widths = [self._row_bytes(mask, number) for number in numbers]
        known_widths = [width for width in widths if width is not None]
        if len(known_widths) < len(widths):
            return self._relations[numbers[0]].max_bytes if len(numbers) == 1 else None
        return self._max_rows(mask) * max(sum(known_widths), _MIN_ROW_BYTES)

    def expected_fraction(self, mask: int) -> float:
        """Return the estimated rows of the join of a set as a fraction of its maximum rows."""
        return min(self.rows(mask) / max(self._max_rows(mask), 1.0), 1.0)

    def _row_bytes(self, mask: int, number: int) -> float | None:
        """Return the bytes that a relation adds to a row of the join of a set."""
        columns = None if self._output_columns is None else self._output_columns(mask, number)
        return self._relations[number].bytes_per_row(columns)

    def _max_rows(self, mask: int) -> float:
        """Return the maximum rows of the join of a set, provided that the rows of its relations are exact."""
        if mask not in self._max_rows_of:
            starts = self._starts(mask)
            if starts:
                self._max_rows_of[mask] = min(self._relations[number].rows for number in bits(starts))
            else:
                self._max_rows_of[mask] = min(
                    self._relations[number].rows * self._max_rows(mask & ~(1 << number)) for number in bits(mask)
                )
        return self._max_rows_of[mask]

    def _starts(self, mask: int) -> int:
        """Return the relations of a set from which all others can be joined by unique keys, one after the other."""
        if mask & (mask - 1) == 0:
            return mask
        if mask not in self._starts_of:
            starts = 0
            for number in bits(mask):
                rest = mask & ~(1 << number)
                if self._joined_by_key[number] & rest:
                    starts |= self._starts(rest)
            self._starts_of[mask] = starts
        return self._starts_of[mask]

    def _relations_joined_by_key(self) -> list[int]:
        """Return for each relation the set of others that have a column equal to a unique column of it."""
        partners_of = [0] * len(self._relations)
        for group in self._classes:
            in_group = sum(1 << number for number in {member.relation for member in group})
            for member in group:
                column = self._relations[member.relation].columns.get(member.key)
                if column is not None and column.is_unique:
                    partners_of[member.relation] |= in_group & ~(1 << member.relation)
        return partners_of

    def _estimate(self, mask: int) -> float:
        """Multiply the rows of the relations by the selectivities of all conditions within the set."""
        if mask & (mask - 1) == 0:
            return max(self._relations[mask.bit_length() - 1].filtered_rows, 0.0)
        rows = 1.0
        for number in bits(mask):
            rows *= max(self._in_bounds[number].filtered_rows, 0.0)
        for group in self._classes:
            rows *= self._class_selectivity(group, mask)
        for pair, factor in self._composite_keys:
            if pair & mask == pair:
                rows *= factor
        for condition in self._filters:
            if condition.mask & mask == condition.mask:
                rows *= condition.selectivity
        return rows

    def _class_selectivity(self, group: Sequence[JoinColumn], mask: int) -> float:
        """Return the fraction of row combinations that agree in a class.

        It is one divided by the distinct values of each relation except for the one with the fewest.
        """
        members = [member for member in group if mask >> member.relation & 1]
        if len({member.relation for member in members}) < 2:
            return 1.0
        distinct: dict[int, float] = {}
        selectivity = 1.0
        for member in members:
            relation = self._in_bounds[member.relation]
            distinct[member.relation] = max(distinct.get(member.relation, 1.0), relation.distinct(member.key))
            selectivity *= relation.non_null_fraction(member.key)
        for count in sorted(distinct.values())[1:]:
            selectivity /= count
        return selectivity

    def _composite_key_corrections(self) -> Iterator[tuple[int, float]]:
        """Yield pairs of relations with a composite key, and the factor that corrects the estimate of their join."""
        for left, right in combinations(range(len(self._relations)), 2):
            counts = [
                (self._class_distinct(group, left), self._class_distinct(group, right)) for group in self._classes
            ]
            shared = [(max(one, 1.0), max(two, 1.0)) for one, two in counts if one is not None and two is not None]
            if len(shared) > 1:
                possible = max(
                    min(math.prod(distinct), max(self._in_bounds[number].filtered_rows, 1.0))
                    for number, distinct in zip((left, right), zip(*shared, strict=True), strict=True)
                )
                yield 1 << left | 1 << right, max(math.prod(map(max, shared)) / possible, 1.0)

    def _class_distinct(self, group: Sequence[JoinColumn], relation: int) -> float | None:
        """Return the distinct values of a relation in a class, or None if it has no column in it."""
        counts = [self._in_bounds[relation].distinct(member.key) for member in group if member.relation == relation]
        return max(counts, default=None)


def restrict_to_joined_bounds(
    relations: Sequence[RelationStatistics], classes: Iterable[Sequence[JoinColumn]]
) -> Sequence[RelationStatistics]:
    """Return the relations without the rows whose keys are outside the bounds of the columns they are joined with.

    A calendar table may cover centuries while the sales cover five years. Only the keys in these years can match.
    """
    in_bounds = list(relations)
    for group in classes:
        for member in group:
            column = relations[member.relation].columns.get(member.key)
            bounds = joined_bounds(relations, group, member)
            if column is not None and column.values is not None and bounds is not None:
                current = in_bounds[member.relation]
                in_bounds[member.relation] = _restrict(current, member.key, column.values, *bounds)
    return in_bounds


def joined_bounds(
    relations: Sequence[RelationStatistics], group: Sequence[JoinColumn], member: JoinColumn
) -> tuple[int, int] | None:
    """Return the common bounds of the columns of other relations in a class, or None if none are known."""
    bounds = [
        column.bounds
        for other in group
        if other.relation != member.relation
        and (column := relations[other.relation].columns.get(other.key)) is not None
        and column.bounds is not None
    ]
    return (max(low for low, _ in bounds), min(high for _, high in bounds)) if bounds else None


def _restrict(
    relation: RelationStatistics, key: ColumnKey, values: KeyValues, low: int, high: int
) -> RelationStatistics:
    """Return a relation without the rows whose key is outside of a closed interval."""
    every, matches = values.count_between(low, high)
    columns = {**relation.columns, key: replace(relation.columns[key], distinct=max(float(every), 1.0))}
    # Conditions that could not be counted over the sample have the same selectivity on any rows.
    selectivity = relation.filtered_rows / max(len(values.filtered), 1)
    return replace(
        relation, rows=max(float(every), 1.0), filtered_rows=matches * min(selectivity, 1.0), columns=columns
    )


def guess_selectivity(node: exp.Expr, distinct: Mapping[ColumnKey, float]) -> float:
    """Return a guess at the fraction of rows that satisfy a condition. `distinct` holds distinct values of columns.

    >>> import sqlglot
    >>> distinct = {("a", "x"): 20.0}
    >>> [guess_selectivity(sqlglot.condition(sql), distinct) for sql in ("a.x = 3", "a.x IN (1, 2)", "a.y LIKE 'z%'")]
    [0.05, 0.1, 0.25]
    """
    node = node.unnest()
    if isinstance(node, exp.And):
        return guess_selectivity(node.left, distinct) * guess_selectivity(node.right, distinct)
    if isinstance(node, exp.Or):
        return min(guess_selectivity(node.left, distinct) + guess_selectivity(node.right, distinct), 1.0)
    if isinstance(node, exp.Not):
        return max(1.0 - guess_selectivity(node.this, distinct), 0.05)
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        keys = [_column_key(column) for column in node.find_all(exp.Column)]
        counts = [distinct[key] for key in keys if key in distinct]
        return 1.0 / max([*counts, 1.0]) if counts else 0.1
    if isinstance(node, exp.In) and node.expressions:
        count = distinct.get(_column_key(node.this)) if isinstance(node.this, exp.Column) else None
        return min(len(node.expressions) / count, 1.0) if count else min(0.05 * len(node.expressions), 0.5)
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between):
        return _INEQUALITY_SELECTIVITY
    return _UNKNOWN_SELECTIVITY


def _column_key(column: exp.Column) -> ColumnKey:
    return column.table.lower(), column.name.lower()
