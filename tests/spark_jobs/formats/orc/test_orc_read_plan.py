"""The read plan covers all row groups with matching rows."""

from __future__ import annotations

import random

import pytest

from pushdown_spark.formats.orc.coalesced_reads import MAX_GAP, plan_reads, split_range
from pushdown_spark.formats.orc.stripe import RowGroupRange


def spread(runs: tuple[RowGroupRange, ...]) -> list[int]:
    return [group for run in runs for group in range(run.first, run.last + 1)]


@pytest.mark.parametrize(
    ("partial", "fetch"),
    [
        (0, [RowGroupRange(2, 3), RowGroupRange(5, 9)]),
        (1, [RowGroupRange(2, 3), RowGroupRange(5, 9)]),
        (2, [RowGroupRange(2, 3), RowGroupRange(6, 6), RowGroupRange(9, 9)]),
        (3, [RowGroupRange(2, 3), RowGroupRange(6, 6), RowGroupRange(9, 9)]),
    ],
)
def test_partial_reads_come_before_one_read_to_the_end(partial: int, fetch: list[RowGroupRange]) -> None:
    """Statistics exclude group 4.

    The first partial reads take single runs, then one read takes all remaining groups.
    """
    plan = plan_reads([2, 3, 6, 9], [1, 2, 3, 5, 6, 7, 8, 9], partial)
    expected = {0: [RowGroupRange(2, 3), RowGroupRange(5, 9)], 1: [RowGroupRange(2, 3), RowGroupRange(6, 9)]}.get(
        partial, fetch
    )
    assert list(plan.fetch) == expected
    assert plan.decode == (RowGroupRange(2, 3), RowGroupRange(6, 6), RowGroupRange(9, 9))


def test_without_a_limit_small_gaps_are_bridged() -> None:
    plan = plan_reads([0, MAX_GAP + 1, 2 * MAX_GAP + 3], range(20), None)
    assert plan.fetch == (
        RowGroupRange(0, MAX_GAP + 1),
        RowGroupRange(2 * MAX_GAP + 3, 2 * MAX_GAP + 3),
    )
    assert plan.decode == plan.fetch


@pytest.mark.parametrize("partial", [None, 0, 1, 2, 5])
def test_matching_row_groups_are_fetched_and_decoded(partial: int | None) -> None:
    rng = random.Random(partial)
    for _ in range(300):
        alive = sorted(rng.sample(range(40), rng.randint(1, 40)))
        hits = sorted(rng.sample(alive, rng.randint(1, len(alive))))
        plan = plan_reads(hits, alive, partial)
        decode_groups, fetch_groups = spread(plan.decode), spread(plan.fetch)
        assert set(hits) <= set(decode_groups) <= set(fetch_groups)
        assert decode_groups == sorted(set(decode_groups))
        assert fetch_groups == sorted(set(fetch_groups))
        if partial is not None:
            assert decode_groups == hits
            assert set(fetch_groups) <= set(alive)


def test_split_ranges_cover_the_range() -> None:
    assert split_range(RowGroupRange(3, 9), 3) == [RowGroupRange(3, 5), RowGroupRange(6, 8), RowGroupRange(9, 9)]
    assert split_range(RowGroupRange(3, 3), 100) == [RowGroupRange(3, 3)]
