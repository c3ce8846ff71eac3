"""Read a stripe lazily: search columns, apply the filter, select columns only where a row survives.

The three states and their names are those of ORC's lazy filter (ORC-577 and what was built upon it). The filter is a
vector filter over all rows of a batch, and select columns are read for row groups with survivors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import UnsafeInputError
from spark_jobs.predicates.vector import VectorFilter
from spark_jobs.readers.orc.columns import Matched, conformed, has_times
from spark_jobs.readers.orc.counts import Fate, OrcCount
from spark_jobs.readers.orc.cut import CutFile, Groups, Selection, cuttings
from spark_jobs.readers.orc.ranges import Fetched, Purpose, Ranges
from spark_jobs.readers.orc.reads import pieces, plan_reads
from spark_jobs.readers.orc.stripe import Stripe

_BATCH_VALUES = 2 << 20
"""Values (rows times columns) that are decoded at a time, so that memory stays bounded."""
_UTC = frozenset({b"", b"UTC", b"GMT", b"Etc/UTC", b"Etc/GMT", b"Zulu", b"Etc/Zulu", b"UCT", b"Etc/UCT"})

Prune = Callable[[Stripe, OrcCount], list[int]]
"""The row groups of a stripe that may hold a matching row, after counting those that cannot."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of every stripe of a file: columns in the order asked, the filter, and which of them it needs."""

    columns: tuple[Matched, ...]
    filter: VectorFilter | None
    filter_names: frozenset[str]
    partial_reads: int | None
    case_sensitive: bool

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def search(self) -> tuple[Matched, ...]:
        """The filter's columns."""
        return tuple(column for column in self.columns if column.field.name in self.filter_names)

    @cached_property
    def select(self) -> tuple[Matched, ...]:
        """The other columns."""
        return tuple(column for column in self.columns if column.field.name not in self.filter_names)


@dataclass(frozen=True)
class _Survivors:
    """Rows that passed the filter: a run of row groups, the rows' numbers in it, and their filter columns."""

    groups: Groups
    rows: pa.Array
    batch: pa.RecordBatch


