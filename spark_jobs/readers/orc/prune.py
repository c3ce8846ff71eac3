"""Exclude stripes and row groups by statistics and bloom filters, before any of their values is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from spark_jobs.predicates.statistics import ColumnBounds, Probe, can_match, may_contain, probes
from spark_jobs.predicates.vector import Path, Value, VectorFilter
from spark_jobs.readers.orc.bloom import Hashed, trustworthy
from spark_jobs.readers.orc.bounds import ALL_NULL, column_bounds
from spark_jobs.readers.orc.counts import Fate, OrcCount
from spark_jobs.readers.orc.lazy import Wanted
from spark_jobs.readers.orc.messages import BloomFilterIndex, ColumnStatistics, Metadata
from spark_jobs.readers.orc.stripe import Stripe
from spark_jobs.readers.orc.tail import FileTail, Kind, ReadRange


class Pruner:
    """Decides for one file which stripes and row groups may hold a row that passes the filter."""

    def __init__(self, tail: FileTail, wanted: Wanted, read: ReadRange) -> None:
        self._tail = tail
        self._filter: VectorFilter | None = wanted.filter
        self._read = read
        roots = {column.field.name: column.column for column in wanted.columns}
        paths = wanted.filter.columns if wanted.filter else ()
        self._columns: dict[Path, int | None] = {path: self._member(roots.get(path[0]), path[1:]) for path in paths}

    def _member(self, column: int | None, names: Path) -> int | None:
        """The column id of a struct member, in whatever case its names are; None where the file lacks it."""
        for name in names:
            if column is None or self._tail.types[column].kind != Kind.STRUCT:
                return None
            node = self._tail.types[column]
            members = {
                n.decode("utf-8", "replace").lower(): c for n, c in zip(node.field_names, node.subtypes, strict=True)
            }
            column = members.get(name.lower())
        return column

    def admits(self, stripe: int, count: OrcCount) -> bool:
        """Whether a stripe may hold a matching row, by the file's and the stripe's statistics."""
        count.stripes[Fate.TOTAL] += 1
        if self._file_may_match and self._may_match(self._of_stripe(stripe)):
            return True
        rows, stride = self._tail.stripes[stripe].number_of_rows, self._tail.stride
        groups = -(-rows // stride) if stride else 1
        count.groups[Fate.TOTAL] += groups
        count.prune(Fate.BY_STATISTICS, groups)
        return False

    @cached_property
    def _file_may_match(self) -> bool:
        return self._may_match(self._tail.statistics)

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

    def _may_match(self, statistics: Sequence[ColumnStatistics]) -> bool:
        """By statistics of all columns; True where there are none."""
        if self._filter is None or len(statistics) != len(self._tail.types):
            return True
        return can_match(self._filter, lambda path: self._bounds(path, statistics))

    def _bounds(self, path: Path, statistics: Sequence[ColumnStatistics]) -> ColumnBounds:
        column = self._columns[path]
        return ALL_NULL if column is None else self._column_bounds(path, column, statistics[column])

    def _column_bounds(self, path: Path, column: int, statistics: ColumnStatistics) -> ColumnBounds:
        return column_bounds(statistics, Kind(self._tail.types[column].kind), nested=len(path) > 1)

    def _group_may_match(self, stripe: Stripe, group: int) -> bool:
        assert self._filter is not None

        def bounds(path: Path) -> ColumnBounds | None:
            column = self._columns[path]
            if column is None:
                return ALL_NULL
            index = stripe.row_index(column)
            return None if index is None else self._column_bounds(path, column, index.entry[group].statistics)

        return can_match(self._filter, bounds)

    def _not_excluded_by_bloom_filters(self, stripe: Stripe, alive: Sequence[int]) -> list[int]:
        filters = self._bloom_filters(stripe)
        if not filters or self._filter is None:
            return list(alive)
        compiled = self._filter

        def may_match(group: int) -> bool:
            possible = {path: hashed.possible(index.bloom_filter[group]) for path, (hashed, index) in filters.items()}

            def contains(path: Path, value: Value) -> bool:
                return path not in possible or value in possible[path]

            return may_contain(compiled, contains)

        return [group for group in alive if may_match(group)]

    def _bloom_filters(self, stripe: Stripe) -> dict[Path, tuple[Hashed, BloomFilterIndex]]:
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
        if self._filter is None or not trustworthy(self._tail.footer):
            return {}
        found = {}
        for probe in probes(self._filter):
            hashed = self._hash(probe)
            if hashed is not None:
                found[probe.path] = hashed
        return found

    def _hash(self, probe: Probe) -> Hashed | None:
        column = self._columns[probe.path]
        if column is None:
            return None
        try:
            return Hashed(probe.values, Kind(self._tail.types[column].kind))
        except (ValueError, OverflowError):
            return None
