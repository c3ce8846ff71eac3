"""The lines of a CSV file up to its header."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pushdown_spark.formats.text.line_reader import LineReader, is_row
from pushdown_spark.relations.listing import Compression, InputFile, Split

_FIRST_PIECE = 64 << 10
"""Bytes at the start of a text file that usually contain the first line."""


def header_lines(file: InputFile, comment: bytes, *, carriage_returns: bool) -> Iterator[bytes]:
    """Yield the first lines of a file: blank lines and comments, and then the header."""
    terminator = rb"\r\n|[\r\n]" if carriage_returns else rb"\n"
    for split in _growing_splits(file):
        for window in LineReader(split, carriage_returns=carriage_returns).windows():
            for line in re.split(terminator, bytes(window.view)):
                yield line
                if is_row(line, comment):
                    return


def _growing_splits(file: InputFile) -> Iterator[Split]:
    """Yield growing splits of a file from its start, because comments may come first."""
    start, end = 0, _FIRST_PIECE if file.compression is Compression.NONE else file.size
    while start < file.size:
        yield file.split(start, min(end, file.size))
        start, end = end, 4 * end
