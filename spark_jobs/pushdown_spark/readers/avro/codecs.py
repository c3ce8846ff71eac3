"""Unpacks the blocks of Avro container files."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable
from enum import StrEnum

import cramjam
from isal import igzip_lib, isal_zlib

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
