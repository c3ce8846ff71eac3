"""Splits of Parquet files are the parts into which DataFusion divides a file."""

from __future__ import annotations

import random

import pytest

from pushdown_spark.formats.parquet.file_parts import ParquetInput, part_of


def test_each_split_is_one_part() -> None:
    rng = random.Random(1)
    for _ in range(500):
        size, limit = rng.randint(1, 5_000), rng.randint(1, 6_000)
        step = ParquetInput("", "", size).split_size(limit)
        assert 0 < step <= limit
        for start in range(0, size, step):
            end = min(start + step, size)
            part = part_of(start, end, size)
            parts = -(-size // part.count)
            assert (part.number * parts, min(part.number * parts + parts, size)) == (start, end)


@pytest.mark.parametrize("ends", [(1, 5), (4, 9), (3, 10)])
def test_ranges_that_are_no_part_of_the_file_are_rejected(ends: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a part"):
        part_of(*ends, 10)
