"""Read byte ranges of a file in as few reads as pay, and count what was read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pushdown_spark.formats.orc.file_tail import ReadRange
from pushdown_spark.formats.orc.row_group_slice import Groups


class Purpose(StrEnum):
    """What bytes are read for."""

    METADATA = "metadata"
    INDEX = "index"
    FILTER = "filter columns"
    SELECT = "select columns"


class Ranges:
    """A file to read ranges of. `counted` holds the bytes read by purpose, `reads` the number of reads.

    Ranges that are at most `min_seek` bytes apart are read at once. What was read of the file's end for its tail is
    kept, so that the statistics before the footer, or all of a small file, are not read twice.
    """

    def __init__(self, read: ReadRange, size: int, min_seek: int) -> None:
        self._read = read
        self._size = size
        self._min_seek = min_seek
        self._end = b""
        self.counted: Counter[Purpose] = Counter()
        self.reads = 0

    def one(self, purpose: Purpose) -> ReadRange:
        """A reader of single ranges."""

        def read(offset: int, length: int) -> bytes:
            kept = offset - (self._size - len(self._end))
            if kept >= 0 and offset + length <= self._size:
                return self._end[kept : kept + length]
            data = self._read(offset, length)
            if len(data) != length:
                raise ValueError(f"{length} bytes were wanted at byte {offset}, there are {len(data)}")
            self.counted[purpose] += length
            self.reads += 1
            if purpose is Purpose.METADATA and offset + length == self._size:
                self._end = data
            return data

        return read

    def fetch(self, wanted: Iterable[tuple[int, int]], purpose: Purpose) -> Fetched:
        """Read ranges (from, to)."""
        read = self.one(purpose)
        merged: list[list[int]] = []
        for begin, end in sorted(wanted):
            if begin == end:
                continue
            if merged and begin - merged[-1][1] <= self._min_seek:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        return Fetched([(begin, read(begin, end - begin)) for begin, end in merged])


class Fetched:
    """Ranges of a file in memory."""

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        self._starts = [start for start, _ in pieces]
        self._data = [data for _, data in pieces]

    def __call__(self, begin: int, end: int) -> bytes:
        """The bytes from one offset to another, which must have been fetched."""
        if begin == end:
            return b""
        number = bisect_right(self._starts, begin) - 1
        start = begin - self._starts[number]
        return self._data[number][start : start + end - begin]


BRIDGED_GROUPS = 2
"""Row groups without survivors that are decoded rather than skipped where two others have some: beginning anew inside a
stripe costs about as much as decoding this many row groups (measured on TPC-H lineitem)."""


@dataclass(frozen=True)
class ReadPlan:
    """Runs of row groups: those to fetch, and those of them to decode."""

    fetched: tuple[Groups, ...]
    decoded: tuple[Groups, ...]


def plan_reads(hits: Sequence[int], alive: Sequence[int], partial_reads: int | None) -> ReadPlan:
    """Plan the reads of a stripe's select columns.

    `hits` are the row groups with survivors and `alive` those that statistics could not exclude, both ascending. At
    most `partial_reads` runs of row groups are read by themselves; after them one read takes everything alive up to the
    end of the stripe. None reads every run by itself.

    >>> plan_reads([2, 5], range(7), 0).fetched
    (Groups(first=2, last=6),)
    >>> plan_reads([2, 5], range(7), 1).fetched
    (Groups(first=2, last=2), Groups(first=5, last=6))
    """
    if partial_reads is None:
        decoded = _runs(hits, BRIDGED_GROUPS)
        return ReadPlan(decoded, decoded)
    decoded = _runs(hits, 0)
    alone, rest = decoded[:partial_reads], decoded[partial_reads:]
    if not rest:
        return ReadPlan(decoded, decoded)
    tail = _runs([group for group in alive if group >= rest[0].first], 0)
    return ReadPlan((*alone, *tail), decoded)


def _runs(groups: Sequence[int], bridged: int) -> tuple[Groups, ...]:
    """Runs of consecutive numbers, across gaps of at most `bridged`."""
    runs: list[Groups] = []
    for group in groups:
        if runs and group - runs[-1].last <= bridged + 1:
            runs[-1] = Groups(runs[-1].first, group)
        else:
            runs.append(Groups(group, group))
    return tuple(runs)


def pieces(run: Groups, at_most: int) -> list[Groups]:
    """A run cut into pieces of at most so many row groups."""
    return [
        Groups(first, min(first + at_most - 1, run.last)) for first in range(run.first, run.last + 1, max(at_most, 1))
    ]
