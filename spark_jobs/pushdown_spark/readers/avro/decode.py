"""Decodes blocks of one writer's schema: filter columns first, the other columns of the records that pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.byte_patterns.avro import block_patterns
from pushdown_spark.readers.avro.assemble import Assembler
from pushdown_spark.readers.avro.codecs import Buffer
from pushdown_spark.readers.avro.counts import AvroCount, Fate
from pushdown_spark.readers.avro.leaves import least_size
from pushdown_spark.readers.avro.machine import Filled, Machine, Runs
from pushdown_spark.readers.avro.places import locate
from pushdown_spark.readers.avro.program import Program, compile_program
from pushdown_spark.readers.avro.resolve import Names
from pushdown_spark.readers.avro.schema import parse_schema
from pushdown_spark.readers.avro.search import BlockSearch

_BATCH_VALUES = 2 << 20
"""Values (records times columns) that are decoded at a time, so that memory stays bounded."""
_DENSE = 0.3
"""Where more than this part of the last records passed the filter, all columns are decoded at once."""
_MAX_EMPTY = 1 << 24
"""Records without any bytes that a block may have; their number is all that a block says of them."""


@dataclass(frozen=True)
class AvroQuery:
    """What is wanted of every file.

    `schema` has the wanted columns with Spark's names and the Arrow types that Spark takes. `filter` is what all rows
    must pass, None for all rows. `reader_schema` is an Avro schema as JSON that files are read by, None to read each by
    its own. `takes_ancient` tells that dates before 1582 and times before 1900 are what they seem in files that do not
    say who wrote them: where it is false they are refused, because Spark might move them. `block_search` False decodes
    blocks without searching them.
    """

    schema: pa.Schema
    filter: ArrowFilter | None
    reader_schema: str | None = None
    case_sensitive: bool = False
    takes_ancient: bool = False
    block_search: bool = True

    @property
    def filter_names(self) -> frozenset[str]:
        """Top-level columns that the filter needs."""
        return frozenset(path[0] for path in self.filter.columns) if self.filter else frozenset()


@dataclass(frozen=True)
class Unpacked:
    """A block that was unpacked to `size` bytes; `number` and `offset` tell where it is in its file."""

    number: int
    offset: int
    records: int
    size: int


class Window:
    """Some blocks that are decoded together, their records in one buffer, one block behind the other."""

    def __init__(self, blocks: Sequence[Unpacked], data: Buffer) -> None:
        self.blocks = tuple(blocks)
        self.data = data
        self.ends = np.cumsum([block.size for block in blocks], dtype=np.int64)
        self.records = sum(block.records for block in blocks)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """Where each block begins and ends, and how many records it has."""
        begins = [0, *self.ends[:-1].tolist()]
        return [(b, e, block.records) for b, e, block in zip(begins, self.ends.tolist(), self.blocks, strict=True)]

    def block_at(self, offset: int) -> Unpacked:
        """The block that an offset in the data belongs to, for errors."""
        return self.blocks[min(bisect_right(self.ends.tolist(), offset), len(self.blocks) - 1)]


class Decoder:
    """Decodes records of one writer's schema.

    Raises UnsafeInputError for types that only Spark's reader converts, SchemaConflictError where the reader's schema
    does not resolve with the writer's, BadSchemaError for what is no schema.
    """

    def __init__(self, schema: str, query: AvroQuery) -> None:
        self._query = query
        self._writer = parse_schema(schema)
        self._reader = parse_schema(query.reader_schema) if query.reader_schema is not None else None
        names = query.filter_names
        fields = list(query.schema)
        self._first = [field for field in fields if field.name in names]
        self._rest = [field for field in fields if field.name not in names]
        self._filter = Machine(self._program(self._first)) if query.filter else None
        self._select = Machine(self._program(self._rest, whole=False)) if query.filter and self._rest else None
        self._all = Machine(self._program(fields))
        self._least = least_size(self._writer)
        self._passed = 0.0
        self.search = self._searcher()
        self.most_records = max(1, _BATCH_VALUES // max(len(self._all.program.slots), 1))

    @property
    def is_flat(self) -> bool:
        """Whether Python decodes the records fast, without machine code."""
        return self._all.is_flat

    def check(self, records: int, size: int) -> None:
        """Raises ValueError where a block of so many bytes cannot have as many records as it says."""
        most = size // self._least if self._least else _MAX_EMPTY
        if records > most:
            raise ValueError(f"it says that it has {records} records, which {size} bytes cannot hold")

    def batches(self, window: Window, count: AvroCount) -> Iterator[pa.RecordBatch]:
        """The rows of a window that pass the filter. Raises ValueError for damaged records."""
        count.records_decoded += window.records
        dense = self._filter is None or self._select is None or self._passed > _DENSE
        if not dense:
            count.blocks[Fate.FILTERED] += len(window.blocks)
            yield from self._filtered(window, count)
            return
        count.blocks[Fate.FILTERED if self._filter else Fate.SELECTED] += len(window.blocks)
        if self._filter:
            count.blocks[Fate.SELECTED] += len(window.blocks)
        for filled in self._walks(self._all, window):
            batch = self._batch(self._all, list(self._query.schema), filled)
            if self._query.filter is not None:
                kept = batch.filter(self._query.filter.keep(batch))
                self._passed = kept.num_rows / max(batch.num_rows, 1)
                batch = kept
            if batch.num_rows:
                count.records_returned += batch.num_rows
                yield batch

    def matching(self, window: Window) -> int:
        """How many records pass the filter; all of them without one."""
        if self._filter is None:
            return window.records
        return sum(len(self._kept(filled)[0]) for filled in self._walks(self._filter, window))

    def _filtered(self, window: Window, count: AvroCount) -> Iterator[pa.RecordBatch]:
        assert self._filter is not None
        assert self._select is not None
        hit: set[int] = set()
        for filled in self._walks(self._filter, window):
            rows, first = self._kept(filled)
            self._passed = len(rows) / max(filled.rows, 1)
            if not len(rows):
                continue
            starts = filled.starts[rows.to_numpy()]
            places = np.searchsorted(window.ends, starts, side="right")
            hit.update(np.unique(places).tolist())
            others = self._select.run(window.data, Runs.of_records(starts, window.ends[places]))
            rest = self._batch(self._select, self._rest, others)
            count.records_returned += len(rows)
            yield self._joined(first.take(rows), rest)
        count.blocks[Fate.SELECTED] += len(hit)

    def _kept(self, filled: Filled) -> tuple[pa.Array, pa.RecordBatch]:
        """The numbers of the records that pass, and the filter columns of all."""
        assert self._filter is not None
        assert self._query.filter is not None
        first = self._batch(self._filter, self._first, filled)
        return pc.indices_nonzero(self._query.filter.keep(first)), first

    def _joined(self, first: pa.RecordBatch, rest: pa.RecordBatch) -> pa.RecordBatch:
        columns = dict(zip([*first.schema.names, *rest.schema.names], [*first.columns, *rest.columns], strict=True))
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._query.schema.names], schema=self._query.schema
        )

    def _walks(self, machine: Machine, window: Window) -> Iterator[Filled]:
        """Walk all records of a window; a block of very many in pieces."""
        if len(window.blocks) > 1 or window.records <= self.most_records:
            yield machine.run(window.data, Runs.of_blocks(window.spans))
            return
        start, left = 0, window.records
        while left:
            records = min(left, self.most_records)
            left -= records
            filled = machine.run(window.data, Runs.of_piece(start, len(window.data), records, is_last=not left))
            start = filled.end
            yield filled

    def _batch(self, machine: Machine, fields: Sequence[pa.Field], filled: Filled) -> pa.RecordBatch:
        if not fields:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * filled.rows, pa.struct([])))
        assembler = Assembler(filled, takes_ancient=self._query.takes_ancient)
        columns = [assembler.column(shape) for shape in machine.program.columns]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _searcher(self) -> BlockSearch | None:
        """The search for what every block with a matching record contains; None where nothing is known of it."""
        if self._query.filter is None or not self._query.block_search:
            return None
        names = Names(self._query.case_sensitive)
        located = locate(self._writer, self._reader, names)
        patterns = block_patterns(self._query.filter.root, located, takes_ancient=self._query.takes_ancient)
        return BlockSearch(patterns) if patterns else None

    def _program(self, fields: Sequence[pa.Field], *, whole: bool = True) -> Program:
        names = Names(self._query.case_sensitive)
        return compile_program(self._writer, self._reader, fields, names, whole=whole)


def refusal(schema: str, query: AvroQuery) -> str | None:
    """In words, why files of a writer's schema cannot be read here, or None where they can."""
    try:
        Decoder(schema, query)
    except PushdownError as problem:
        return str(problem)
    return None
