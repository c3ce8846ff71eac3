"""Estimate from a few blocks of the files how many lines a byte pattern lets through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import Finder, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.relations.listing import InputFile, Split

BLOCK = 256 << 10
"""Bytes read at each place."""
PLACES = 8
"""Places looked at, spread over all files."""


@dataclass(frozen=True)
class Sampled:
    """Lines seen, their average length in bytes, and for each pattern the share of lines that it lets through."""

    lines: int
    line_bytes: float
    shares: tuple[float, ...]
    inflation: float


def sample(
    files: Sequence[InputFile], searchers: Sequence[Searcher], forbidden: Searcher | None, syntax: LineSyntax
) -> Sampled:
    """Look at some blocks. Raises PushdownError where a block shows already that the files cannot be searched.

    `inflation` is the number of searched bytes per stored byte (above 1 for compressed files).
    """
    lines = size = stored = 0
    found = [0] * len(searchers)
    for split in _blocks(files):
        reader = LineReader(split, carriage_returns=syntax.carriage_returns)
        window = next(reader.windows(), None)
        if window is None:
            continue
        stored += max(reader.bytes_read, 1)
        size += window.length
        lines += window.data.count(b"\n", 0, window.length) or window.data.count(b"\r", 0, window.length)
        for index, wanted in enumerate(searchers):
            finder = Finder(wanted, forbidden, syntax)
            candidates = finder.lines(window, split.path, at_start=split.start == 0)
            finder.batch(candidates, split.path)
            found[index] += len(candidates)
    return Sampled(lines, size / max(lines, 1), tuple(n / max(lines, 1) for n in found), size / max(stored, 1))


def _blocks(files: Sequence[InputFile]) -> list[Split]:
    """Evenly spread places, weighted by size: the start of compressed files, anywhere in others."""
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
