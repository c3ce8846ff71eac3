"""Compression chunks: what ORC's streams and metadata are stored in.

A chunk is three bytes of header (its stored length, and whether it is stored as it is) and its bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import cramjam
import pyarrow as pa

HEADER = 3
"""Bytes of a chunk's header."""
LARGEST_BLOCK = 1 << 23
"""Chunks tell their stored length in 23 bits, and writers refuse blocks that are longer than that."""
_ZSTD_BLOCK = 1 << 17
"""Zstandard decompresses so many bytes at a time: for fewer than these, the rest of a chunk need not be touched."""


class Compression(IntEnum):
    """Kinds of compression that can be read here, by their number in the file."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZ4 = 4
    ZSTD = 5


@dataclass(frozen=True)
class Codec:
    """How a file's chunks are compressed; `block_size` is the largest number of bytes in one, uncompressed."""

    compression: Compression
    block_size: int

    def unpacked(self, data: bytes) -> bytes:
        """All bytes of a run of chunks. Raises ValueError for chunks that are damaged or cut short."""
        if self.compression is Compression.NONE:
            return data
        return b"".join(self.chunk(data, start, stop) for start, stop in spans(data))

    def chunk(self, data: bytes, start: int, stop: int, at_most: int | None = None) -> bytes:
        """The first `at_most` bytes of the one chunk that is stored, header included, at data[start:stop]."""
        stored = data[start + HEADER : stop]
        if data[start] & 1:
            return stored if at_most is None else stored[:at_most]
        try:
            if self.compression is Compression.ZSTD and at_most is not None and at_most <= _ZSTD_BLOCK:
                with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
                    return bytes(stream.read(at_most))
            return self._inflated(stored)[:at_most]
        except (cramjam.DecompressionError, zlib.error, OSError) as problem:
            raise ValueError(f"a chunk does not decompress ({problem})") from problem

    def _inflated(self, stored: bytes) -> bytes:
        """A chunk's content, never more than a block however large a damaged one claims to be."""
        if self.compression is Compression.ZLIB:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            data = inflater.decompress(stored, self.block_size)
            if not inflater.eof and (inflater.unconsumed_tail or len(data) < self.block_size):
                raise ValueError("a chunk does not end where its content does")
            return data
        room = bytearray(self.block_size)
        length = _DECOMPRESSORS[self.compression](stored, room)
        return bytes(memoryview(room)[:length])

    def packed(self, data: bytes) -> bytes:
        """The same bytes as chunks that are stored as they are: for bytes that are read once, from memory."""
        if self.compression is Compression.NONE:
            return data
        size = min(self.block_size, (1 << 23) - 1)
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        return b"".join((len(piece) << 1 | 1).to_bytes(HEADER, "little") + piece for piece in pieces)


def _lz4(stored: bytes, room: bytearray) -> int:
    # Without a length the first bytes are taken for one where they can be.
    return int(cramjam.lz4.decompress_block_into(stored, room, output_len=len(room)))


_DECOMPRESSORS: dict[Compression, Callable[[bytes, bytearray], int]] = {
    Compression.SNAPPY: cramjam.snappy.decompress_raw_into,
    Compression.LZ4: _lz4,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each chunk, header included. Raises ValueError where the last one is cut short."""
    start = 0
    while start < len(data):
        if start + HEADER > len(data):
            raise ValueError("a chunk's header is cut short")
        stop = start + HEADER + (int.from_bytes(data[start : start + HEADER], "little") >> 1)
        if stop > len(data):
            raise ValueError("a chunk is cut short")
        yield start, stop
        start = stop
