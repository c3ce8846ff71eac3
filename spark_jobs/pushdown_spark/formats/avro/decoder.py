"""The decoder of one writer's schema: filter columns first, then the other columns of the records that pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.byte_patterns.avro import block_patterns
from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.formats.avro.assembler import ColumnAssembler
from pushdown_spark.formats.avro.avro_schema import count_values, parse_schema
from pushdown_spark.formats.avro.block_search import BlockSearch
from pushdown_spark.formats.avro.bytecode import Bytecode, compile_bytecode
from pushdown_spark.formats.avro.column_encodings import locate
from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.avro.executor import Executor, RecordRuns, SlotValues
from pushdown_spark.formats.avro.metrics import AvroMetrics, AvroOutcome
from pushdown_spark.formats.avro.resolution import NameMatcher, minimum_size
from pushdown_spark.formats.scan_task import null_rows

_BATCH_VALUES = 2 << 20
"""Values (records times columns) that are decoded at a time. It bounds the memory."""
_DENSE = 0.3
"""If more than this fraction of the records passes, all columns are decoded at once."""
_MAX_SAMPLED_RECORDS = 128
"""Maximum number of records to decode of a sampled block. Without machine code each takes tens of microseconds."""
_MAX_EMPTY_RECORDS = 1 << 24
"""Maximum records of a block whose records have no bytes. Such a block has nothing but the number of its records."""


@dataclass(frozen=True)
class AvroQuery:
    """The columns and the filter of a scan, for the files of any writer.

    `schema` has the requested columns, with Spark's names and the Arrow types that Spark expects. `filter` is the
    filter that all rows must pass, or None for all rows. `has_corrected_calendar` says whether dates before 1582 and
    timestamps before 1900 are taken as stored in files that do not name their writer. If not, they are rejected,
    because Spark may convert them. Without `searches_blocks`, blocks are decoded without searching them for patterns.
    """

    schema: pa.Schema
    filter: ArrowFilter | None
    name_rule: NameRule = ANY_CASE
    has_corrected_calendar: bool = False
    searches_blocks: bool = True


@dataclass(frozen=True)
class DecompressedBlock:
    """A block of `size` decompressed bytes, with its number and its file offset."""

    number: int
    offset: int
    records: int
    size: int


class BlockGroup:
    """Blocks that are decoded together. `data` has their records in one buffer, `ends` the end of each block in it."""

    def __init__(self, blocks: Sequence[DecompressedBlock], data: Buffer) -> None:
        self.blocks = tuple(blocks)
        self.data = data
        self.ends = np.cumsum([block.size for block in blocks], dtype=np.int64)
        self.records = sum(block.records for block in blocks)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """The start, the end and the number of records of each block."""
        begins = [0, *self.ends[:-1].tolist()]
        return [(b, e, block.records) for b, e, block in zip(begins, self.ends.tolist(), self.blocks, strict=True)]

    def block_at(self, offset: int) -> DecompressedBlock:
        """Return the block at an offset in the data, for error messages."""
        return self.blocks[min(bisect_right(self.ends.tolist(), offset), len(self.blocks) - 1)]


class Decoder:
    """Decodes records of one writer's schema.

    Raises UnsafeInputError for types that only Spark's reader converts, and BadSchemaError for an invalid schema.
    """

    def __init__(self, schema: str, query: AvroQuery) -> None:
        self._query = query
        self._names = NameMatcher(query.name_rule)
        self._writer = parse_schema(schema)
        fields = list(query.schema)
        filter_names = {path[0] for path in query.filter.columns} if query.filter else set()
        self._filter_fields = [field for field in fields if field.name in filter_names]
        self._select_fields = [field for field in fields if field.name not in filter_names]
        self._filter = Executor(self._compile(self._filter_fields)) if query.filter else None
        has_select = query.filter and self._select_fields
        self._select = Executor(self._compile(self._select_fields, reads_to_end=False)) if has_select else None
        self._all = Executor(self._compile(fields))
        self._minimum_size = minimum_size(self._writer)
        self._passing_fraction = 0.0
        self.search = self.block_search(query.filter.root) if query.filter and query.searches_blocks else None
        self.max_records = max(1, _BATCH_VALUES // max(len(self._all.bytecode.is_item_slot), 1))
        """Maximum number of records that are decoded at a time."""

    @property
    def stored_values(self) -> int:
        """The number of values in a stored record, with one item in each array and map."""
        return count_values(self._writer)

    def block_search(self, root: Node) -> BlockSearch | None:
        """Return the search for patterns that every block with a passing record contains, or None without patterns."""
        locations = locate(self._writer, self._names)
        patterns = block_patterns(root, locations, includes_shifted_dates=self._query.has_corrected_calendar)
        return BlockSearch(patterns) if patterns else None

    def check_record_count(self, records: int, size: int) -> None:
        """Raise ValueError if a block of `size` bytes cannot have as many records as it claims."""
        limit = size // self._minimum_size if self._minimum_size else _MAX_EMPTY_RECORDS
        if records > limit:
            raise ValueError(f"it claims {records} records, which do not fit into {size} bytes")

    def batches(self, group: BlockGroup, metrics: AvroMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some blocks that pass the filter. Raises ValueError for damaged records."""
        metrics.rows_decoded += group.records
        is_dense = self._filter is None or self._select is None or self._passing_fraction > _DENSE
        if not is_dense:
            metrics.blocks[AvroOutcome.FILTERED] += len(group.blocks)
            yield from self._filter_then_select(group, metrics)
            return
        if self._filter:
            metrics.blocks[AvroOutcome.FILTERED] += len(group.blocks)
        metrics.blocks[AvroOutcome.SELECTED] += len(group.blocks)
        for slots in self._read_slots(self._all, group):
            batch = self._batch(self._all, list(self._query.schema), slots)
            if self._query.filter is not None:
                matches = batch.filter(self._query.filter.keep(batch))
                self._passing_fraction = matches.num_rows / max(batch.num_rows, 1)
                batch = matches
            if batch.num_rows:
                metrics.rows_returned += batch.num_rows
                yield batch

    def matching_fraction(self, group: BlockGroup) -> float:
        """Return the fraction of records that pass the filter, between 0 and 1, in the first records of a block."""
        records = min(_MAX_SAMPLED_RECORDS, group.records)
        if self._filter is None or not records:
            return 1.0
        runs = RecordRuns.of_piece(0, len(group.data), records, is_last=records == group.records)
        return len(self._apply_filter(self._filter.run(group.data, runs))[0]) / records

    def _filter_then_select(self, group: BlockGroup, metrics: AvroMetrics) -> Iterator[pa.RecordBatch]:
        """Decode the filter columns of all records, and then the other columns of the records that pass."""
        assert self._filter is not None
        assert self._select is not None
        selected_blocks: set[int] = set()
        for slots in self._read_slots(self._filter, group):
            rows, filter_columns = self._apply_filter(slots)
            self._passing_fraction = len(rows) / max(slots.rows, 1)
            if not len(rows):
                continue
            starts = slots.starts[rows.to_numpy()]
            blocks = np.searchsorted(group.ends, starts, side="right")
            selected_blocks.update(np.unique(blocks).tolist())
            slots_of_matches = self._select.run(group.data, RecordRuns.of_records(starts, group.ends[blocks]))
            select_columns = self._batch(self._select, self._select_fields, slots_of_matches)
            metrics.rows_returned += len(rows)
            yield self._join(filter_columns.take(rows), select_columns)
        metrics.blocks[AvroOutcome.SELECTED] += len(selected_blocks)

    def _apply_filter(self, slots: SlotValues) -> tuple[pa.Array, pa.RecordBatch]:
        """Return the indexes of the records that pass, and the filter columns of all records."""
        assert self._filter is not None
        assert self._query.filter is not None
        filter_columns = self._batch(self._filter, self._filter_fields, slots)
        return pc.indices_nonzero(self._query.filter.keep(filter_columns)), filter_columns

    def _join(self, first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
        columns = dict(zip([*first.schema.names, *second.schema.names], [*first.columns, *second.columns], strict=True))
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._query.schema.names], schema=self._query.schema
        )

    def _read_slots(self, executor: Executor, group: BlockGroup) -> Iterator[SlotValues]:
        """Read all records of some blocks. A single block with very many records is read in pieces."""
        if len(group.blocks) > 1 or group.records <= self.max_records:
            yield executor.run(group.data, RecordRuns.of_blocks(group.spans))
            return
        start, records_left = 0, group.records
        while records_left:
            records = min(records_left, self.max_records)
            records_left -= records
            is_last = not records_left
            slots = executor.run(group.data, RecordRuns.of_piece(start, len(group.data), records, is_last=is_last))
            start = slots.end
            yield slots

    def _batch(self, executor: Executor, fields: Sequence[pa.Field], slots: SlotValues) -> pa.RecordBatch:
        if not fields:
            return null_rows((), slots.rows)
        assembler = ColumnAssembler(slots, has_corrected_calendar=self._query.has_corrected_calendar)
        columns = [assembler.column(layout) for layout in executor.bytecode.columns]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _compile(self, fields: Sequence[pa.Field], *, reads_to_end: bool = True) -> Bytecode:
        return compile_bytecode(self._writer, fields, self._names, reads_to_end=reads_to_end)
