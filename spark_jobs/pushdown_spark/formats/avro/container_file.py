"""Avro container files: header, blocks and codecs.

A container file is a header and a sequence of blocks. The header has a magic number, a metadata map with the writer's
schema and the codec, and a 16-byte sync marker. A block has its number of records, its stored length, the compressed
records and the sync marker again.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, cast

import cramjam
from isal import igzip_lib, isal_zlib

from pushdown_spark.errors import UnreadableFileError
from pushdown_spark.sources.stores.storage import REMEDY, RangeFile, Storage, name_storage_errors

SYNC_SIZE = 16
READ_SIZE = 1 << 20
"""Bytes per read. Only a larger block is read in a larger piece."""
_MAGIC = b"Obj\x01"
_METADATA = {"type": "map", "values": "bytes"}
_SCHEMA, _CODEC = "avro.schema", "avro.codec"
_HEADER_SIZE = 1 << 16
"""Bytes that are fetched for a header."""
_MAX_VARINT_SIZE = 10
"""Bytes of the longest 64-bit varint."""
_CRC_SIZE = 4
"""Bytes of the big-endian CRC-32 that ends a Snappy block. It covers the decompressed bytes."""
_SNAPPY_RATIO = 64
"""An upper bound of Snappy's compression ratio: three bytes copy at most 64."""
_USUAL_BLOCK_SIZE = 1 << 17
"""Decompressed bytes of most blocks, at most: writers end them at 16 to 64 KB."""

Buffer = bytes | bytearray | memoryview


class AvroCodec(StrEnum):
    """Codecs by their names in files."""

    NULL = "null"
    DEFLATE = "deflate"
    SNAPPY = "snappy"
    ZSTANDARD = "zstandard"
    BZIP2 = "bzip2"
    XZ = "xz"


class BufferedInput:
    """A file that is read from front to back through one buffer. `take` returns a view that the next call invalidates.

    Methods raise EOFError where the file ends too early, ValueError for an invalid number or length, and OSError where
    the storage fails.
    """

    def __init__(self, raw: RangeFile) -> None:
        self._raw = raw
        self._data = bytearray(READ_SIZE)
        self._begin = self._end = 0
        self._offset = raw.tell()
        self.size = raw.size
        """Bytes of the whole file."""
        self.bytes_fetched = 0
        """Bytes fetched from the storage so far, including bytes that were read ahead."""

    @property
    def position(self) -> int:
        """The file offset of the next byte."""
        return self._offset + self._begin

    def at_end(self) -> bool:
        """Return whether the file has no more bytes."""
        return not self._fill(1)

    def seek(self, offset: int) -> None:
        """Continue at a file offset. Bytes in the buffer are not fetched again."""
        if self._offset <= offset <= self._offset + self._end:
            self._begin = offset - self._offset
            return
        self._raw.seek(offset)
        self._offset, self._begin, self._end = offset, 0, 0

    def take(self, count: int) -> memoryview:
        """Return the next `count` bytes."""
        if count < 0:
            raise ValueError(f"a length of {count} bytes is negative")
        if count > self.size - self.position or not self._fill(count):
            raise EOFError(f"{count} bytes should follow, the file ends after {self.size - self.position}")
        begin = self._begin
        self._begin += count
        return memoryview(self._data)[begin : begin + count]

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes as a copy. This is the method that fastavro calls."""
        return bytes(self.take(count))

    def read_long(self) -> int:
        """Return the next zigzag-encoded 64-bit number."""
        value = 0
        for index in range(_MAX_VARINT_SIZE):
            if self._begin == self._end and not self._fill(1):
                raise EOFError("the file ends within a number")
            byte = self._data[self._begin]
            self._begin += 1
            value |= (byte & 0x7F) << (7 * index)
            if value >> 64:
                break
            if byte < 0x80:
                return ((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1)
        raise ValueError("a number is longer than 64 bits")

    def skip_past(self, marker: bytes) -> bool:
        """Continue after the next occurrence of a marker. Return whether there is one."""
        while self._fill(len(marker)):
            index = self._data.find(marker, self._begin, self._end)
            if index >= 0:
                self._begin = index + len(marker)
                return True
            self._begin = self._end - len(marker) + 1
        return False

    def _fill(self, count: int) -> bool:
        """Fetch until the buffer has `count` bytes. Return False where the file ends before that."""
        if self._end - self._begin >= count:
            return True
        self._make_room(count)
        view = memoryview(self._data)
        while self._end - self._begin < count:
            size = self._raw.readinto(view[self._end :])
            if not size:
                return False
            self._end += size
            self.bytes_fetched += size
        return True

    def _make_room(self, count: int) -> None:
        """Move the unread bytes to the start of the buffer. The memory is reused because new pages are slow to fill."""
        unread = self._data[self._begin : self._end]
        self._offset += self._begin
        if count > len(self._data):
            self._data = bytearray(count)
        self._data[: len(unread)] = unread
        self._begin, self._end = 0, len(unread)


@dataclass(frozen=True)
class AvroHeader:
    """The header of a file: the writer's schema as JSON, the other metadata, and the offset of the first block."""

    schema: str
    codec: AvroCodec
    sync: bytes
    metadata: Mapping[str, bytes]
    length: int


