"""The lazy reader of one stripe: filter columns first, and select columns only where a row passes the filter.

The three steps (search columns, apply filter, select columns) are named after ORC's lazy filter (ORC-577). Here, the
filter is a vector filter over all rows of a batch, and select columns are read for row groups with matching rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, filter_fields
from pushdown_spark.formats.orc.coalesced_reads import CoalescedReader, FetchedRanges, plan_reads, split_range
from pushdown_spark.formats.orc.column_mapping import (
    MatchedColumn,
    ReadOptions,
    has_local_times,
    to_requested_type,
    with_type,
)
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome, ReadPurpose
from pushdown_spark.formats.orc.row_group_slice import ColumnSelection, StreamSlice, slice_file, stream_slices
from pushdown_spark.formats.orc.stripe import RowGroupRange, Stripe
from pushdown_spark.formats.scan_task import null_rows

_BATCH_VALUES = 2 << 20
"""Values (rows times columns) that are decoded at a time. It bounds the memory."""
_BATCH_BYTES = 64 << 20
"""Bytes that are decoded at a time, estimated from the file's statistics. Strings and lists may be long."""
_MATCHING_BYTES = 256 << 20
"""Bytes of filter columns of matching rows after which their select columns are read, before the search continues."""
_VALUE_BYTES = 8
"""Approximate bytes of a value without its string."""

_RowNumbers = npt.NDArray[np.int64]

Prune = Callable[[Stripe, OrcMetrics], list[int]]
"""Returns the row groups of a stripe that may hold a matching row, and counts the others."""


@dataclass(frozen=True)
class RowWidth:
    """The number of columns, not counting structs, and of their values per row. Each element of a list is a value."""

    columns: float
    values: float


