"""The reader of Avro files. It runs in Python workers, and on the driver over samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from pushdown_spark.errors import PushdownError, UnreadableFileError
from pushdown_spark.formats.avro.container_file import (
    AvroHeader,
    BlockDecompressor,
    BlockError,
    Buffer,
    BufferedInput,
    StoredBlock,
    parse_header,
    read_blocks,
)
from pushdown_spark.formats.avro.decoder import AvroQuery, BlockGroup, Decoder, DecompressedBlock
from pushdown_spark.formats.avro.executor import DamagedRecordError
from pushdown_spark.formats.avro.metrics import AvroMetrics, AvroOutcome
from pushdown_spark.formats.calendars import DATETIMES
from pushdown_spark.formats.scan_task import FileScanTask
from pushdown_spark.sources.stores.listing import Split
from pushdown_spark.sources.stores.storage import REMEDY, RangeFile, Storage, name_storage_errors

_GROUP_SIZE = 4 << 20
"""Decompressed bytes that are decoded together."""


class DecoderCache:
    """The decoders of a query, one for each writer's schema and calendar. Most files of a scan share one."""

    def __init__(self, query: AvroQuery) -> None:
        self.query = query
        self._decoders: dict[tuple[str, bool], Decoder] = {}

    def decoder(self, header: AvroHeader) -> Decoder:
        """Return the decoder for a file with this header. Raises the errors of Decoder."""
        has_corrected_calendar = DATETIMES.are_as_stored(header.metadata, by_option=self.query.has_corrected_calendar)
        key = header.schema, has_corrected_calendar
        if key not in self._decoders:
            self._decoders[key] = Decoder(
                header.schema, replace(self.query, has_corrected_calendar=has_corrected_calendar)
            )
        return self._decoders[key]


@dataclass(frozen=True)
class BlockSample:
    """A sampled block: its stored and decompressed bytes, its records and values, and about how many records match.

    `values` counts one item of each array and map. `is_match` says whether the search found its patterns. If not, no
    record passes.
    """

    stored_size: int
    size: int
    records: int
    values: int
    is_match: bool
    matching_records: float