def read_header(path: str, storage: Storage) -> AvroHeader:
    """Read the header of a file.

    Raises MissingPathError for a missing file, and UnreadableFileError, which names the byte, for a file that is not an
    Avro container file.
    """
    with name_storage_errors(path), storage.open(path, 0, _HEADER_SIZE) as raw:
        return parse_header(path, BufferedInput(raw))


def parse_header(path: str, source: BufferedInput) -> AvroHeader:
    """Parse the header of a file from its first byte. Raises UnreadableFileError for a damaged header."""
    try:
        if source.take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as Avro container files do")
        metadata = _read_metadata(source)
        sync = source.read(SYNC_SIZE)
        schema = metadata.pop(_SCHEMA, b"").decode("utf-8")
        if not schema:
            raise ValueError("its header has no schema")
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        if codec not in set(AvroCodec):
            raise ValueError(f"its codec {codec!r} is unknown")
    except (ValueError, EOFError) as problem:
        raise UnreadableFileError(
            f"cannot read {path}, header at byte {source.position}: {problem}; {REMEDY}"
        ) from problem
    return AvroHeader(schema, AvroCodec(codec), sync, metadata, source.position)


class _MetadataInput:
    """The input of fastavro, which reads numbers byte by byte without a limit. Avro's Java library reads ten bytes."""

    def __init__(self, source: BufferedInput) -> None:
        self._source = source
        self._continuation_bytes = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes. Raises ValueError for a number that is too long."""
        data = self._source.read(count)
        self._continuation_bytes = self._continuation_bytes + 1 if count == 1 and data[0] & 0x80 else 0
        if self._continuation_bytes == _MAX_VARINT_SIZE:
            raise ValueError("a number is longer than 64 bits")
        return data


def _read_metadata(source: BufferedInput) -> dict[str, bytes]:
    # Imported here because sessions load this module whatever the format of their sources is.
    from fastavro import schemaless_reader

    stream = cast(IO[bytes], _MetadataInput(source))
    return cast(dict[str, bytes], schemaless_reader(stream, _METADATA, None, handle_unicode_errors="replace"))


@dataclass(frozen=True)
class StoredBlock:
    """A block as stored: its file offset, its number of records, and its compressed bytes.

    `number` counts from 0 at the first block of the byte range that is read. `data` is valid until the next block is
    read.
    """

    number: int
    offset: int
    records: int
    data: memoryview


class BlockError(ValueError):
    """A damaged block, with its number and its file offset."""

    def __init__(self, number: int, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number
        self.offset = offset


def read_blocks(source: BufferedInput, header: AvroHeader, start: int, end: int) -> Iterator[StoredBlock]:
    """Read the blocks that belong to a byte range: those whose preceding sync marker begins in it.

    Byte ranges that tile a file therefore tile its blocks. Avro's Java reader, which Spark uses, has the same rule
    (`sync(start)` and `pastSync(end)`). Raises BlockError for a damaged block, and OSError.
    """
    if not _seek_first_block(source, header, start):
        return
    number = 0
    while source.position < end + SYNC_SIZE and not source.at_end():
        offset = source.position
        try:
            records, length = source.read_long(), source.read_long()
            if records < 0 or length < 0:
                raise ValueError(f"it claims {records} records in {length} bytes")
            data = source.take(length + SYNC_SIZE)
            if data[length:] != header.sync:
                raise ValueError(f"no sync marker follows it at byte {source.position - SYNC_SIZE}")
        except (ValueError, EOFError) as problem:
            raise BlockError(number, offset, str(problem)) from problem
        yield StoredBlock(number, offset, records, data[:length])
        number += 1


def _seek_first_block(source: BufferedInput, header: AvroHeader, start: int) -> bool:
    """Go to the block after the first sync marker at `start` or later. The header ends with a marker, too."""
    if start <= header.length - SYNC_SIZE:
        source.seek(header.length)
        return True
    source.seek(start)
    return source.skip_past(header.sync)


class BlockDecompressor:
    """Decompresses one block after another, and collects the blocks that are retained in one contiguous buffer.

    Most blocks are searched once and dropped. They all share memory that stays in the processor's cache. Snappy
    decompresses directly to where a retained block must lie.
    """

    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec
        self._buffer = bytearray(_USUAL_BLOCK_SIZE)
        """The retained blocks, and after them, for Snappy, the block that was decompressed last."""
        self._retained_size = 0
        """Bytes of the retained blocks."""
        self._last: Buffer = b""
        self._last_start: int | None = None
        """The offset of the last block in the buffer, or None if it is in separate memory."""

    def decompress(self, content: Buffer) -> Buffer:
        """Return the encoded records of a block. The result is valid until the next block is decompressed.

        Raises ValueError for bytes that are not valid data of the codec.
        """
        try:
            if self._codec is AvroCodec.SNAPPY:
                self._last, self._last_start = self._snappy(memoryview(content)), self._retained_size
            else:
                self._last, self._last_start = _DECOMPRESS[self._codec](content), None
            return self._last
        except (cramjam.DecompressionError, igzip_lib.IsalError, lzma.LZMAError, OSError, EOFError) as problem:  # type: ignore[misc]  # the stub of isal declares an instance
            raise ValueError(f"its {self._codec} data cannot be unpacked ({problem})") from problem

    def retain(self) -> None:
        """Retain the block that was decompressed last, after the blocks that are retained already."""
        size = len(self._last)
        if self._last_start != self._retained_size:
            self._make_room(size)
            memoryview(self._buffer)[self._retained_size : self._retained_size + size] = self._last
        self._retained_size += size

    def take_retained_blocks(self) -> memoryview:
        """Return the blocks retained since the last call. The result is valid until the next call of any method."""
        data = memoryview(self._buffer)[: self._retained_size]
        self._retained_size = 0
        return data

    def _make_room(self, size: int) -> None:
        """Make room for `size` bytes after the retained blocks."""
        required_size = self._retained_size + size
        if required_size > len(self._buffer):
            room = bytearray(max(required_size, 2 * len(self._buffer)))
            room[: self._retained_size] = memoryview(self._buffer)[: self._retained_size]
            self._buffer = room

    def _snappy(self, content: memoryview) -> Buffer:
        if len(content) < _CRC_SIZE:
            raise ValueError("its snappy data has no checksum")
        compressed_bytes = content[:-_CRC_SIZE]
        size = cramjam.snappy.decompress_raw_len(compressed_bytes)
        if size > _SNAPPY_RATIO * len(compressed_bytes):
            raise ValueError(f"its snappy data claims that {len(compressed_bytes)} bytes unpack to {size}")
        self._make_room(size)
        room = memoryview(self._buffer)[self._retained_size :]
        data = room[: cramjam.snappy.decompress_raw_into(compressed_bytes, room)]
        if isal_zlib.crc32(data) != int.from_bytes(content[-_CRC_SIZE:], "big"):
            raise ValueError("the checksum of its snappy data is wrong")
        return data


def _deflate(content: Buffer) -> Buffer:
    """Decompress a deflate stream. A stream that does not mark its end was cut short."""
    stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
    data = stream.decompress(content)
    if not stream.eof:
        raise EOFError("it ends too early")
    return data


_DECOMPRESS: dict[AvroCodec, Callable[[Buffer], Buffer]] = {
    AvroCodec.NULL: lambda content: content,
    AvroCodec.DEFLATE: _deflate,
    AvroCodec.ZSTANDARD: lambda content: memoryview(cramjam.zstd.decompress(content)),
    AvroCodec.BZIP2: bz2.decompress,
    AvroCodec.XZ: lzma.decompress,
}
