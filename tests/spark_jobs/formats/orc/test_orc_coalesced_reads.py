"""Adjacent ranges are read at once, all reads are counted, and short reads are errors."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from pushdown_spark.formats.orc.coalesced_reads import CoalescedReader
from pushdown_spark.formats.orc.metrics import ReadPurpose

CONTENT = bytes(random.Random(1).randbytes(10_000))


def ranges(min_seek: int) -> tuple[CoalescedReader, list[tuple[int, int]]]:
    reads: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        reads.append((offset, length))
        return CONTENT[offset : offset + length]

    return CoalescedReader(read, len(CONTENT), min_seek), reads


def test_ranges_that_are_near_are_read_at_once() -> None:
    actual, reads = ranges(10)
    content = actual.fetch([(500, 600), (100, 200), (210, 300), (311, 320), (0, 0), (550, 560)], ReadPurpose.SELECT)
    assert reads == [(100, 200), (311, 9), (500, 100)]
    assert actual.bytes == {ReadPurpose.SELECT: 309}
    assert actual.reads == 3
    assert content(100, 200) == CONTENT[100:200]
    assert content(205, 260) == CONTENT[205:260]
    assert content(550, 560) == CONTENT[550:560]
    assert content(700, 700) == b""


@pytest.mark.parametrize("min_seek", [0, 50, 100_000])
def test_fetched_bytes_are_those_of_the_file(min_seek: int) -> None:
    rng = random.Random(min_seek)
    for _ in range(100):
        spans = [(begin, begin + rng.randint(0, 300)) for begin in rng.sample(range(9_700), 8)]
        actual, reads = ranges(min_seek)
        content = actual.fetch(spans, ReadPurpose.FILTER)
        assert all(content(begin, end) == CONTENT[begin:end] for begin, end in spans)
        assert actual.bytes[ReadPurpose.FILTER] == sum(length for _, length in reads)
        assert len(reads) == actual.reads
        gaps = [after - (begin + length) for (begin, length), (after, _) in pairwise(reads)]
        assert all(gap > min_seek for gap in gaps)


def test_bytes_are_counted_by_purpose() -> None:
    actual, _ = ranges(0)
    actual.range_reader(ReadPurpose.INDEX)(10, 20)
    actual.range_reader(ReadPurpose.INDEX)(50, 5)
    actual.range_reader(ReadPurpose.FILTER)(0, 1)
    assert actual.bytes == {ReadPurpose.INDEX: 25, ReadPurpose.FILTER: 1}
    assert actual.reads == 3


def test_the_end_of_a_file_is_read_once() -> None:
    actual, reads = ranges(0)
    actual.range_reader(ReadPurpose.METADATA)(9_000, 1_000)
    assert actual.range_reader(ReadPurpose.METADATA)(9_500, 100) == CONTENT[9_500:9_600]
    assert actual.fetch([(9_900, 10_000)], ReadPurpose.SELECT)(9_900, 10_000) == CONTENT[9_900:]
    assert reads == [(9_000, 1_000)]
    assert actual.bytes == {ReadPurpose.METADATA: 1_000}


def test_a_short_read_is_an_error() -> None:
    actual, _ = ranges(0)
    with pytest.raises(ValueError, match="100 bytes were expected at byte 9950, 50 were read"):
        actual.range_reader(ReadPurpose.SELECT)(9_950, 100)
