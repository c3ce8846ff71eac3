"""Limits of broadcasts, and their effect on the cheapest order."""

from __future__ import annotations

import pytest

from pushdown_spark.optimizer.join_order.enumeration import CostModel, find_cheapest_tree
from pushdown_spark.optimizer.passes.add_broadcast_hints import fits_broadcast


@pytest.mark.parametrize(
    ("at_most", "share", "hinted"),
    [(100, 1, True), (101, 1, False), (200, 0.126, False), (200, 0.124, True), (201, 0.001, False), (None, 0, False)],
)
def test_hint_needs_a_bound_and_above_the_limit_a_small_estimate(
    at_most: float | None, share: float, hinted: bool
) -> None:
    assert fits_broadcast(at_most, share, 100) is hinted


def test_a_large_relation_is_joined_with_small_ones_before_a_shuffle() -> None:
    large, left, right = 0, 1, 2
    sizes = {0b001: 1e6, 0b010: 1e3, 0b100: 1e4, 0b011: 1e5, 0b110: 1e3, 0b111: 1e4}
    edges = [0b110, 0b101, 0b011]
    rows = lambda mask: sizes.get(mask, 1e5)  # noqa: E731
    all_are_small = find_cheapest_tree(edges, CostModel(rows, lambda mask: True, lambda left, right: True))
    assert {all_are_small.tree.left, all_are_small.tree.right} >= {large}  # type: ignore[union-attr]
    by_moves = find_cheapest_tree(edges, CostModel(rows, lambda mask: mask in (0b010, 0b100), lambda left, right: True))
    assert large not in {by_moves.tree.left, by_moves.tree.right}  # type: ignore[union-attr]
    assert {left, right} & {by_moves.tree.left, by_moves.tree.right}  # type: ignore[union-attr]