class AvroFile:
    """An open file. Its errors name the file and, where possible, the block."""

    def __init__(self, path: str, raw: RangeFile, decoders: DecoderCache, metrics: AvroMetrics) -> None:
        self._path = path
        self._metrics = metrics
        self._source = BufferedInput(raw)
        self.header = parse_header(path, self._source)
        with self._locate_errors():
            self._decoder = decoders.decoder(self.header)
        self._decompressor = BlockDecompressor(self.header.codec)

    def close(self) -> None:
        """Add the fetched bytes to the counts."""
        self._metrics.bytes_read += self._source.bytes_fetched

    def batches(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of the blocks in a byte range, as `read_blocks` defines them."""
        for group in self._groups(start, end):
            with self._locate_errors(group):
                yield from self._decoder.batches(group, self._metrics)

    def samples(self, number: int, *, evaluates_filter: bool = True) -> Iterator[BlockSample]:
        """Sample some blocks, spread over the file. Without `evaluates_filter`, all their records count as matching."""
        size = self._source.size
        for part in range(number):
            with self._locate_errors():
                block = next(read_blocks(self._source, self.header, part * size // number, size), None)
                if block is None:
                    return
                data = self._decompress(block)
            if evaluates_filter:
                yield self._sample(block, data)
            else:
                yield self._block_sample(block, data, is_match=True, matching_records=block.records)

    def _sample(self, block: StoredBlock, data: Buffer) -> BlockSample:
        group = BlockGroup([DecompressedBlock(block.number, block.offset, block.records, len(data))], data)
        search = self._decoder.search
        is_match = search is None or search.may_match(data)
        with self._locate_errors(group):
            fraction = self._decoder.matching_fraction(group) if is_match else 0.0
        return self._block_sample(block, data, is_match=is_match, matching_records=fraction * block.records)

    def _block_sample(
        self, block: StoredBlock, data: Buffer, *, is_match: bool, matching_records: float
    ) -> BlockSample:
        values = block.records * self._decoder.stored_values
        return BlockSample(len(block.data), len(data), block.records, values, is_match, matching_records)

    def _groups(self, start: int, end: int) -> Iterator[BlockGroup]:
        """Yield the blocks that may hold a matching record, in groups. A group is valid until the next one."""
        blocks: list[DecompressedBlock] = []
        size = records = 0
        for block in self._candidates(start, end):
            if blocks and records + block.records > self._decoder.max_records:
                yield BlockGroup(blocks, self._decompressor.take_retained_blocks())
                blocks, size, records = [], 0, 0
            self._decompressor.retain()
            blocks.append(block)
            size += block.size
            records += block.records
            if size >= _GROUP_SIZE:
                yield BlockGroup(blocks, self._decompressor.take_retained_blocks())
                blocks, size, records = [], 0, 0
        if blocks:
            yield BlockGroup(blocks, self._decompressor.take_retained_blocks())

    def _candidates(self, start: int, end: int) -> Iterator[DecompressedBlock]:
        """Yield the blocks that may hold a matching record. Each is the block that was decompressed last."""
        with self._locate_errors():
            for block in read_blocks(self._source, self.header, start, end):
                self._metrics.blocks[AvroOutcome.TOTAL] += 1
                self._metrics.records += block.records
                data = self._decompress(block)
                if self._may_match(data):
                    yield DecompressedBlock(block.number, block.offset, block.records, len(data))

    def _may_match(self, data: Buffer) -> bool:
        search = self._decoder.search
        if search is None or search.is_paused():
            return True
        self._metrics.bytes_searched += len(data)
        if search.may_match(data):
            return True
        self._metrics.blocks[AvroOutcome.SKIPPED] += 1
        return False

    def _decompress(self, block: StoredBlock) -> Buffer:
        """Return the encoded records of a block. They are valid until the next block is decompressed."""
        try:
            data = self._decompressor.decompress(block.data)
            self._decoder.check_record_count(block.records, len(data))
        except ValueError as problem:
            raise BlockError(block.number, block.offset, str(problem)) from problem
        return data

    @contextmanager
    def _locate_errors(self, group: BlockGroup | None = None) -> Iterator[None]:
        """Convert errors to errors that name the file and the block."""
        try:
            yield
        except UnreadableFileError:
            raise
        except PushdownError as problem:
            raise type(problem)(f"{self._path}, {_location(group)}: {problem}") from problem
        except BlockError as problem:
            raise self._block_error(problem.number, problem.offset, problem) from problem
        except (ValueError, OverflowError, pa.ArrowException) as problem:
            if group is None:
                raise UnreadableFileError(
                    f"cannot read {self._path}, {_location(None)}: {problem}; {REMEDY}"
                ) from problem
            block = group.block_at(problem.offset) if isinstance(problem, DamagedRecordError) else group.blocks[0]
            raise self._block_error(block.number, block.offset, problem) from problem

    def _block_error(self, number: int, offset: int, problem: Exception) -> UnreadableFileError:
        return UnreadableFileError(f"cannot read {self._path}, block {number} at byte {offset}: {problem}; {REMEDY}")


def _location(group: BlockGroup | None) -> str:
    """Return where errors without an offset arise: in the first block of a group, or in the header's schema."""
    return f"block {group.blocks[0].number} at byte {group.blocks[0].offset}" if group else "header at byte 0"


@dataclass(frozen=True)
class AvroScanTask(FileScanTask[AvroQuery, AvroMetrics]):
    """The tasks of an Avro scan."""

    def new_metrics(self) -> AvroMetrics:
        """Return counts of zero."""
        return AvroMetrics()

    @cached_property
    def _decoders(self) -> DecoderCache:
        """The decoders that all splits share."""
        return DecoderCache(self.query)

    def read(self, split: Split, metrics: AvroMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of a split."""
        with open_avro(split.path, split.storage, self._decoders, metrics, split.end) as file:
            yield from file.batches(split.start, split.end)


@contextmanager
def open_avro(
    path: str, storage: Storage, decoders: DecoderCache, metrics: AvroMetrics, stop: int | None = None
) -> Iterator[AvroFile]:
    """Open a file, and count the reads in `metrics`. Raises typed errors that name the file.

    `stop` is the end of the byte range that will be read. Nothing after it is fetched ahead.
    """
    with name_storage_errors(path), storage.open(path, 0, stop) as raw:
        file = AvroFile(path, raw, decoders, metrics)
        try:
            yield file
        finally:
            file.close()
