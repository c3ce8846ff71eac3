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
    """Unpacks one block after the other. What it gives is valid until the next block is unpacked.

    Most blocks are searched once and dropped, so that memory that stays in the processor's cache serves all of them.
    """

    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec
        self._room = bytearray(_USUAL)

    def unpack(self, stored: Buffer) -> Buffer:
        """The encoded records of a block. Raises ValueError where the bytes are not what the codec writes."""
        try:
            if self._codec is AvroCodec.SNAPPY:
                return self._snappy(memoryview(stored))
            return _UNPACK[self._codec](stored)
        except (cramjam.DecompressionError, igzip_lib.IsalError, lzma.LZMAError, OSError, EOFError) as problem:  # type: ignore[misc]  # the stub of isal declares an instance
            raise ValueError(f"its {self._codec} data cannot be unpacked ({problem})") from problem

    def _snappy(self, stored: memoryview) -> Buffer:
        if len(stored) < _CRC:
            raise ValueError("its snappy data has no checksum")
        packed = stored[:-_CRC]
        size = cramjam.snappy.decompress_raw_len(packed)
        if size > _SNAPPY_MOST * len(packed):
            raise ValueError(f"its snappy data says that {len(packed)} bytes unpack to {size}")
        if size > len(self._room):
            self._room = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(packed, self._room)
        found = memoryview(self._room)[:written]
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
