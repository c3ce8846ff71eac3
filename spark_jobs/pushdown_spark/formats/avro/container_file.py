"""Reads the head of an Avro container file: the writer's schema, the codec, the sync marker."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import cramjam
from isal import igzip_lib, isal_zlib

from pushdown_spark.errors import AccessDeniedError, MissingPathError, UnreadableFileError
from pushdown_spark.readers.storage import RangeFile, Storage

_MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_SCHEMA, _CODEC = "avro.schema", "avro.codec"
_SPARK_VERSION, _LEGACY_CALENDAR = "org.apache.spark.version", "org.apache.spark.legacyDateTime"
_FIRST_GREGORIAN = b"3.0.0"
"""The first version of Spark that writes dates in today's calendar, unless the file says that it did not."""
_MAX_KEY = 1 << 16


@dataclass(frozen=True)
class AvroHeader:
    """A file's head: the writer's schema as JSON, further metadata, and the offset of the first block."""

    schema: str
    codec: AvroCodec
    sync: bytes
    metadata: Mapping[str, bytes]
    length: int

    def takes_ancient(self, *, by_option: bool) -> bool:
        """Whether Spark takes dates and times from before the calendars agreed as they are.

        It goes by what the file says of the Spark that wrote it; only of other files the option decides.
        """
        version = self.metadata.get(_SPARK_VERSION)
        if version is None:
            return by_option
        return version >= _FIRST_GREGORIAN and _LEGACY_CALENDAR not in self.metadata


def read_header(path: str, storage: Storage) -> AvroHeader:
    """Read a file's head.

    Raises MissingPathError where there is no such file, and UnreadableFileError, which names the byte, where it is no
    Avro container file.
    """
    with blamed(path), storage.open(path, 0, _MAX_KEY) as raw:
        return parse_header(path, Stream(raw))


def parse_header(path: str, stream: Stream) -> AvroHeader:
    """The head of a file that stands at its first byte. Raises UnreadableFileError."""
    try:
        if stream.take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as Avro container files do")
        metadata = _metadata(stream)
        sync = bytes(stream.take(SYNC_SIZE))
        schema = metadata.pop(_SCHEMA, b"").decode("utf-8")
        if not schema:
            raise ValueError("its head has no schema")
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        if codec not in set(AvroCodec):
            raise ValueError(f"its codec {codec!r} is unknown")
    except (ValueError, EOFError) as problem:
        raise UnreadableFileError(
            f"cannot read {path}, head at byte {stream.position}: {problem}; {REMEDY}"
        ) from problem
    return AvroHeader(schema, AvroCodec(codec), sync, metadata, stream.position)


def _metadata(stream: Stream) -> dict[str, bytes]:
    """A map of strings to bytes, in chunks as all Avro maps."""
    found: dict[str, bytes] = {}
    while count := stream.number():
        if count < 0:
            stream.number()
            count = -count
        for _ in range(count):
            key = bytes(stream.take(stream.number())).decode("utf-8", "replace")
            found[key] = bytes(stream.take(stream.number()))
    return found


WINDOW = 1 << 20
"""Bytes that are read at once; more only for a block that is larger."""
_LONGEST = 10
"""Bytes of the longest 64-bit number."""


