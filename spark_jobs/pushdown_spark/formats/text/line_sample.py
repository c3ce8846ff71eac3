"""Selectivity of byte patterns, estimated from a sample of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineMatcher, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.relations.listing import InputFile, Split

_BLOCK_BYTES = 256 << 10
"""Number of bytes read at each position."""
_MAX_BLOCKS = 8
"""Number of sampled positions, spread over all files."""


@dataclass(frozen=True)
class LineSample:
    """The number of sampled lines, their mean length in bytes, and the share of lines that each pattern matches.

    `inflation` is the number of searched bytes per stored byte, above 1 for compressed files.
    """

    lines: int
    line_bytes: float
    shares: tuple[float, ...]
    inflation: float


def sample(
    files: Sequence[InputFile], searchers: Sequence[Searcher], ambiguous: Searcher | None, syntax: LineSyntax
) -> LineSample:
    """Read a sample of the files. Raises PushdownError if a block shows that the files cannot be searched."""
    lines = size = stored = 0
    matches = [0] * len(searchers)
    for split in _sampled_blocks(files):
        reader = LineReader(split, carriage_returns=syntax.carriage_returns)
        window = next(reader.windows(), None)
        if window is None:
            continue
        stored += max(reader.bytes_read, 1)
        size += window.length
        lines += window.data.count(b"\n", 0, window.length) or window.data.count(b"\r", 0, window.length)
        for index, searcher in enumerate(searchers):
            matcher = LineMatcher(searcher, ambiguous, syntax)
            candidates = matcher.lines(window, split.path, at_start=split.start == 0)
            # This raises for lines that only Spark can read.
            matcher.batch(candidates, split.path)
            matches[index] += len(candidates)
    return LineSample(lines, size / max(lines, 1), tuple(n / max(lines, 1) for n in matches), size / max(stored, 1))


def _sampled_blocks(files: Sequence[InputFile]) -> list[Split]:
    """Return evenly spread blocks, weighted by file size. In compressed files, they are at the start."""
    total = sum(file.size for file in files)
    step = max(total // _MAX_BLOCKS, 1)
    blocks: list[Split] = []
    passed = 0
    for file in files:
        first = -(-passed // step) * step
        for position in range(first, passed + file.size, step):
            blocks.append(_block(file, position - passed))
            if len(blocks) >= _MAX_BLOCKS:
                return blocks
        passed += file.size
    return blocks


def _block(file: InputFile, start: int) -> Split:
    return file.split(start, min(start + _BLOCK_BYTES, file.size))
