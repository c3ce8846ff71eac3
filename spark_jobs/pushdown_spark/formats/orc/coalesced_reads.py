"""Coalesced reads: which row groups of a stripe to read, and which byte ranges of a file to read at once."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pushdown_spark.formats.orc.file_tail import ReadRange
from pushdown_spark.formats.orc.metrics import ReadPurpose
from pushdown_spark.formats.orc.stripe import RowGroupRange


class CoalescedReader:
    """Reads byte ranges of a file in few requests. `bytes` counts the bytes by purpose, `reads` the requests.

    Ranges that are at most `min_seek` bytes apart are read at once. The end of the file, which was read for the tail,
    stays in memory, so the stripe statistics, or all of a small file, are not read twice.
    """

    def __init__(self, read: ReadRange, size: int, min_seek: int) -> None:
        self._read = read
        self._size = size
        self._min_seek = min_seek
        self._end = b""
        self.bytes: Counter[ReadPurpose] = Counter()
        self.reads = 0

    def range_reader(self, purpose: ReadPurpose) -> ReadRange:
        """Return a function that reads one range. It raises ValueError where the file is shorter."""

        def read(offset: int, length: int) -> bytes:
            start = offset - (self._size - len(self._end))
            if start >= 0 and offset + length <= self._size:
                return self._end[start : start + length]
            data = self._read(offset, length)
            if len(data) != length:
                raise ValueError(f"{length} bytes were expected at byte {offset}, {len(data)} were read")
            self.bytes[purpose] += length
            self.reads += 1
            if purpose is ReadPurpose.METADATA and offset + length == self._size:
                self._end = data
            return data

        return read

    def fetch(self, ranges: Iterable[tuple[int, int]], purpose: ReadPurpose) -> FetchedRanges:
        """Read some ranges, given the start and the end of each."""
        read = self.range_reader(purpose)
        merged_ranges: list[list[int]] = []
        for begin, end in sorted(ranges):
            if begin == end:
                continue
            if merged_ranges and begin - merged_ranges[-1][1] <= self._min_seek:
                merged_ranges[-1][1] = max(merged_ranges[-1][1], end)
            else:
                merged_ranges.append([begin, end])
        return FetchedRanges([(begin, read(begin, end - begin)) for begin, end in merged_ranges])


class FetchedRanges:
    """Byte ranges of a file in memory."""

    def __init__(self, ranges: list[tuple[int, bytes]]) -> None:
        self._starts = [start for start, _ in ranges]
        self._data = [data for _, data in ranges]

    def __call__(self, begin: int, end: int) -> bytes:
        """Return the bytes between two file offsets. They must be in a fetched range."""
        if begin == end:
            return b""
        number = bisect_right(self._starts, begin) - 1
        start = begin - self._starts[number]
        return self._data[number][start : start + end - begin]


MAX_GAP = 2
"""Maximum number of row groups without matching rows that are decoded between two with matching rows.

Starting to decode within a stripe takes as long as decoding about this many row groups."""


@dataclass(frozen=True)
class ReadPlan:
    """Ranges of row groups: those to fetch, and those of them to decode."""

    fetch: tuple[RowGroupRange, ...]
    decode: tuple[RowGroupRange, ...]


def plan_reads(matching_groups: Sequence[int], candidates: Sequence[int], partial_reads: int | None) -> ReadPlan:
    """Plan the reads of a stripe's select columns.

    `matching_groups` are the row groups with matching rows, `candidates` those that statistics did not prune, both
    ascending. At most `partial_reads` ranges of row groups are read separately. After them, one read takes all
    candidates up to the end of the stripe. With None, each range is read separately.

    >>> plan_reads([2, 5], range(7), 0).fetch
    (RowGroupRange(first=2, last=6),)
    >>> plan_reads([2, 5], range(7), 1).fetch
    (RowGroupRange(first=2, last=2), RowGroupRange(first=5, last=6))
    """
    if partial_reads is None:
        decode_ranges = _ranges_of(matching_groups, MAX_GAP)
        return ReadPlan(decode_ranges, decode_ranges)
    decode_ranges = _ranges_of(matching_groups, 0)
    separate_ranges, later_ranges = decode_ranges[:partial_reads], decode_ranges[partial_reads:]
    if not later_ranges:
        return ReadPlan(decode_ranges, decode_ranges)
    tail = _ranges_of([group for group in candidates if group >= later_ranges[0].first], 0)
    return ReadPlan((*separate_ranges, *tail), decode_ranges)


def _ranges_of(groups: Sequence[int], max_gap: int) -> tuple[RowGroupRange, ...]:
    """Return ranges of consecutive row groups, across gaps of at most `max_gap` row groups."""
    ranges: list[RowGroupRange] = []
    for group in groups:
        if ranges and group - ranges[-1].last <= max_gap + 1:
            ranges[-1] = RowGroupRange(ranges[-1].first, group)
        else:
            ranges.append(RowGroupRange(group, group))
    return tuple(ranges)


def split_range(groups: RowGroupRange, size: int) -> list[RowGroupRange]:
    """Split a range into ranges of at most `size` row groups."""
    return [
        RowGroupRange(first, min(first + size - 1, groups.last))
        for first in range(groups.first, groups.last + 1, max(size, 1))
    ]
