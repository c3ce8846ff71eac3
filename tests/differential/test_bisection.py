"""The search for failing items finds each of them, and blames none for a failure that needs no item."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from bisection import split_failures


@pytest.mark.parametrize("bad", [set(), {0}, {9}, {3, 4}, set(range(10))])
def test_bisection_finds_the_items_that_fail(bad: set[int]) -> None:
    def run(batch: Sequence[int]) -> list[int]:
        if bad & set(batch):
            raise ValueError
        return list(batch)

    results, failures = split_failures(range(10), run, ValueError)
    assert [item for batch in results for item in batch] == [item for item in range(10) if item not in bad]
    assert failures == sorted(bad)


def test_a_failure_without_items_is_raised() -> None:
    def run(batch: Sequence[int]) -> None:
        raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"):
        split_failures([1, 2], run, ValueError)
