"""Reading of splits as windows of whole lines, with one window in memory at a time."""

from __future__ import annotations

import bz2
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import pyarrow as pa
from isal import igzip_lib

from pushdown_spark.errors import (
    AccessDeniedError,
    ChangedFilesError,
    MissingPathError,
    UnreadableFileError,
    UnsafeInputError,
)
from pushdown_spark.sources.stores.listing import Compression, InputFile, Split
from pushdown_spark.sources.stores.storage import DENIED_REMEDY, REMEDY, RangeFile

WINDOW = 1 << 20
"""Size of a window in bytes. It fits into the cache of a core, because several searches run over it."""
MAX_LINE = 256 << 20
"""Maximum length of a line in bytes. A file with a longer line probably has no lines."""
_GZIP_ERROR: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub declares an instance
JAVA_BLANKS = bytes(range(0x21))
"""The characters that Java's String.trim removes."""
BOM = b"\xef\xbb\xbf"
_READ_SIZE = 64 << 10
"""Number of bytes of a compressed file, or of a line after the split, that are read at once."""
_FIRST_PIECE = 64 << 10
"""Bytes at the start of a text file that usually contain the first line."""


def is_row(line: bytes, comment: bytes) -> bool:
    """Return whether a line of CSV is neither blank nor a comment. `comment` starts comments; empty without them."""
    return bool(line.strip(JAVA_BLANKS)) and not (comment and line.startswith(comment))


