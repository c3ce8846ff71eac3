"""Read a stripe lazily: search columns, apply the filter, select columns only where a row survives.

The three states and their names are those of ORC's lazy filter (ORC-577 and what was built upon it). The filter is a
vector filter over all rows of a batch, and select columns are read for row groups with survivors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.readers.orc.columns import Matched, Reading, conformed, has_times
from pushdown_spark.readers.orc.counts import Fate, OrcCount
from pushdown_spark.readers.orc.cut import CutFile, Cutting, Groups, Selection, cuttings
from pushdown_spark.readers.orc.ranges import Fetched, Purpose, Ranges
from pushdown_spark.readers.orc.reads import pieces, plan_reads
from pushdown_spark.readers.orc.stripe import Stripe
from pushdown_spark.readers.orc.tail import FileTail

_BATCH_VALUES = 2 << 20
"""Values (rows times columns) that are decoded at a time, so that memory stays bounded."""
_BATCH_BYTES = 64 << 20
"""Bytes of them, as far as the file's statistics tell: texts may be long, and lists too."""
_SURVIVORS_BYTES = 256 << 20
"""Bytes of the filter columns of rows that passed, from where on their other columns are read before searching on."""
_VALUE_BYTES = 8
"""What a value takes besides its text, about."""

_RowNumbers = npt.NDArray[np.int64]

Prune = Callable[[Stripe, OrcCount], list[int]]
"""The row groups of a stripe that may hold a matching row, after counting those that cannot."""


