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

Buffer = bytes | bytearray | memoryview


class AvroCodec(StrEnum):
    """Codecs by their names in files."""

    NULL = "null"
    DEFLATE = "deflate"
    SNAPPY = "snappy"
    ZSTANDARD = "zstandard"
    BZIP2 = "bzip2"
    XZ = "xz"

    def unpack(self, stored: Buffer) -> Buffer:
        """The encoded records of a block. Raises ValueError where the bytes are not what the codec writes."""
        try:
            return _UNPACK[self](stored)
        except (cramjam.DecompressionError, igzip_lib.IsalError, lzma.LZMAError, OSError, EOFError) as problem:  # type: ignore[misc]  # the stub of isal declares an instance
            raise ValueError(f"its {self} data cannot be unpacked ({problem})") from problem


def _snappy(stored: Buffer) -> Buffer:
    if len(stored) < _CRC:
        raise ValueError("its snappy data has no checksum")
    view = memoryview(stored)
    found = bytes(cramjam.snappy.decompress_raw(view[:-_CRC]))
    if isal_zlib.crc32(found) != int.from_bytes(view[-_CRC:], "big"):
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
    return bytes(cramjam.zstd.decompress(stored))


_UNPACK: dict[AvroCodec, Callable[[Buffer], Buffer]] = {
    AvroCodec.NULL: lambda stored: stored,
    AvroCodec.DEFLATE: _deflate,
    AvroCodec.SNAPPY: _snappy,
    AvroCodec.ZSTANDARD: _zstandard,
    AvroCodec.BZIP2: bz2.decompress,
    AvroCodec.XZ: lzma.decompress,
}