class _Stream(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


class _Decompressor(Protocol):
    """The common interface of the decompressors of the bz2 module and of igzip_lib."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes: ...


_DECOMPRESSORS: Mapping[Compression, Callable[[], _Decompressor]] = {
    Compression.GZIP: partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_GZIP),
    Compression.BZIP2: bz2.BZ2Decompressor,
}
"""The decompressor of one member of a file, by compression."""
_GZIP_FLAGS, _GZIP_RESERVED_FLAGS = 3, 0xE0
"""The offset of the flags in a gzip member, and the reserved flags (RFC 1952)."""


class Window:
    """Whole lines, each with its terminator: the first `length` bytes of `data`."""

    def __init__(self) -> None:
        self.data = bytearray(WINDOW)
        self.length = 0

    @property
    def view(self) -> memoryview:
        """The bytes of the window, without a copy."""
        return memoryview(self.data)[: self.length]


class LineReader:
    """A reader of one split. `bytes_read` counts stored bytes, `bytes_searched` bytes after decompression."""

    def __init__(self, split: Split, *, ends_at_returns: bool = True) -> None:
        self._split = split
        self._ends_at_returns = ends_at_returns
        self.bytes_read = 0
        self.bytes_searched = 0

    def windows(self) -> Iterator[Window]:
        """Yield windows in file order. The same object is yielded each time and is valid until the next one.

        Raises MissingPathError, ChangedFilesError if an uncompressed file ends before its split, AccessDeniedError
        without permission, and UnreadableFileError if the storage fails.
        Raises UnsafeInputError for data that Spark's reader must read: lines beyond the maximum length, and damaged
        compressed data.
        """
        split = self._split
        try:
            if split.compression is Compression.NONE:
                yield from self._uncompressed_windows()
            else:
                yield from self._compressed_windows()
        except FileNotFoundError as problem:
            raise MissingPathError(f"{split.path} vanished before it was read; run the task again") from problem
        except PermissionError as problem:
            raise AccessDeniedError(f"cannot read {split.path}: {problem}; {DENIED_REMEDY}") from problem
        except (EOFError, OSError, _GZIP_ERROR, pa.ArrowException) as problem:
            where = f"{split.path} near byte {split.start + self.bytes_read}: {problem}"
            if isinstance(problem, OSError) and split.compression is Compression.NONE:
                raise UnreadableFileError(f"cannot read {where}; {REMEDY}") from problem
            raise UnsafeInputError(f"{where}; read it with reader='spark'") from problem

    def _compressed_windows(self) -> Iterator[Window]:
        split = self._split
        with split.storage.open(split.path) as raw, _open_decompressor(raw, split.compression) as stream:
            yield from self._count(raw, _WindowDivider(stream, None, self._ends_at_returns))

    def _uncompressed_windows(self) -> Iterator[Window]:
        """Read an uncompressed split. A line that starts in the split before belongs to that split."""
        split = self._split
        # The byte before the split shows whether a line starts at its first byte.
        start = max(split.start - 1, 0)
        with split.storage.open(split.path, start, split.end) as raw:
            divider = _WindowDivider(raw, split.end - start, self._ends_at_returns, drops_first=split.start > 0)
            yield from self._count(raw, divider)
            if divider.unread_bytes:
                raise ChangedFilesError(f"{split.path} was longer when the scan was planned; run the task again")

    def _count(self, raw: RangeFile, divider: _WindowDivider) -> Iterator[Window]:
        """Yield the windows, and count their bytes."""
        for window in divider.windows():
            self.bytes_read = raw.bytes_fetched
            self.bytes_searched += window.length
            yield window
        self.bytes_read = raw.bytes_fetched


@contextmanager
def _open_decompressor(raw: RangeFile, compression: Compression) -> Iterator[_Stream]:
    if compression is Compression.ZSTD:
        with pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd") as stream:
            yield stream
    else:
        yield _Members(raw, compression)


class _Members:
    """The decompressed contents of adjacent members of a file.

    Python's modules gzip and bz2 are less strict than Spark: they skip zero bytes after a gzip member, treat any bytes
    after a bzip2 member as the end of the file, and ignore the reserved flags of a gzip member.
    """

    def __init__(self, raw: RangeFile, compression: Compression) -> None:
        self._raw = raw
        self._compression = compression
        self._member: _Decompressor | None = None
        self._pending = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer or a part of it. Return the number of bytes. Raises EOFError if the file ends in a member."""
        while True:
            if not self._pending and (self._member is None or self._member.needs_input):
                self._pending = self._raw.read(_READ_SIZE)
                if not self._pending:
                    if self._member is None:
                        return 0
                    raise EOFError("the compressed data ends too early")
            if self._member is None:
                self._member = self._new_member()
            content = self._member.decompress(self._pending, len(buffer))
            self._pending = b""
            if self._member.eof:
                self._pending, self._member = self._member.unused_data, None
            if content:
                buffer[: len(content)] = content
                return len(content)

    def _new_member(self) -> _Decompressor:
        """Return the decompressor of the next member. Raises OSError for reserved flags of gzip."""
        if self._compression is Compression.GZIP:
            while len(self._pending) <= _GZIP_FLAGS and (more := self._raw.read(_READ_SIZE)):
                self._pending += more
            if len(self._pending) > _GZIP_FLAGS and self._pending[_GZIP_FLAGS] & _GZIP_RESERVED_FLAGS:
                raise OSError("a gzip member has reserved flags")
        return _DECOMPRESSORS[self._compression]()


class _WindowDivider:
    """A stream divided into windows at line ends.

    `limit` is the length of the split, or None for the whole stream. The last line may end after the split. With
    `drops_first`, the first line belongs to the split before.

    The window's buffer has `_size` bytes of the stream: whole lines, which are yielded, and the start of the next
    line, which is moved to the front of the buffer for the next window.
    """

    def __init__(self, stream: _Stream, limit: int | None, ends_at_returns: bool, drops_first: bool = False) -> None:
        self._stream = stream
        self._limit = limit
        self._ends_at_returns = ends_at_returns
        self._drops_first = drops_first
        self._window = Window()
        self._size = 0

    @property
    def unread_bytes(self) -> int:
        """Number of bytes of the split that the stream has not returned."""
        return self._limit or 0

    def windows(self) -> Iterator[Window]:
        at_start = not self._drops_first
        while self._fill():
            end = self._last_end(self._size)
            if end == 0:
                self._grow()
                continue
            yield from self._emit(end, at_start)
            at_start = False
        yield from self._last_line(at_start)

    def _fill(self) -> bool:
        """Read once. Return False at the end of the split or of the stream."""
        size = len(self._window.data) - self._size
        if self._limit is not None:
            size = min(size, self._limit)
        if size == 0:
            return False
        count = self._read(size)
        self._size += count
        if self._limit is not None:
            self._limit -= count
        return count > 0

    def _read(self, count: int) -> int:
        """Append up to `count` bytes of the stream to the window, which has room for them."""
        return self._stream.readinto(memoryview(self._window.data)[self._size : self._size + count]) or 0

    def _grow(self) -> None:
        """Double a full window. Raises EOFError for a line beyond the maximum length."""
        data = self._window.data
        if self._size < len(data):
            return
        if len(data) >= MAX_LINE:
            raise EOFError(f"a line is longer than {MAX_LINE} bytes")
        data.extend(bytes(len(data)))

    def _emit(self, end: int, at_start: bool) -> Iterator[Window]:
        """Yield the lines before `end` and keep the bytes after it. `at_start` is whether the file starts here."""
        window = self._window
        tail = bytes(memoryview(window.data)[end : self._size])
        window.length = end
        skip = self._skipped_prefix(end, at_start)
        if skip:
            window.data[: end - skip] = window.data[skip:end]
            window.length = end - skip
        if window.length:
            yield window
        window.data[: len(tail)] = tail
        self._size = len(tail)

    def _skipped_prefix(self, end: int, at_start: bool) -> int:
        """Return the length of a byte order mark or of another split's line at the start of the window."""
        if self._drops_first:
            self._drops_first = False
            return self._first_end(end)
        return len(BOM) if at_start and self._window.data.startswith(BOM) else 0

    def _last_line(self, at_start: bool) -> Iterator[Window]:
        """Yield the last line. Read its end after the split, or append a missing terminator."""
        if self._size == 0:
            return
        while self._limit is not None:
            if self._size + _READ_SIZE > len(self._window.data):
                self._window.data.extend(bytes(_READ_SIZE))
            before = self._size
            self._size += self._read(_READ_SIZE)
            if self._size == before:
                break
            end = self._first_end(self._size, before)
            if end:
                self._size = end
                break
            if self._size >= MAX_LINE:
                raise EOFError(f"a line is longer than {MAX_LINE} bytes")
        data, size = self._window.data, self._size
        if self._last_end(size) != size:
            data[size : size + 1] = b"\n"
            size += 1
            self._size = size
        yield from self._emit(size, at_start)

    def _last_end(self, length: int) -> int:
        """Return the position after the last terminator, 0 if there is none."""
        newline = self._window.data.rfind(b"\n", 0, length) + 1
        if not self._ends_at_returns:
            return newline
        return max(newline, self._window.data.rfind(b"\r", newline, length) + 1)

    def _first_end(self, length: int, start: int = 0) -> int:
        """Return the position after the first terminator at or after `start`, 0 if there is none."""
        newline = self._window.data.find(b"\n", start, length) + 1
        if not self._ends_at_returns:
            return newline
        stop = newline or length
        return self._window.data.find(b"\r", start, stop) + 1 or newline


def header_lines(file: InputFile, comment: bytes, *, ends_at_returns: bool) -> Iterator[bytes]:
    """Yield the first lines of a file: blank lines and comments, and then the header."""
    terminator = rb"\r\n|[\r\n]" if ends_at_returns else rb"\n"
    for split in _growing_splits(file):
        for window in LineReader(split, ends_at_returns=ends_at_returns).windows():
            for line in _split_lazily(terminator, bytes(window.view)):
                yield line
                if is_row(line, comment):
                    return


def _split_lazily(terminator: bytes, data: bytes) -> Iterator[bytes]:
    start = 0
    for match in re.finditer(terminator, data):
        yield data[start : match.start()]
        start = match.end()
    yield data[start:]


def _growing_splits(file: InputFile) -> Iterator[Split]:
    """Yield growing splits of a file from its start, because comments may come first."""
    start, end = 0, _FIRST_PIECE if file.compression is Compression.NONE else file.size
    while start < file.size:
        yield file.split(start, min(end, file.size))
        start, end = end, 4 * end