class Stream:
    """The bytes of a file from where it stands. What `take` gives is valid until something else is asked for.

    Raises EOFError where the file ends too early, ValueError where a number is none, OSError where reading fails.
    """

    def __init__(self, raw: RangeFile) -> None:
        self._raw = raw
        self._data = bytearray(WINDOW)
        self._begin = self._end = 0
        self._offset = raw.tell()
        self.size = raw.size
        """Bytes of the whole file."""
        self.fetched = 0
        """Bytes that were read so far, ahead of what was asked for as well."""

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._offset + self._begin

    def at_end(self) -> bool:
        """Whether there are no more bytes."""
        return not self._fill(1)

    def seek(self, offset: int) -> None:
        """Go on at an offset of the file; what is in the window is not read again."""
        if self._offset <= offset <= self._offset + self._end:
            self._begin = offset - self._offset
            return
        self._raw.seek(offset)
        self._offset, self._begin, self._end = offset, 0, 0

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        if count < 0:
            raise ValueError(f"{count} bytes cannot follow")
        if count > self.size - self.position or not self._fill(count):
            raise EOFError(f"{count} bytes should follow, the file ends after {self.size - self.position}")
        begin = self._begin
        self._begin += count
        return memoryview(self._data)[begin : begin + count]

    def number(self) -> int:
        """The next zigzag number of up to 64 bits."""
        found = 0
        for place in range(_LONGEST):
            if self._begin == self._end and not self._fill(1):
                raise EOFError("the file ends within a number")
            byte = self._data[self._begin]
            self._begin += 1
            found |= (byte & 0x7F) << (7 * place)
            if found >> 64:
                break
            if byte < 0x80:
                return ((found >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(found & 1)
        raise ValueError("a number is longer than 64 bits")

    def find(self, marker: bytes) -> bool:
        """Go on behind the next occurrence of a marker; False where there is none."""
        while self._fill(len(marker)):
            place = self._data.find(marker, self._begin, self._end)
            if place >= 0:
                self._begin = place + len(marker)
                return True
            self._begin = self._end - len(marker) + 1
        return False

    def _fill(self, count: int) -> bool:
        """Have so many bytes in the window; False where the file ends before."""
        if self._end - self._begin >= count:
            return True
        self._make_room(count)
        view = memoryview(self._data)
        while self._end - self._begin < count:
            got = self._raw.readinto(view[self._end :])
            if not got:
                return False
            self._end += got
            self.fetched += got
        return True

    def _make_room(self, count: int) -> None:
        """Move what is left to the window's beginning, in the same memory: new memory costs a fifth more to fill."""
        rest = self._data[self._begin : self._end]
        self._offset += self._begin
        if count > len(self._data):
            self._data = bytearray(count)
        self._data[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)


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


_CRC = 4
"""Snappy blocks end with a big-endian CRC-32 of what they unpack to."""

_SNAPPY_MOST = 64
"""Bytes that a byte of snappy can unpack to, and more: three bytes copy 64 at most."""
_USUAL = 1 << 17
"""Bytes that a block mostly unpacks to at most: writers end them at 16 to 64 KB."""

Buffer = bytes | bytearray | memoryview


class AvroCodec(StrEnum):
    """Codecs by their names in files."""

    NULL = "null"
    DEFLATE = "deflate"
    SNAPPY = "snappy"
    ZSTANDARD = "zstandard"
    BZIP2 = "bzip2"
    XZ = "xz"


class Unpacker:
    """Unpacks one block after the other, and collects those that are kept, without a copy where the codec allows it.

    Most blocks are searched once and dropped, so that memory that stays in the processor's cache serves all of them.
    """

    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec
        self._room = bytearray(_USUAL)
        self._kept = 0
        self._last: Buffer = b""
        self._place: int | None = None

    def unpack(self, stored: Buffer) -> Buffer:
        """The encoded records of a block, valid until the next one is unpacked.

        Raises ValueError where the bytes are not what the codec writes.
        """
        try:
            if self._codec is AvroCodec.SNAPPY:
                self._last, self._place = self._snappy(memoryview(stored)), self._kept
            else:
                self._last, self._place = _UNPACK[self._codec](stored), None
            return self._last
        except (cramjam.DecompressionError, igzip_lib.IsalError, lzma.LZMAError, OSError, EOFError) as problem:  # type: ignore[misc]  # the stub of isal declares an instance
            raise ValueError(f"its {self._codec} data cannot be unpacked ({problem})") from problem

    def keep(self) -> None:
        """Keep the block that was unpacked last, behind those that are kept already."""
        size = len(self._last)
        if self._place != self._kept:
            self._make_room(size)
            memoryview(self._room)[self._kept : self._kept + size] = self._last
        self._kept += size

    def kept(self) -> memoryview:
        """All blocks that were kept since the last call, valid until another one is unpacked or kept."""
        found = memoryview(self._room)[: self._kept]
        self._kept = 0
        return found

    def _make_room(self, size: int) -> None:
        """Have room for so many bytes behind what is kept."""
        needed = self._kept + size
        if needed > len(self._room):
            room = bytearray(max(needed, 2 * len(self._room)))
            room[: self._kept] = memoryview(self._room)[: self._kept]
            self._room = room

    def _snappy(self, stored: memoryview) -> Buffer:
        if len(stored) < _CRC:
            raise ValueError("its snappy data has no checksum")
        packed = stored[:-_CRC]
        size = cramjam.snappy.decompress_raw_len(packed)
        if size > _SNAPPY_MOST * len(packed):
            raise ValueError(f"its snappy data says that {len(packed)} bytes unpack to {size}")
        self._make_room(size)
        room = memoryview(self._room)[self._kept :]
        found = room[: cramjam.snappy.decompress_raw_into(packed, room)]
        if isal_zlib.crc32(found) != int.from_bytes(stored[-_CRC:], "big"):
            raise ValueError("its snappy data does not have the checksum that it should have")
        return found


def _deflate(stored: Buffer) -> Buffer:
    """Deflate streams say where they end; one that does not is cut short."""
    stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
    found = stream.decompress(stored)
    if not stream.eof:
        raise EOFError("it ends too early")
    return found


def _zstandard(stored: Buffer) -> Buffer:
    return memoryview(cramjam.zstd.decompress(stored))


_UNPACK: dict[AvroCodec, Callable[[Buffer], Buffer]] = {
    AvroCodec.NULL: lambda stored: stored,
    AvroCodec.DEFLATE: _deflate,
    AvroCodec.ZSTANDARD: _zstandard,
    AvroCodec.BZIP2: bz2.decompress,
    AvroCodec.XZ: lzma.decompress,
}


REMEDY = "replace the file, or leave it out of `path`"


@contextmanager
def blamed(path: str) -> Iterator[None]:
    """Turn errors of the storage into typed ones that name the file."""
    try:
        yield
    except FileNotFoundError as problem:
        raise MissingPathError(f"{path} vanished while it was read; run the task again") from problem
    except PermissionError as problem:
        raise AccessDeniedError(
            f"cannot read {path}: {problem}; let the job's credentials read it, or leave it out of `path`"
        ) from problem
    except OSError as problem:
        raise UnreadableFileError(f"cannot read {path}: {problem}; {REMEDY}") from problem