class LazyStripe:
    """The rows of one stripe that pass a filter. Raises ValueError for a damaged stripe."""

    def __init__(self, stripe: Stripe, wanted: Wanted, ranges: Ranges, count: OrcCount) -> None:
        self._stripe = stripe
        self._wanted = wanted
        self._ranges = ranges
        self._count = count
        self._check_times()

    def batches(self, prune: Prune) -> Iterator[pa.RecordBatch]:
        """The rows that pass, in the stripe's order, with all wanted columns."""
        alive = prune(self._stripe, self._count)
        if not alive:
            return
        if self._wanted.filter is None:
            yield from self._everything(alive)
            return
        survivors = list(self._survivors(alive))
        if survivors:
            yield from self._selected(survivors, alive)

    def search_columns(self, run: Groups) -> pa.RecordBatch:
        """State one: read only the filter's columns."""
        batch = self._read(self._wanted.search, run, self._fetched(self._wanted.search, [run], Purpose.FILTER))
        self._count.groups[Fate.FILTERED] += run.last - run.first + 1
        self._count.rows_decoded += batch.num_rows
        return batch

    def apply_filter(self, batch: pa.RecordBatch) -> pa.Array:
        """State two: the numbers of the rows that pass."""
        assert self._wanted.filter is not None
        return pc.indices_nonzero(self._wanted.filter.keep(batch))

    def select_columns(self, run: Groups, rows: pa.Array, fetched: Fetched) -> pa.RecordBatch:
        """State three: the other columns of the rows that passed, out of a run of row groups that was fetched."""
        return self._read(self._wanted.select, run, fetched).take(rows)

    def _everything(self, alive: Sequence[int]) -> Iterator[pa.RecordBatch]:
        self._count.stripes[Fate.SELECTED] += 1
        for run in plan_reads(alive, alive, None).decoded:
            for piece in pieces(run, self._at_most(self._wanted.columns)):
                fetched = self._fetched(self._wanted.columns, [piece], Purpose.SELECT)
                self._count.groups[Fate.SELECTED] += piece.last - piece.first + 1
                batch = self._read(self._wanted.columns, piece, fetched)
                self._count.rows_decoded += batch.num_rows
                yield batch

    def _survivors(self, alive: Sequence[int]) -> Iterator[_Survivors]:
        self._count.stripes[Fate.FILTERED] += 1
        for run in plan_reads(alive, alive, None).decoded:
            for piece in pieces(run, self._at_most(self._wanted.search)):
                batch = self.search_columns(piece)
                rows = self.apply_filter(batch)
                if len(rows):
                    yield _Survivors(piece, rows, batch.take(rows))

    def _selected(self, survivors: Sequence[_Survivors], alive: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The select columns of all survivors of the stripe, read as planned, joined to their filter columns."""
        self._count.stripes[Fate.SELECTED] += 1
        numbers = pa.concat_arrays([pc.add(s.rows, self._stripe.rows_before(s.groups.first)) for s in survivors])
        found = pa.Table.from_batches([s.batch for s in survivors]).combine_chunks()
        searched = found.to_batches()[0] if found.num_rows else None
        hits = self._groups_of(numbers)
        plan = plan_reads(hits, alive, self._wanted.partial_reads)
        fetched = self._fetched(self._wanted.select, plan.fetched, Purpose.SELECT)
        self._count.groups[Fate.SELECTED] += len(hits)
        assert searched is not None
        done = 0
        for run in plan.decoded:
            for piece in pieces(run, self._at_most(self._wanted.select)):
                first, last = self._stripe.rows_before(piece.first), self._stripe.rows_before(piece.last + 1)
                count = pc.sum(pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, last))).as_py() or 0
                if not count:
                    continue
                selected = self.select_columns(piece, pc.subtract(numbers.slice(done, count), first), fetched)
                yield self._joined(searched.slice(done, count), selected)
                done += count

    def _joined(self, searched: pa.RecordBatch, selected: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            **dict(zip(searched.schema.names, searched.columns, strict=True)),
            **dict(zip(selected.schema.names, selected.columns, strict=True)),
        }
        self._count.rows_returned += searched.num_rows
        return pa.RecordBatch.from_arrays([columns[n] for n in self._wanted.schema.names], schema=self._wanted.schema)

    def _groups_of(self, numbers: pa.Array) -> list[int]:
        """Row groups that hold some rows, ascending."""
        if not self._stripe.has_index:
            return [0]
        groups: list[int] = pc.unique(pc.divide(numbers, self._stripe.tail.stride)).to_pylist()
        return groups

    def _at_most(self, columns: Sequence[Matched]) -> int:
        """Row groups of some columns to decode at a time."""
        leaves = sum(len(self._stripe.tail.descendants(c.column)) for c in columns if c.column is not None)
        return max(1, _BATCH_VALUES // (max(self._stripe.tail.stride, 1) * max(leaves, 1)))

    def _fetched(self, columns: Sequence[Matched], runs: Sequence[Groups], purpose: Purpose) -> Fetched:
        """The stored bytes of some runs of row groups; the indexes that tell where they lie are read on the way."""
        selection = self._selection(columns)
        whole = all(run.first == 0 and run.last + 1 == self._stripe.groups for run in runs)
        if not whole:
            self._stripe.load_indexes(selection.columns)
        cuts = [cutting for run in runs for cutting in cuttings(self._stripe, selection.columns, run)]
        return self._ranges.fetch([(cutting.begin, cutting.end) for cutting in cuts], purpose)

    def _read(self, columns: Sequence[Matched], run: Groups, fetched: Fetched) -> pa.RecordBatch:
        """Some columns of a run of row groups, decoded."""
        rows = self._stripe.rows_before(run.last + 1) - self._stripe.rows_before(run.first)
        selection = self._selection(columns)
        arrays: dict[int, pa.Array] = {}
        if len(selection.columns) > 1:
            cut = CutFile(self._stripe, selection)
            cut.add(run, cuttings(self._stripe, selection.columns, run), fetched)
            batch = _decoded(cut)
            if batch.num_rows != rows:
                raise ValueError(f"{rows} rows were expected, {batch.num_rows} decoded")
            roots = [c.column for c in sorted(_present(columns), key=lambda c: c.column or 0)]
            arrays = {column: batch.column(i) for i, column in enumerate(roots) if column is not None}
        schema = pa.schema([column.field for column in columns])
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        values = [
            pa.nulls(rows, c.field.type)
            if c.column is None
            else conformed(arrays[c.column], c.field.type, case_sensitive=self._wanted.case_sensitive)
            for c in columns
        ]
        return pa.RecordBatch.from_arrays(values, schema=schema)

    def _selection(self, columns: Sequence[Matched]) -> Selection:
        return Selection.of(self._stripe.tail, [c.column for c in _present(columns) if c.column is not None])

    def _check_times(self) -> None:
        """Raises UnsafeInputError where timestamps were written in another time zone than UTC."""
        zone = bytes(self._stripe.footer.writer_timezone)
        ids = self._selection(self._wanted.columns).columns
        if zone not in _UTC and has_times(self._stripe.tail.types, ids):
            raise UnsafeInputError(
                f"its timestamps were written in the time zone {zone.decode()}; read it with reader='spark'"
            )


def _present(columns: Sequence[Matched]) -> list[Matched]:
    return [column for column in columns if column.column is not None]


def _decoded(cut: CutFile) -> pa.RecordBatch:
    """The rows of a cut. Raises ValueError for damaged streams, UnsafeInputError for times that Arrow cannot hold."""
    try:
        return cut.opened().read_stripe(0)
    except pa.ArrowInvalid as problem:
        if "out of range for nanosecond" in str(problem):
            raise UnsafeInputError(
                "there are timestamps before 1677 or after 2262; read it with reader='spark'"
            ) from problem
        raise ValueError(str(problem)) from problem
    except (pa.ArrowException, OSError) as problem:
        raise ValueError(str(problem)) from problem
