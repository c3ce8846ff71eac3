"""Compressed chunks. ORC stores its streams and its metadata in them.

A chunk has a header of three bytes, and content. The header has the length of the content and a bit that marks
uncompressed content.
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
MAX_BLOCK_SIZE = 1 << 23
"""The largest size of a block. Writers reject larger ones."""
_ZSTD_BLOCK = 1 << 17
"""Bytes that Zstandard decompresses at a time. To get fewer, the rest of a chunk need not be decompressed."""


class CompressionKind(IntEnum):
    """Supported kinds of compression, by their number in files."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZ4 = 4
    ZSTD = 5


@dataclass(frozen=True)
class Codec:
    """The compression of a file. `block_size` is the largest number of decompressed bytes of a chunk."""

    compression: CompressionKind
    block_size: int

    def decompress(self, data: bytes) -> bytes:
        """Decompress a sequence of chunks. Raises ValueError for damaged or truncated chunks."""
        if self.compression is CompressionKind.NONE:
            return data
        return b"".join(self.chunk(data, start, stop) for start, stop in spans(data))

    def chunk(self, data: bytes, start: int, stop: int, limit: int | None = None) -> bytes:
        """Return the first `limit` decompressed bytes of the chunk, with header, at data[start:stop]."""
        content = data[start + HEADER : stop]
        if data[start] & 1:
            return content if limit is None else content[:limit]
        try:
            if self.compression is CompressionKind.ZSTD and limit is not None and limit <= _ZSTD_BLOCK:
                with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                    return bytes(stream.read(limit))
            return self._decompress_content(content)[:limit]
        except (cramjam.DecompressionError, zlib.error, OSError) as problem:
            raise ValueError(f"a chunk does not decompress ({problem})") from problem

    def _decompress_content(self, content: bytes) -> bytes:
        """Decompress the content of a chunk. A damaged chunk never yields more than a block."""
        if self.compression is CompressionKind.ZLIB:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            data = inflater.decompress(content, self.block_size)
            if not inflater.eof and (inflater.unconsumed_tail or len(data) < self.block_size):
                raise ValueError("a chunk does not end where its content does")
            return data
        room = bytearray(self.block_size)
        length = _DECOMPRESSORS[self.compression](content, room)
        return bytes(memoryview(room)[:length])

    def store_uncompressed(self, data: bytes) -> bytes:
        """Return the bytes as uncompressed chunks, for a file that is read once from memory."""
        if self.compression is CompressionKind.NONE:
            return data
        # The length in a chunk's header has 23 bits.
        size = min(self.block_size, MAX_BLOCK_SIZE - 1)
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        return b"".join((len(piece) << 1 | 1).to_bytes(HEADER, "little") + piece for piece in pieces)


def _lz4(content: bytes, room: bytearray) -> int:
    # Without a length, cramjam may take the first bytes for one.
    return int(cramjam.lz4.decompress_block_into(content, room, output_len=len(room)))


_DECOMPRESSORS: dict[CompressionKind, Callable[[bytes, bytearray], int]] = {
    CompressionKind.SNAPPY: cramjam.snappy.decompress_raw_into,
    CompressionKind.LZ4: _lz4,
    CompressionKind.ZSTD: cramjam.zstd.decompress_into,
}


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each chunk, with header. Raises ValueError if the last one is truncated."""
    start = 0
    while start < len(data):
        if start + HEADER > len(data):
            raise ValueError("the header of a chunk is truncated")
        stop = start + HEADER + (int.from_bytes(data[start : start + HEADER], "little") >> 1)
        if stop > len(data):
            raise ValueError("a chunk is truncated")
        yield start, stop
        start = stop
