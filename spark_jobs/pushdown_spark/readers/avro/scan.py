"""Scan Avro files: runs in Python workers, and on the driver over samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from pushdown_spark.errors import PushdownError, UnreadableFileError
from pushdown_spark.readers.avro.blocks import Block, BlockError, blocks
from pushdown_spark.readers.avro.codecs import Buffer, Unpacker
from pushdown_spark.readers.avro.counts import AvroCount, Fate
from pushdown_spark.readers.avro.decode import AvroQuery as AvroQuery
from pushdown_spark.readers.avro.decode import Decoder, Unpacked, Window
from pushdown_spark.readers.avro.faults import REMEDY, blamed
from pushdown_spark.readers.avro.header import AvroHeader, parse_header
from pushdown_spark.readers.avro.machine import WalkError
from pushdown_spark.readers.avro.stream import Stream
from pushdown_spark.readers.files import Split, Task
from pushdown_spark.readers.storage import RangeFile, Storage
from pushdown_spark.runtime.worker import freeze_imports, unexpected_errors_as_unsafe_input

Report = Callable[[int, dict[str, AvroCount]], None]
"""Receives a task's number and its figures when the task is done."""

_WINDOW = 4 << 20
"""Bytes of encoded records that are decoded at a time."""


class Decoders:
    """The decoders of a query, one for each writer's schema and calendar: a scan's files mostly share one."""

    def __init__(self, query: AvroQuery) -> None:
        self.query = query
        self._known: dict[tuple[str, bool], Decoder] = {}

    def of(self, header: AvroHeader) -> Decoder:
        """The decoder of a file with such a head. Raises as Decoder does."""
        takes_ancient = header.takes_ancient(by_option=self.query.takes_ancient)
        key = header.schema, takes_ancient
        if key not in self._known:
            self._known[key] = Decoder(header.schema, replace(self.query, takes_ancient=takes_ancient))
        return self._known[key]


def searches(query: AvroQuery, header: AvroHeader) -> str | None:
    """What blocks of a file are searched for, in words; None where they are not. Raises as Decoder does."""
    search = Decoders(query).of(header).search
    return search.label if search is not None else None


@dataclass(frozen=True)
class BlockSample:
    """A block that was tried: bytes as stored and as unpacked, its records, and how many of them pass the filter.

    `found` tells whether the search let it through; where it did not, no record passes.
    """

    stored: int
    size: int
    records: int
    found: bool
    matching: int


