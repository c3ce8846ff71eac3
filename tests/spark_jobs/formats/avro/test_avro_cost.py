"""The estimate ranks the two readers as measured on lineitem at scale 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pushdown_spark.formats.avro.cost import AvroSample, ReaderSeconds, reader_seconds
from pushdown_spark.scan.plan import is_cheaper

SIZE, ROWS, BLOCKS = 672_000_000, 6_001_215, 10_500
WORKERS = 2


@dataclass(frozen=True)
class AvroCostCase:
    """A query: blocks that pass the search, matching rows, columns, and whether our reader was faster."""

    name: str
    found: int
    matching: int
    columns: int
    ours: bool
    search: bool
    filtered: bool = True


CASES = (
    AvroCostCase("needle", 27, 25, 16, ours=True, search=True),
    AvroCostCase("1 % range, clustered", 110, 60_000, 16, ours=True, search=True),
    AvroCostCase("1 % range, scattered", BLOCKS, 60_000, 16, ours=True, search=False),
    AvroCostCase("half", BLOCKS, ROWS // 2, 16, ours=False, search=False),
    AvroCostCase("all", BLOCKS, ROWS, 16, ours=False, search=False, filtered=False),
    AvroCostCase("all, 2 columns", BLOCKS, ROWS, 2, ours=True, search=False, filtered=False),
)


def sample_of(case: AvroCostCase) -> AvroSample:
    return AvroSample(
        files=2,
        size=SIZE,
        deflate_size=0.0,
        records=ROWS,
        values=16 * ROWS,
        candidate_fraction=case.found / BLOCKS,
        matching_fraction=case.matching / ROWS,
        blocks=12,
    )


def estimate(sample: AvroSample, case: AvroCostCase) -> ReaderSeconds:
    return reader_seconds(sample, case.columns, WORKERS, has_filter=case.filtered)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_estimate_chooses_the_reader_that_was_faster(case: AvroCostCase) -> None:
    actual = estimate(sample_of(case), case)
    assert (is_cheaper(actual.pushdown, actual.spark), actual.searches_blocks) == (case.ours, case.search), actual


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_small_table_is_left_to_spark(case: AvroCostCase) -> None:
    """Starting our workers costs more than Spark's scan of the whole table."""
    sample = sample_of(case)
    small = estimate(
        replace(sample, size=sample.size / 1_000, records=sample.records / 1_000, values=sample.values / 1_000), case
    )
    assert small.pushdown > small.spark, small


def test_deflate_costs_spark_more_than_the_pushdown_reader() -> None:
    needle = CASES[0]
    snappy, deflate = (
        estimate(sample_of(needle), needle),
        estimate(replace(sample_of(needle), deflate_size=SIZE), needle),
    )
    assert snappy.spark / snappy.pushdown < deflate.spark / deflate.pushdown


def test_more_work_costs_more() -> None:
    needle = CASES[0]
    sample = sample_of(needle)
    cost = estimate(sample, needle).pushdown
    assert estimate(replace(sample, size=2 * sample.size), needle).pushdown > cost
    assert estimate(replace(sample, candidate_fraction=10 * sample.candidate_fraction), needle).pushdown > cost
    assert estimate(replace(sample, matching_fraction=10_000 * sample.matching_fraction), needle).pushdown > cost
    everything = replace(sample, candidate_fraction=1.0, matching_fraction=1.0)
    assert (
        estimate(everything, replace(needle, columns=16)).pushdown
        > estimate(everything, replace(needle, columns=2)).pushdown
    )


def test_only_workers_with_enough_work_load_machine_code() -> None:
    """Each worker with enough records loads machine code, so a rare value costs the same with many workers."""
    needle, everything = CASES[0], CASES[-1]
    assert reader_seconds(sample_of(needle), 16, 2, has_filter=True) == reader_seconds(
        sample_of(needle), 16, 64, has_filter=True
    )
    few, many = (reader_seconds(sample_of(everything), 2, workers, has_filter=False).pushdown for workers in (2, 8))
    assert few < many
