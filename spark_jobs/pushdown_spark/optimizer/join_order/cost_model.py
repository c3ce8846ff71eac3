"""Costs of join trees. Relations are numbered, and sets of relations are bit masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARISON_COST = 0.1
"""Cost of comparing two rows in a nested loop, relative to that of an output row."""


@dataclass(frozen=True)
class Branch:
    """A join of two trees. The leaves are the numbers of relations."""

    left: Shape
    right: Shape


Shape = int | Branch


def relation_mask(shape: Shape) -> int:
    """Return the set of relations of a tree."""
    return 1 << shape if isinstance(shape, int) else relation_mask(shape.left) | relation_mask(shape.right)


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers in a set in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@dataclass(frozen=True)
class CostModel:
    """The cost of a join tree as the number of rows that its joins return.

    `rows` returns the estimated rows of the join of a set.

    >>> CostModel(lambda mask: 10.0 * mask.bit_count()).tree_cost(Branch(Branch(0, 1), 2))
    50.0
    """

    rows: Callable[[int], float]

    def join_cost(self, left: int, right: int) -> float:
        """Return the cost of one join without the cost of its sides."""
        return self.rows(left | right)

    def tree_cost(self, shape: Shape) -> float:
        """Return the cost of a whole tree."""
        if isinstance(shape, int):
            return 0.0
        join = self.join_cost(relation_mask(shape.left), relation_mask(shape.right))
        return self.tree_cost(shape.left) + self.tree_cost(shape.right) + join


@dataclass(frozen=True)
class ClusterCostModel(CostModel):
    """Adds the cost of moving rows between executors, and of nested loops.

    A join moves the rows of the side that it broadcasts, or shuffles both sides. A join without an equality compares
    all pairs of rows. All single relations are broadcast at the same time, but broadcasting the result of a join, or
    shuffling, adds a stage that delays the following joins; `stage_rows` is the cost of such a stage in rows.
    """

    can_broadcast: Callable[[int], bool]
    has_equality: Callable[[int, int], bool]
    stage_rows: float = 0.0

    def join_cost(self, left: int, right: int) -> float:
        """Return the cost of one join without the cost of its sides."""
        left_rows, right_rows = self.rows(left), self.rows(right)
        shuffle = left_rows + right_rows + self.stage_rows
        moved = min(self.broadcast_cost(left), self.broadcast_cost(right), shuffle)
        compared = 0.0 if self.has_equality(left, right) else _COMPARISON_COST * left_rows * right_rows
        return self.rows(left | right) + moved + compared

    def broadcast_cost(self, side: int) -> float:
        """Return the cost of broadcasting a side of a join, or infinity if Spark cannot broadcast it."""
        if not self.can_broadcast(side):
            return math.inf
        return self.rows(side) + (self.stage_rows if side.bit_count() > 1 else 0.0)
