"""Finds the blocks of an Avro container file that belong to a range of its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pushdown_spark.readers.avro.header import SYNC_SIZE, AvroHeader
from pushdown_spark.readers.avro.stream import Stream


@dataclass(frozen=True)
class Block:
    """A block as stored: its offset in the file, how many records it has, and its packed bytes.

    `number` counts from 0, from the first block of the range that is read. `stored` is valid until the next block.
    """

    number: int
    offset: int
    records: int
    stored: memoryview


class BlockError(ValueError):
    """A block is damaged: which one, and where it begins."""

    def __init__(self, number: int, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number
        self.offset = offset


def blocks(stream: Stream, header: AvroHeader, start: int, end: int) -> Iterator[Block]:
    """The blocks whose preceding sync marker begins in start .. end, so that ranges that tile a file tile its blocks.

    That is what Avro's own reader gives between its `sync(start)` and `pastSync(end)`, which Spark goes by. Raises
    BlockError for a damaged block, and OSError.
    """
    if not _go_to_first(stream, header, start):
        return
    number = 0
    while stream.position < end + SYNC_SIZE and not stream.at_end():
        offset = stream.position
        try:
            records, length = stream.number(), stream.number()
            if records < 0 or length < 0:
                raise ValueError(f"it says that it has {records} records in {length} bytes")
            packed = stream.take(length + SYNC_SIZE)
            if packed[length:] != header.sync:
                raise ValueError(f"no sync marker follows it at byte {stream.position - SYNC_SIZE}")
        except (ValueError, EOFError) as problem:
            raise BlockError(number, offset, str(problem)) from problem
        yield Block(number, offset, records, packed[:length])
        number += 1


def _go_to_first(stream: Stream, header: AvroHeader, start: int) -> bool:
    """Go to the first block behind the first sync marker at or behind `start`; the header ends with one as well."""
    if start <= header.length - SYNC_SIZE:
        stream.seek(header.length)
        return True
    stream.seek(start)
    return stream.find(header.sync)