class ColumnSet:
    """Some wanted columns, and what a file has of them."""

    def __init__(self, tail: FileTail, columns: Sequence[Matched]) -> None:
        self.columns = tuple(columns)
        self.schema = pa.schema([column.field for column in columns])
        self.roots = sorted(column.column for column in columns if column.column is not None)
        self.selection = Selection.of_parts(tail, [column for match in columns for column in match.columns])
        self._row_bytes = sum(_row_bytes(tail, column) for column in self.selection.columns[1:])

    def groups_at_a_time(self, stride: int) -> int:
        """How many row groups of so many rows to decode at a time."""
        rows = _BATCH_VALUES // max(len(self.selection.columns) - 1, 1)
        if self._row_bytes:
            rows = min(rows, int(_BATCH_BYTES / self._row_bytes))
        return max(1, rows // max(stride, 1))


def _row_bytes(tail: FileTail, column: int) -> float:
    """Bytes that a column's values take per row of the file, as its statistics have it; 0 where it has none."""
    if column >= len(tail.statistics) or not tail.footer.number_of_rows:
        return 0
    of_file = tail.statistics[column]
    texts = max(0, of_file.string_statistics.sum) + max(0, of_file.binary_statistics.sum)
    return (_VALUE_BYTES * of_file.number_of_values + texts) / tail.footer.number_of_rows


class Wanted:
    """What is wanted of every stripe of a file: columns in the order asked, the filter, and which of them it needs."""

    def __init__(
        self,
        tail: FileTail,
        columns: Sequence[Matched],
        compiled: ArrowFilter | None,
        partial_reads: int | None,
        reading: Reading,
    ) -> None:
        names = frozenset(path[0] for path in compiled.columns) if compiled else frozenset()
        self.filter = compiled
        self.partial_reads = partial_reads
        self.reading = reading
        self.everything = ColumnSet(tail, columns)
        self.search = ColumnSet(tail, [column for column in columns if column.field.name in names])
        self.select = ColumnSet(tail, [column for column in columns if column.field.name not in names])
        self.has_times = has_times(tail.types, self.everything.selection.columns)


@dataclass(frozen=True)
class _Survivors:
    """Rows that passed the filter: their numbers in the stripe, and their filter columns."""

    rows: _RowNumbers
    batch: pa.RecordBatch


class LazyStripe:
    """The rows of one stripe that pass a filter. Raises ValueError for a damaged stripe."""

    def __init__(self, stripe: Stripe, wanted: Wanted, ranges: Ranges, count: OrcCount) -> None:
        self._stripe = stripe
        self._wanted = wanted
        self._ranges = ranges
        self._count = count
        self._last: tuple[tuple[tuple[int, ...], Groups], list[Cutting]] | None = None
        self._check_times()

    def batches(self, prune: Prune) -> Iterator[pa.RecordBatch]:
        """The rows that pass, in the stripe's order, with all wanted columns."""
        alive = prune(self._stripe, self._count)
        if not alive:
            return
        if not self._wanted.search.columns:
            # Without a filter, or with one that is the same for every row, there is nothing to search.
            if self._wanted.filter is None or len(self.apply_filter(_without_columns(1))):
                yield from self._everything(alive)
            return
        fate = self._count.stripes[Fate.SELECTED]
        for survivors, among in self._survivors(alive):
            self._count.stripes[Fate.SELECTED] = fate + 1
            yield from self._selected(survivors, among)

    def judged(self, groups: Sequence[int]) -> list[tuple[int, int]]:
        """For each of some row groups its rows, and how many of them pass the filter."""
        runs = [Groups(group, group) for group in groups]
        fetched = self._fetched(self._wanted.search, runs, Purpose.FILTER)
        batches = [self.search_columns(run, fetched) for run in runs]
        return [(batch.num_rows, len(self.apply_filter(batch))) for batch in batches]

    def search_columns(self, run: Groups, fetched: Fetched) -> pa.RecordBatch:
        """State one: only the filter's columns, of a run of row groups that was fetched."""
        batch = self._read(self._wanted.search, run, fetched)
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
        self._count.groups[Fate.SELECTED] += len(alive)
        runs = plan_reads(alive, alive, None).decoded
        fetched = self._fetched(self._wanted.everything, runs, Purpose.SELECT)
        for piece in self._pieces(runs, self._wanted.everything):
            batch = self._read(self._wanted.everything, piece, fetched)
            self._count.rows_decoded += batch.num_rows
            self._count.rows_returned += batch.num_rows
            yield batch

    def _survivors(self, alive: Sequence[int]) -> Iterator[tuple[list[_Survivors], list[int]]]:
        """All survivors of the stripe, and the row groups they are among; in parts where they would fill the memory."""
        self._count.stripes[Fate.FILTERED] += 1
        self._count.groups[Fate.FILTERED] += len(alive)
        runs = plan_reads(alive, alive, None).decoded
        fetched = self._fetched(self._wanted.search, runs, Purpose.FILTER)
        found: list[_Survivors] = []
        begin = 0
        for piece in self._pieces(runs, self._wanted.search):
            batch = self.search_columns(piece, fetched)
            rows = self.apply_filter(batch)
            if len(rows):
                numbers = rows.to_numpy().astype(np.int64) + self._stripe.rows_before(piece.first)
                found.append(_Survivors(numbers, batch.take(rows)))
            if sum(each.batch.nbytes for each in found) > _SURVIVORS_BYTES:
                yield found, [group for group in alive if begin <= group <= piece.last]
                found, begin = [], piece.last + 1
        if found:
            yield found, [group for group in alive if begin <= group]

    def _selected(self, survivors: Sequence[_Survivors], alive: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The select columns of some survivors of the stripe, read as planned, joined to their filter columns."""
        numbers = np.concatenate([each.rows for each in survivors])
        searched = pa.Table.from_batches([each.batch for each in survivors])
        hits = self._groups_of(numbers)
        plan = plan_reads(hits, alive, self._wanted.partial_reads)
        fetched = self._fetched(self._wanted.select, plan.fetched, Purpose.SELECT)
        self._count.groups[Fate.SELECTED] += len(hits)
        for piece in self._pieces(plan.decoded, self._wanted.select, self._wanted.search):
            first = self._stripe.rows_before(piece.first)
            start, stop = np.searchsorted(numbers, (first, self._stripe.rows_before(piece.last + 1))).tolist()
            if start < stop:
                selected = self.select_columns(piece, pa.array(numbers[start:stop] - first), fetched)
                yield self._joined(searched.slice(start, stop - start), selected)

    def _pieces(self, runs: Sequence[Groups], *columns: ColumnSet) -> Iterator[Groups]:
        """The runs, cut so that memory stays bounded."""
        at_most = min(each.groups_at_a_time(self._stripe.tail.stride) for each in columns)
        for run in runs:
            yield from pieces(run, at_most)

    def _joined(self, searched: pa.Table, selected: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            **{name: searched[name].combine_chunks() for name in searched.schema.names},
            **dict(zip(selected.schema.names, selected.columns, strict=True)),
        }
        self._count.rows_returned += searched.num_rows
        return pa.RecordBatch.from_arrays(
            [columns[n] for n in self._wanted.everything.schema.names], schema=self._wanted.everything.schema
        )

    def _groups_of(self, rows: _RowNumbers) -> list[int]:
        """Row groups that hold some rows, ascending."""
        groups: list[int] = np.unique(rows // self._stripe.tail.stride).tolist() if self._stripe.has_index else [0]
        return groups

    def _fetched(self, columns: ColumnSet, runs: Sequence[Groups], purpose: Purpose) -> Fetched:
        """The stored bytes of some runs of row groups; the indexes that tell where they lie are read on the way."""
        if any(run.first or run.last + 1 != self._stripe.groups for run in runs):
            self._stripe.load_indexes(columns.selection.columns)
        cuts = [cutting for run in runs for cutting in self._cuttings(columns, run)]
        return self._ranges.fetch([(cutting.begin, cutting.end) for cutting in cuts], purpose)

    def _cuttings(self, columns: ColumnSet, run: Groups) -> list[Cutting]:
        """What a run of row groups needs; the last answer is kept, since it is asked for once more to decode it."""
        asked = (columns.selection.columns, run)
        if self._last is None or self._last[0] != asked:
            self._last = (asked, cuttings(self._stripe, columns.selection.columns, run))
        return self._last[1]

    def _read(self, columns: ColumnSet, run: Groups, fetched: Fetched) -> pa.RecordBatch:
        """Some columns of a run of row groups, decoded."""
        rows = self._stripe.rows_before(run.last + 1) - self._stripe.rows_before(run.first)
        if not columns.columns:
            return _without_columns(rows)
        arrays: dict[int, pa.Array] = {}
        if columns.roots:
            cut = CutFile(self._stripe, columns.selection)
            cut.add(run, self._cuttings(columns, run), fetched)
            batch = _decoded(cut)
            if batch.num_rows != rows:
                raise ValueError(f"{rows} rows were expected, {batch.num_rows} decoded")
            arrays = dict(zip(columns.roots, batch.columns, strict=True))
        values = [
            pa.nulls(rows, c.field.type)
            if c.column is None
            else conformed(arrays[c.column], c.field.type, self._wanted.reading)
            for c in columns.columns
        ]
        return pa.RecordBatch.from_arrays(values, schema=columns.schema)

    def _check_times(self) -> None:
        """Raises UnsafeInputError where timestamps were written in another time zone than the JVM's."""
        if self._wanted.has_times:
            self._wanted.reading.zone.check(bytes(self._stripe.footer.writer_timezone))


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _decoded(cut: CutFile) -> pa.RecordBatch:
    """The rows of a cut. Raises ValueError for damaged streams, UnsafeInputError for times that Arrow cannot hold."""
    try:
        batch = cut.opened().read_stripe(0)
        for column in batch.columns:
            _check_decimals(column)
        return batch
    except pa.ArrowInvalid as problem:
        if "out of range for nanosecond" in str(problem):
            raise UnsafeInputError(
                "there are timestamps before 1677 or after 2262; read it with reader='spark'"
            ) from problem
        raise ValueError(str(problem)) from problem
    except (pa.ArrowException, OSError) as problem:
        raise ValueError(str(problem)) from problem


def _check_decimals(values: pa.Array) -> None:
    """Raises ArrowInvalid for a number of more digits than its type has: nobody would look again, but Spark fails."""
    if pa.types.is_decimal(values.type):
        values.validate(full=True)
    elif pa.types.is_map(values.type):
        _check_decimals(values.keys)
        _check_decimals(values.items)
    elif pa.types.is_list(values.type):
        _check_decimals(values.values)
    elif pa.types.is_struct(values.type):
        for member in range(values.type.num_fields):
            _check_decimals(values.field(member))
