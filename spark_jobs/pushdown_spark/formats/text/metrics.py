"""What a search of text did, counted where it happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass
class TextCount:
    """Figures of one file in one task; bytes as stored and as searched, lines handed to Spark's parser."""

    bytes_read: int = 0
    bytes_searched: int = 0
    candidate_lines: int = 0
    candidate_bytes: int = 0


@dataclass(frozen=True)
class TextTask:
    """Figures of one finished task by file, and whether it came to the end of its splits."""

    files: Mapping[str, TextCount]
    exhausted: bool = True


def total(counts: Iterable[TextCount]) -> TextCount:
    """The sum of figures."""
    sums = TextCount()
    for count in counts:
        sums.bytes_read += count.bytes_read
        sums.bytes_searched += count.bytes_searched
        sums.candidate_lines += count.candidate_lines
        sums.candidate_bytes += count.candidate_bytes
    return sums
