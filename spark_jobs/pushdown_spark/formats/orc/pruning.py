"""Pruning of stripes and row groups by statistics and bloom filters, before any value is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, can_match, may_contain, probes
from pushdown_spark.expressions.types import Path, Value
from pushdown_spark.formats.orc.bloom_filters import HashedValues, are_filters_reliable
from pushdown_spark.formats.orc.column_mapping import member
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind, ReadRange
from pushdown_spark.formats.orc.lazy_reader import OrcColumns
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome
from pushdown_spark.formats.orc.orc_proto_pb2 import BloomFilterIndex, ColumnStatistics, Metadata
from pushdown_spark.formats.orc.statistics import ALL_NULL, are_consistent, column_bounds, has_correct_merges
from pushdown_spark.formats.orc.stripe import Stripe


class RowGroupPruner:
    """Decides which stripes and row groups of a file may hold a matching row."""

    def __init__(self, tail: FileTail, columns: OrcColumns, read: ReadRange) -> None:
        self._tail = tail
        self._filter: ArrowFilter | None = columns.filter
        self._read = read
        self._options = columns.options
        roots = {column.field.name: column.column for column in columns.all.columns}
        paths = columns.filter.columns if columns.filter else ()
        self._chains: dict[Path, tuple[int, ...]] = {path: self._chain(roots.get(path[0]), path[1:]) for path in paths}
        self._columns = {path: chain[-1] if chain else None for path, chain in self._chains.items()}

    def _chain(self, column: int | None, names: Path) -> tuple[int, ...]:
        """Return the column ids from the top level to a struct member, or none if the file lacks it."""
        chain = []
        for name in names:
            if column is None or self._tail.types[column].kind != OrcTypeKind.STRUCT:
                return ()
            chain.append(column)
            column = member(self._tail.types[column], name, self._options)
        return () if column is None else (*chain, column)

    def may_match(self, stripe: int, metrics: OrcMetrics) -> bool:
        """Return whether a stripe may hold a matching row, by the statistics of the file and of the stripe."""
        metrics.stripes[OrcOutcome.TOTAL] += 1
        rows, stride = self._tail.stripes[stripe].number_of_rows, self._tail.stride
        if self._filter is None or (self._file_may_match and self._may_match(self._stripe_statistics(stripe), rows)):
            return True
        groups = -(-rows // stride) if stride else 1
        metrics.groups[OrcOutcome.TOTAL] += groups
        metrics.count_pruned_stripe(OrcOutcome.BY_STATISTICS, groups)
        return False

    @cached_property
    def _file_may_match(self) -> bool:
        return self._may_match(self._tail.statistics, self._tail.footer.number_of_rows)

    def _stripe_statistics(self, stripe: int) -> Sequence[ColumnStatistics]:
        statistics = self._metadata.stripe_stats
        return statistics[stripe].col_stats if len(statistics) == len(self._tail.stripes) else ()

    @cached_property
    def _metadata(self) -> Metadata:
        return self._tail.stripe_statistics(self._read)

    def row_groups(self, stripe: Stripe, metrics: OrcMetrics) -> list[int]:
        """Return the row groups of a stripe that may hold a matching row, by their statistics and bloom filters."""
        all_groups = list(range(stripe.group_count))
        metrics.groups[OrcOutcome.TOTAL] += stripe.group_count
        if self._filter is None or not stripe.has_index:
            return all_groups
        candidates = [group for group in all_groups if self._group_may_match(stripe, group)]
        metrics.groups[OrcOutcome.BY_STATISTICS] += len(all_groups) - len(candidates)
        if not candidates:
            metrics.stripes[OrcOutcome.BY_STATISTICS] += 1
            return []
        matches = self._apply_bloom_filters(stripe, candidates)
        metrics.groups[OrcOutcome.BY_BLOOM_FILTER] += len(candidates) - len(matches)
        metrics.stripes[OrcOutcome.BY_BLOOM_FILTER] += not matches
        return matches

    def _may_match(self, statistics: Sequence[ColumnStatistics], rows: int) -> bool:
        """Return whether rows may match, by the statistics of all columns. Return True without statistics."""
        if self._filter is None or len(statistics) != len(self._tail.types) or not has_correct_merges(self._tail):
            return True
        return can_match(self._filter.root, lambda path: self._bounds(path, statistics.__getitem__, rows))

    def _bounds(
        self, path: Path, statistics: Callable[[int], ColumnStatistics | None], rows: int
    ) -> ColumnBounds | None:
        """Return the bounds of a column or member, or None if its statistics or those of a parent are inconsistent."""
        chain = self._chains[path]
        if not chain:
            return ALL_NULL
        for column in chain:
            entry = statistics(column)
            if entry is None or not are_consistent(entry, rows):
                return None
            rows = entry.number_of_values
        assert entry is not None
        return column_bounds(self._tail, chain[-1], entry, self._options.zone, is_nested=len(path) > 1)

    def _group_may_match(self, stripe: Stripe, group: int) -> bool:
        assert self._filter is not None

        def statistics(column: int) -> ColumnStatistics | None:
            index = stripe.row_index(column)
            return None if index is None else index.entry[group].statistics

        rows = stripe.rows_before(group + 1) - stripe.rows_before(group)
        return can_match(self._filter.root, lambda path: self._bounds(path, statistics, rows))

    def _apply_bloom_filters(self, stripe: Stripe, groups: Sequence[int]) -> list[int]:
        filters = self._bloom_filters(stripe)
        if not filters or self._filter is None:
            return list(groups)
        root = self._filter.root

        def may_match(group: int) -> bool:
            possible_values = {
                path: hashes.possible_values(index.bloom_filter[group]) for path, (hashes, index) in filters.items()
            }

            def contains(path: Path, value: Value) -> bool:
                return path not in possible_values or value in possible_values[path]

            return may_contain(root, contains)

        return [group for group in groups if may_match(group)]

    def _bloom_filters(self, stripe: Stripe) -> dict[Path, tuple[HashedValues, BloomFilterIndex]]:
        if not any(column is not None and stripe.has_bloom_filters(column) for column in self._columns.values()):
            # Hashing thousands of values takes time, so there must be a filter to look them up in.
            return {}
        filters = {}
        for path, hashes in self._hashed_values.items():
            column = self._columns[path]
            index = None if column is None else stripe.bloom_filters(column)
            if index is not None:
                filters[path] = (hashes, index)
        return filters

    @cached_property
    def _hashed_values(self) -> dict[Path, HashedValues]:
        """The hashed values of the filter by column."""
        if self._filter is None:
            return {}
        hashes = {path: self._hash(path, values) for path, values in probes(self._filter.root).items()}
        return {path: values for path, values in hashes.items() if values is not None}

    def _hash(self, path: Path, values: Sequence[Value]) -> HashedValues | None:
        column = self._columns[path]
        if column is None:
            return None
        kind = OrcTypeKind(self._tail.types[column].kind)
        if not are_filters_reliable(self._tail.footer, kind):
            return None
        try:
            return HashedValues(values, kind)
        except (ValueError, OverflowError):
            return None
