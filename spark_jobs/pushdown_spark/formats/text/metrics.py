"""Counts of text scans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass
class TextCount:
    """Counts of one file in one task: stored bytes, searched bytes, and lines passed to Spark's parser."""

    bytes_read: int = 0
    bytes_searched: int = 0
    candidate_lines: int = 0
    candidate_bytes: int = 0


@dataclass(frozen=True)
class TextTask:
    """Counts of a finished task by file, and whether it read its splits to the end."""

    files: Mapping[str, TextCount]
    is_exhausted: bool = True


def total(counts: Iterable[TextCount]) -> TextCount:
    """Return the sum of counts."""
    sums = TextCount()
    for count in counts:
        sums.bytes_read += count.bytes_read
        sums.bytes_searched += count.bytes_searched
        sums.candidate_lines += count.candidate_lines
        sums.candidate_bytes += count.candidate_bytes
    return sums
