"""Exclude stripes and row groups by statistics and bloom filters, before any of their values is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, Probe, can_match, may_contain, probes
from pushdown_spark.expressions.types import Path, Value
from pushdown_spark.readers.orc.bloom import Hashed, trustworthy
from pushdown_spark.readers.orc.bounds import ALL_NULL, are_consistent, are_merged_rightly, column_bounds
from pushdown_spark.readers.orc.columns import member
from pushdown_spark.readers.orc.counts import Fate, OrcCount
from pushdown_spark.readers.orc.lazy import Wanted
from pushdown_spark.readers.orc.messages import BloomFilterIndex, ColumnStatistics, Metadata
from pushdown_spark.readers.orc.stripe import Stripe
from pushdown_spark.readers.orc.tail import FileTail, Kind, ReadRange


class Pruner:
    """Decides for one file which stripes and row groups may hold a row that passes the filter."""

    def __init__(self, tail: FileTail, wanted: Wanted, read: ReadRange) -> None:
        self._tail = tail
        self._filter: ArrowFilter | None = wanted.filter
        self._read = read
        self._reading = wanted.reading
        roots = {column.field.name: column.column for column in wanted.everything.columns}
        paths = wanted.filter.columns if wanted.filter else ()
        self._chains: dict[Path, tuple[int, ...]] = {path: self._chain(roots.get(path[0]), path[1:]) for path in paths}
        self._columns = {path: chain[-1] if chain else None for path, chain in self._chains.items()}

    def _chain(self, column: int | None, names: Path) -> tuple[int, ...]:
        """Column ids from the top to a struct member; empty where the file lacks it."""
        chain = []
        for name in names:
            if column is None or self._tail.types[column].kind != Kind.STRUCT:
                return ()
            chain.append(column)
            column = member(self._tail.types[column], name, case_sensitive=self._reading.case_sensitive)
        return () if column is None else (*chain, column)

    def admits(self, stripe: int, count: OrcCount) -> bool:
        """Whether a stripe may hold a matching row, by the file's and the stripe's statistics."""
        count.stripes[Fate.TOTAL] += 1
        rows, stride = self._tail.stripes[stripe].number_of_rows, self._tail.stride
        if self._filter is None or (self._file_may_match and self._may_match(self._of_stripe(stripe), rows)):
            return True
        groups = -(-rows // stride) if stride else 1
        count.groups[Fate.TOTAL] += groups
        count.prune(Fate.BY_STATISTICS, groups)
        return False

    @cached_property
    def _file_may_match(self) -> bool:
        return self._may_match(self._tail.statistics, self._tail.footer.number_of_rows)

    def _of_stripe(self, stripe: int) -> Sequence[ColumnStatistics]:
        found = self._metadata.stripe_stats
        return found[stripe].col_stats if len(found) == len(self._tail.stripes) else ()

    @cached_property
    def _metadata(self) -> Metadata:
        return self._tail.stripe_statistics(self._read)

    def groups(self, stripe: Stripe, count: OrcCount) -> list[int]:
        """Row groups of a stripe that may hold a matching row, by their statistics and bloom filters."""
        everything = list(range(stripe.groups))
        count.groups[Fate.TOTAL] += stripe.groups
        if self._filter is None or not stripe.has_index:
            return everything
        alive = [group for group in everything if self._group_may_match(stripe, group)]
        count.groups[Fate.BY_STATISTICS] += len(everything) - len(alive)
        if not alive:
            count.stripes[Fate.BY_STATISTICS] += 1
            return []
        kept = self._not_excluded_by_bloom_filters(stripe, alive)
        count.groups[Fate.BY_BLOOM_FILTER] += len(alive) - len(kept)
        count.stripes[Fate.BY_BLOOM_FILTER] += not kept
        return kept

    def _may_match(self, statistics: Sequence[ColumnStatistics], rows: int) -> bool:
        """By statistics of all columns over so many rows; True where there are none."""
        if self._filter is None or len(statistics) != len(self._tail.types) or not are_merged_rightly(self._tail):
            return True
        return can_match(self._filter.root, lambda path: self._bounds(path, statistics.__getitem__, rows))

    def _bounds(
        self, path: Path, statistics: Callable[[int], ColumnStatistics | None], rows: int
    ) -> ColumnBounds | None:
        """What is known of a column or member; None where its statistics, or a parent's, cannot be right."""
        chain = self._chains[path]
        if not chain:
            return ALL_NULL
        for column in chain:
            found = statistics(column)
            if found is None or not are_consistent(found, rows):
                return None
            rows = found.number_of_values
        assert found is not None
        return column_bounds(self._tail, chain[-1], found, self._reading.zone, nested=len(path) > 1)

    def _group_may_match(self, stripe: Stripe, group: int) -> bool:
        assert self._filter is not None

        def statistics(column: int) -> ColumnStatistics | None:
            index = stripe.row_index(column)
            return None if index is None else index.entry[group].statistics

        rows = stripe.rows_before(group + 1) - stripe.rows_before(group)
        return can_match(self._filter.root, lambda path: self._bounds(path, statistics, rows))

    def _not_excluded_by_bloom_filters(self, stripe: Stripe, alive: Sequence[int]) -> list[int]:
        filters = self._bloom_filters(stripe)
        if not filters or self._filter is None:
            return list(alive)
        root = self._filter.root

        def may_match(group: int) -> bool:
            possible = {path: hashed.possible(index.bloom_filter[group]) for path, (hashed, index) in filters.items()}

            def contains(path: Path, value: Value) -> bool:
                return path not in possible or value in possible[path]

            return may_contain(root, contains)

        return [group for group in alive if may_match(group)]

    def _bloom_filters(self, stripe: Stripe) -> dict[Path, tuple[Hashed, BloomFilterIndex]]:
        if not any(column is not None and stripe.has_bloom_filters(column) for column in self._columns.values()):
            # Thousands of values are hashed only where there is somebody to ask.
            return {}
        found = {}
        for path, hashed in self._hashed.items():
            column = self._columns[path]
            index = None if column is None else stripe.bloom_filters(column)
            if index is not None:
                found[path] = (hashed, index)
        return found

    @cached_property
    def _hashed(self) -> dict[Path, Hashed]:
        """The values to ask bloom filters for."""
        if self._filter is None:
            return {}
        found = {}
        for probe in probes(self._filter.root):
            hashed = self._hash(probe)
            if hashed is not None:
                found[probe.path] = hashed
        return found

    def _hash(self, probe: Probe) -> Hashed | None:
        column = self._columns[probe.path]
        if column is None:
            return None
        kind = Kind(self._tail.types[column].kind)
        if not trustworthy(self._tail.footer, kind):
            return None
        try:
            return Hashed(probe.values, kind)
        except (ValueError, OverflowError):
            return None