class AvroFile:
    """One file, opened. Its errors name the file, and the block where one is to blame."""

    def __init__(self, path: str, raw: RangeFile, decoders: Decoders, count: AvroCount) -> None:
        self._path = path
        self._count = count
        self._stream = Stream(raw)
        self.header = parse_header(path, self._stream)
        with self._blamed():
            self._decoder = decoders.of(self.header)
        self._unpacker = Unpacker(self.header.codec)

    def close(self) -> None:
        """Add up what was read."""
        self._count.bytes_read += self._stream.fetched

    @property
    def is_flat(self) -> bool:
        """Whether Python decodes the file's records fast, without machine code."""
        return self._decoder.is_flat

    def batches(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The matching rows of the blocks that belong to a range of bytes, as `blocks` has it."""
        for window in self._windows(start, end):
            with self._blamed(window):
                yield from self._decoder.batches(window, self._count)

    def samples(self, number: int) -> Iterator[BlockSample]:
        """Try a few blocks, spread over the file."""
        size = self._stream.size
        for part in range(number):
            with self._blamed():
                block = next(blocks(self._stream, self.header, part * size // number, size), None)
                if block is None:
                    return
                data = self._unpacked(block)
            yield self._sample(block, data)

    def _sample(self, block: Block, data: Buffer) -> BlockSample:
        window = Window([Unpacked(block.number, block.offset, block.records, len(data))], data)
        search = self._decoder.search
        found = search is None or search.may_match(data)
        with self._blamed(window):
            matching = self._decoder.matching(window) if found else 0
        return BlockSample(len(block.stored), len(data), block.records, found, matching)

    def _windows(self, start: int, end: int) -> Iterator[Window]:
        """The blocks that may hold a matching record, some at a time. Each is valid until the next."""
        pending: list[Unpacked] = []
        size = records = 0
        for unpacked in self._surviving(start, end):
            if pending and records + unpacked.records > self._decoder.most_records:
                yield Window(pending, self._unpacker.kept())
                pending, size, records = [], 0, 0
            self._unpacker.keep()
            pending.append(unpacked)
            size += unpacked.size
            records += unpacked.records
            if size >= _WINDOW:
                yield Window(pending, self._unpacker.kept())
                pending, size, records = [], 0, 0
        if pending:
            yield Window(pending, self._unpacker.kept())

    def _surviving(self, start: int, end: int) -> Iterator[Unpacked]:
        """The blocks that may hold a matching record, each the one that was unpacked last."""
        with self._blamed():
            for block in blocks(self._stream, self.header, start, end):
                self._count.blocks[Fate.TOTAL] += 1
                self._count.records += block.records
                data = self._unpacked(block)
                if self._admits(data):
                    yield Unpacked(block.number, block.offset, block.records, len(data))

    def _admits(self, data: Buffer) -> bool:
        search = self._decoder.search
        if search is None or search.is_paused():
            return True
        self._count.bytes_searched += len(data)
        found = search.may_match(data)
        if not found:
            self._count.blocks[Fate.SKIPPED] += 1
        return found

    def _unpacked(self, block: Block) -> Buffer:
        """The block's records, valid until the next block is asked for."""
        try:
            data = self._unpacker.unpack(block.stored)
            self._decoder.check(block.records, len(data))
        except ValueError as problem:
            raise BlockError(block.number, block.offset, str(problem)) from problem
        return data

    @contextmanager
    def _blamed(self, window: Window | None = None) -> Iterator[None]:
        """Errors in here are the file's, and the block's where it is known."""
        try:
            yield
        except UnreadableFileError:
            raise
        except PushdownError as problem:
            raise type(problem)(f"{self._path}, {_place(window)}: {problem}") from problem
        except BlockError as problem:
            raise self._error(problem.number, problem.offset, problem) from problem
        except (ValueError, OverflowError, pa.ArrowException) as problem:
            if window is None:
                raise UnreadableFileError(f"cannot read {self._path}, {_place(None)}: {problem}; {REMEDY}") from problem
            block = window.block_at(problem.offset) if isinstance(problem, WalkError) else window.blocks[0]
            raise self._error(block.number, block.offset, problem) from problem

    def _error(self, number: int, offset: int, problem: Exception) -> UnreadableFileError:
        return UnreadableFileError(f"cannot read {self._path}, block {number} at byte {offset}: {problem}; {REMEDY}")


def _place(window: Window | None) -> str:
    """Where errors that tell no place of their own arise: in a window's blocks, else with the schema in the head."""
    return f"block {window.blocks[0].number} at byte {window.blocks[0].offset}" if window else "head at byte 0"


@dataclass(frozen=True)
class AvroScan:
    """A scan's task list. Called by Spark with the numbers of the tasks to run.

    `cap` is the number of rows after which a task may stop, None for all.
    """

    tasks: tuple[Task, ...]
    query: AvroQuery
    report: Report
    cap: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of the tasks whose numbers come in."""
        # Spark runs as many tasks as there are cores; threads of its own would only get in their way.
        pa.set_cpu_count(1)
        freeze_imports()
        decoders = Decoders(self.query)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with unexpected_errors_as_unsafe_input():
                    yield from self._run(number, decoders)

    def _run(self, number: int, decoders: Decoders) -> Iterator[pa.RecordBatch]:
        counts: dict[str, AvroCount] = {}
        left = self.cap
        for split in self.tasks[number].splits:
            count = counts.setdefault(split.path, AvroCount())
            for batch in _rows(split, decoders, count):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                yield batch
                if left == 0:
                    break
            if left == 0:
                break
        self.report(number, counts)


def _rows(split: Split, decoders: Decoders, count: AvroCount) -> Iterator[pa.RecordBatch]:
    with opened(split.path, split.storage, decoders, count, split.end) as file:
        yield from file.batches(split.start, split.end)


@contextmanager
def opened(
    path: str, storage: Storage, decoders: Decoders, count: AvroCount, stop: int | None = None
) -> Iterator[AvroFile]:
    """A file to read; what is read of it is added to `count`. Raises typed errors that name the file.

    `stop` is the end of the range that will be read, behind which nothing is fetched ahead.
    """
    with blamed(path), storage.open(path, 0, stop) as raw:
        file = AvroFile(path, raw, decoders, count)
        try:
            yield file
        finally:
            file.close()