class ColumnSet:
    """Some requested columns, and the columns of a file that are read for them."""

    def __init__(self, tail: FileTail, columns: Sequence[MatchedColumn]) -> None:
        self._tail = tail
        self.columns = tuple(columns)
        self.schema = pa.schema([column.field for column in columns])
        self.roots = sorted(column.column for column in columns if column.column is not None)
        self.selection = ColumnSelection.of(tail, [column for match in columns for column in match.columns])
        self._row_bytes = sum(_row_bytes(tail, column) for column in self.selection.columns[1:])

    @property
    def row(self) -> RowWidth:
        """The width of a row in these columns, for estimates."""
        tail, columns = self._tail, self.selection.columns[1:]
        values = [_row_values(tail, column) for column in columns if tail.types[column].kind != OrcTypeKind.STRUCT]
        return RowWidth(len(values), sum(values))

    def groups_at_a_time(self, stride: int) -> int:
        """Return the number of row groups, of `stride` rows each, that are decoded at a time."""
        rows = _BATCH_VALUES // max(len(self.selection.columns) - 1, 1)
        if self._row_bytes:
            rows = min(rows, int(_BATCH_BYTES / self._row_bytes))
        return max(1, rows // max(stride, 1))


def _row_values(tail: FileTail, column: int) -> float:
    """Return the values of a column per row of the file, from its statistics, or 1 without statistics.

    A null counts as half a value, because less is read and decoded for it.
    """
    if column >= len(tail.statistics) or not tail.footer.number_of_rows:
        return 1
    values = tail.statistics[column].number_of_values / tail.footer.number_of_rows
    return max(values, (1 + values) / 2)


def _row_bytes(tail: FileTail, column: int) -> float:
    """Return the bytes of a column per row of the file, from its statistics, or 0 without statistics."""
    if column >= len(tail.statistics) or not tail.footer.number_of_rows:
        return 0
    statistics = tail.statistics[column]
    strings = max(0, statistics.string_statistics.sum) + max(0, statistics.binary_statistics.sum)
    return (_VALUE_BYTES * statistics.number_of_values + strings) / tail.footer.number_of_rows


class OrcColumns:
    """The requested columns of a file in the requested order, the filter, and the columns that each step reads.

    The search reads only the members that the filter needs of a struct. The whole struct is a select column, too.
    """

    def __init__(
        self,
        tail: FileTail,
        columns: Sequence[MatchedColumn],
        row_filter: ArrowFilter | None,
        partial_reads: int | None,
        options: ReadOptions,
    ) -> None:
        types = {field.name: field.type for field in filter_fields(row_filter, [column.field for column in columns])}
        search = {
            name: with_type(tail, column, types[name], options)
            for column in columns
            if (name := column.field.name) in types
        }
        self.filter = row_filter
        self.partial_reads = partial_reads
        self.options = options
        self.all = ColumnSet(tail, columns)
        self.search = ColumnSet(tail, list(search.values()))
        self.select = ColumnSet(tail, [column for column in columns if column != search.get(column.field.name)])
        self.has_times = has_local_times(tail.types, self.all.selection.columns)


@dataclass(frozen=True)
class _MatchingRows:
    """Rows that passed the filter: their indexes in the stripe, and their filter columns."""

    rows: _RowNumbers
    batch: pa.RecordBatch


class LazyStripeReader:
    """Reads the rows of one stripe that pass a filter.

    `candidates` row groups are those that statistics and bloom filters did not prune.

    Raises ValueError for a damaged stripe, and UnsafeInputError for timestamps that were written in another time zone
    than the JVM's.
    """

    def __init__(self, stripe: Stripe, columns: OrcColumns, reader: CoalescedReader, metrics: OrcMetrics) -> None:
        self.stripe = stripe
        self._columns = columns
        self._reader = reader
        self._metrics = metrics
        if columns.has_times:
            columns.options.zone.check_writer(bytes(stripe.footer.writer_timezone))

    def batches(self, prune: Prune) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows, in the stripe's order, with all requested columns."""
        candidates = prune(self.stripe, self._metrics)
        if not candidates:
            return
        if not self._columns.search.columns:
            # There is no filter, or it has the same value for every row.
            if self._columns.filter is None or len(self.apply_filter(null_rows((), 1))):
                yield from self._read_all(candidates)
            return
        stripes_before = self._metrics.stripes[OrcOutcome.SELECTED]
        for matches, groups in self._matching_rows(candidates):
            self._metrics.stripes[OrcOutcome.SELECTED] = stripes_before + 1
            yield from self._select(matches, groups)

    def count_matches(self, groups: Sequence[int]) -> list[tuple[int, int]]:
        """Return, for each of some row groups, its rows and its matching rows."""
        ranges = [RowGroupRange(group, group) for group in groups]
        content = self._fetch(self._columns.search, ranges, ReadPurpose.FILTER)
        batches = [self.search_columns(group, content) for group in ranges]
        return [(batch.num_rows, len(self.apply_filter(batch))) for batch in batches]

    def search_columns(self, groups: RowGroupRange, content: FetchedRanges) -> pa.RecordBatch:
        """Step one: decode the filter columns of fetched row groups."""
        batch = self._decode(self._columns.search, groups, content)
        self._metrics.rows_decoded += batch.num_rows
        return batch

    def apply_filter(self, batch: pa.RecordBatch) -> pa.Array:
        """Step two: return the indexes of the rows that pass."""
        assert self._columns.filter is not None
        return pc.indices_nonzero(self._columns.filter.keep(batch))

    def select_columns(self, groups: RowGroupRange, rows: pa.Array, content: FetchedRanges) -> pa.RecordBatch:
        """Step three: decode the select columns of fetched row groups, and return those of some rows."""
        return self._decode(self._columns.select, groups, content).take(rows)

    def _read_all(self, candidates: Sequence[int]) -> Iterator[pa.RecordBatch]:
        self._metrics.stripes[OrcOutcome.SELECTED] += 1
        self._metrics.groups[OrcOutcome.SELECTED] += len(candidates)
        ranges = plan_reads(candidates, candidates, None).decode
        content = self._fetch(self._columns.all, ranges, ReadPurpose.SELECT)
        for piece in self._pieces(ranges, self._columns.all):
            batch = self._decode(self._columns.all, piece, content)
            self._metrics.rows_decoded += batch.num_rows
            self._metrics.rows_returned += batch.num_rows
            yield batch

    def _matching_rows(self, candidates: Sequence[int]) -> Iterator[tuple[list[_MatchingRows], list[int]]]:
        """Yield the matching rows and the row groups that were searched for them, in parts that fit into memory."""
        self._metrics.stripes[OrcOutcome.FILTERED] += 1
        self._metrics.groups[OrcOutcome.FILTERED] += len(candidates)
        ranges = plan_reads(candidates, candidates, None).decode
        content = self._fetch(self._columns.search, ranges, ReadPurpose.FILTER)
        matches: list[_MatchingRows] = []
        begin = 0
        for piece in self._pieces(ranges, self._columns.search):
            batch = self.search_columns(piece, content)
            rows = self.apply_filter(batch)
            if len(rows):
                numbers = rows.to_numpy().astype(np.int64) + self.stripe.rows_before(piece.first)
                matches.append(_MatchingRows(numbers, batch.take(rows)))
            if sum(part.batch.nbytes for part in matches) > _MATCHING_BYTES:
                yield matches, [group for group in candidates if begin <= group <= piece.last]
                matches, begin = [], piece.last + 1
        if matches:
            yield matches, [group for group in candidates if begin <= group]

    def _select(self, matches: Sequence[_MatchingRows], candidates: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Read the select columns of matching rows, and join them with the filter columns."""
        numbers = np.concatenate([part.rows for part in matches])
        filter_columns = pa.Table.from_batches([part.batch for part in matches])
        groups: list[int] = np.unique(numbers // self.stripe.tail.stride).tolist() if self.stripe.has_index else [0]
        plan = plan_reads(groups, candidates, self._columns.partial_reads)
        content = self._fetch(self._columns.select, plan.fetch, ReadPurpose.SELECT)
        self._metrics.groups[OrcOutcome.SELECTED] += len(groups)
        for piece in self._pieces(plan.decode, self._columns.select, self._columns.search):
            first = self.stripe.rows_before(piece.first)
            start, stop = np.searchsorted(numbers, (first, self.stripe.rows_before(piece.last + 1))).tolist()
            if start < stop:
                select_columns = self.select_columns(piece, pa.array(numbers[start:stop] - first), content)
                yield self._join(filter_columns.slice(start, stop - start), select_columns)

    def _pieces(self, ranges: Sequence[RowGroupRange], *columns: ColumnSet) -> Iterator[RowGroupRange]:
        """Split ranges of row groups so that memory stays bounded."""
        size = min(part.groups_at_a_time(self.stripe.tail.stride) for part in columns)
        for groups in ranges:
            yield from split_range(groups, size)

    def _join(self, filter_columns: pa.Table, select_columns: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            **{name: filter_columns[name].combine_chunks() for name in filter_columns.schema.names},
            **dict(zip(select_columns.schema.names, select_columns.columns, strict=True)),
        }
        self._metrics.rows_returned += filter_columns.num_rows
        return pa.RecordBatch.from_arrays(
            [columns[n] for n in self._columns.all.schema.names], schema=self._columns.all.schema
        )

    def _fetch(self, columns: ColumnSet, ranges: Sequence[RowGroupRange], purpose: ReadPurpose) -> FetchedRanges:
        """Fetch the stored bytes of some row groups. Load the row indexes that locate them where necessary."""
        if any(groups.first or groups.last + 1 != self.stripe.group_count for groups in ranges):
            self.stripe.load_indexes(columns.selection.columns)
        slices = [part for groups in ranges for part in stream_slices(self.stripe, columns.selection.columns, groups)]
        return self._reader.fetch([(part.begin, part.end) for part in slices], purpose)

    def _decode(self, columns: ColumnSet, groups: RowGroupRange, content: FetchedRanges) -> pa.RecordBatch:
        rows = self.stripe.rows_before(groups.last + 1) - self.stripe.rows_before(groups.first)
        if not columns.columns:
            return null_rows((), rows)
        arrays: dict[int, pa.Array] = {}
        if columns.roots:
            slices = stream_slices(self.stripe, columns.selection.columns, groups)
            batch = _decode_slice(self.stripe, columns.selection, rows, slices, content)
            if batch.num_rows != rows:
                raise ValueError(f"{rows} rows were expected, {batch.num_rows} decoded")
            arrays = dict(zip(columns.roots, batch.columns, strict=True))
        values = [
            pa.nulls(rows, c.field.type)
            if c.column is None
            else to_requested_type(arrays[c.column], c.field.type, self._columns.options)
            for c in columns.columns
        ]
        return pa.RecordBatch.from_arrays(values, schema=columns.schema)


def _decode_slice(
    stripe: Stripe, selection: ColumnSelection, rows: int, slices: Sequence[StreamSlice], content: FetchedRanges
) -> pa.RecordBatch:
    """Decode a slice. Raises ValueError for damaged streams, and UnsafeInputError for times that Arrow cannot hold."""
    try:
        batch = slice_file(stripe, selection, rows, slices, content).read_stripe(0)
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
    """Raise ArrowInvalid for a decimal with more digits than its type has. Spark fails, too."""
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
