"""Selectivity of byte patterns, estimated from a sample of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineMatcher, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.relations.listing import InputFile, Split

BLOCK = 256 << 10
"""Bytes that are read at each position."""
PLACES = 8
"""Positions of the sample, spread over all files."""


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
    files: Sequence[InputFile], searchers: Sequence[Searcher], forbidden: Searcher | None, syntax: LineSyntax
) -> LineSample:
    """Sample some blocks of the files. Raises PushdownError if a block shows that the files cannot be searched."""
    lines = size = stored = 0
    matches = [0] * len(searchers)
    for split in _blocks(files):
        reader = LineReader(split, carriage_returns=syntax.carriage_returns)
        window = next(reader.windows(), None)
        if window is None:
            continue
        stored += max(reader.bytes_read, 1)
        size += window.length
        lines += window.data.count(b"\n", 0, window.length) or window.data.count(b"\r", 0, window.length)
        for index, wanted in enumerate(searchers):
            finder = LineMatcher(wanted, forbidden, syntax)
            candidates = finder.lines(window, split.path, at_start=split.start == 0)
            finder.batch(candidates, split.path)
            matches[index] += len(candidates)
    return LineSample(lines, size / max(lines, 1), tuple(n / max(lines, 1) for n in matches), size / max(stored, 1))


def _blocks(files: Sequence[InputFile]) -> list[Split]:
    """Return evenly spread blocks, weighted by file size. In compressed files they are at the start."""
    total = sum(file.size for file in files)
    step = max(total // PLACES, 1)
    blocks: list[Split] = []
    passed = 0
    for file in files:
        first = -(-passed // step) * step
        for place in range(first, passed + file.size, step):
            blocks.append(_block(file, place - passed))
            if len(blocks) >= PLACES:
                return blocks
        passed += file.size
    return blocks


def _block(file: InputFile, start: int) -> Split:
    return file.split(start, min(start + BLOCK, file.size))
