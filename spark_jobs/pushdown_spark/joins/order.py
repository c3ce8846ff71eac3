"""Finds the cheapest order of joins: dynamic programming over connected sub-graphs, greedy beyond a budget.

Relations are numbered, sets of them are bit masks. Bushy trees are allowed; cross products only between parts of the
graph that nothing connects. The enumeration is DPccp (Moerkotte and Neumann, VLDB 2006), which visits each pair of
connected, disjoint and adjacent sets once; the greedy order is greedy operator ordering (Fegaras, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Rows = Callable[[int], float]
"""Estimated rows of the join of a set of relations."""

Hashed = Callable[[int, int], bool]
"""Whether an equality connects two sets of relations, so that the rows of one need not be compared with all others."""

Broadcast = Callable[[int], bool]
"""Whether Spark can send a set of relations to all executors, instead of shuffling what it is joined with."""

MAX_PAIRS = 50_000
"""Pairs of sets that dynamic programming looks at; a third of a second in plain Python."""
_COMPARED = 0.1
"""Comparing two rows in a loop costs so much of what a row out of a join does."""


@dataclass(frozen=True)
class Branch:
    """A join of two trees; leaves are the numbers of relations."""

    left: Shape
    right: Shape


Shape = int | Branch


@dataclass(frozen=True)
class CostModel:
    """What a tree costs, in rows: what flows out of its joins, and what is moved for them.

    A join with a side that is `broadcast` moves the rows of that side, any other shuffles both; without `broadcast`
    nothing is taken to be moved. One that is not `hashed` compares every row of a side with every one of the other.
    Single relations are sent all at once, before anything is joined; where joins are sent, or sides shuffled, what
    comes after waits for a stage of its own, in which `waiting` rows could be joined.
    """

    rows: Rows
    broadcast: Broadcast | None = None
    hashed: Hashed | None = None
    waiting: float = 0.0

    def step(self, left: int, right: int) -> float:
        """Cost of one join, without what its sides cost."""
        sides = self.rows(left), self.rows(right)
        is_loop = self.hashed is not None and not self.hashed(left, right)
        compared = _COMPARED * sides[0] * sides[1] if is_loop else 0.0
        return self.rows(left | right) + self._moved(left, right) + compared

    def _moved(self, left: int, right: int) -> float:
        if self.broadcast is None:
            return 0.0
        shuffled = self.rows(left) + self.rows(right) + self.waiting
        return min(self.sent(left), self.sent(right), shuffled)

    def sent(self, side: int) -> float:
        """Cost of sending a side of a join to all executors, infinite where that is not possible."""
        if self.broadcast is None or not self.broadcast(side):
            return math.inf
        return self.rows(side) + (self.waiting if side.bit_count() > 1 else 0.0)

    def cost(self, shape: Shape) -> float:
        """Cost of a whole tree."""
        if isinstance(shape, int):
            return 0.0
        return self.cost(shape.left) + self.cost(shape.right) + self.step(mask_of(shape.left), mask_of(shape.right))


@dataclass(frozen=True)
class Found:
    """A tree, its cost, how it was found and how many pairs of sets were looked at."""

    shape: Shape
    cost: float
    method: str
    pairs: int


Allowed = Callable[[int], bool]
"""Whether the join of a set of relations may be a part of the tree."""


class _BudgetError(Exception):
    """There are more pairs than dynamic programming may look at."""


def cheapest(
    edges: Sequence[int],
    model: CostModel,
    *,
    threshold: int = 12,
    max_pairs: int = MAX_PAIRS,
    allowed: Allowed | None = None,
) -> Found:
    """The cheapest tree over all relations; `edges` holds for each relation the mask of those it is connected with.

    Up to `threshold` relations, and `max_pairs` pairs, the tree is the cheapest there is without needless cross
    products, and with every set of relations that `allowed` refuses left out; beyond, one found greedily.
    """
    parts = [_part(component, edges, model, threshold, max_pairs, allowed) for component in components(edges)]
    parts.sort(key=lambda part: model.rows(mask_of(part.shape)))
    shape, cost = parts[0].shape, parts[0].cost
    for part in parts[1:]:
        cost += part.cost + model.step(mask_of(shape), mask_of(part.shape))
        shape = Branch(shape, part.shape)
    largest = max(parts, key=lambda part: part.pairs)
    return Found(shape, cost, largest.method, sum(part.pairs for part in parts))


def components(edges: Sequence[int]) -> list[int]:
    """The connected parts of a graph, as masks."""
    found, left = [], (1 << len(edges)) - 1
    while left:
        part = left & -left
        while (grown := part | _neighbours(part, edges)) != part:
            part = grown
        found.append(part)
        left &= ~part
    return found


def are_adjacent(left: int, right: int, edges: Sequence[int]) -> bool:
    """Whether an edge connects two sets of relations."""
    return any(edges[number] & right for number in bits(left))


def mask_of(shape: Shape) -> int:
    """The set of relations of a tree."""
    return 1 << shape if isinstance(shape, int) else mask_of(shape.left) | mask_of(shape.right)


def pairs(part: int, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Every pair of connected, disjoint sets inside a connected part that an edge connects, each once.

    Sets come after all their subsets that matter, so that a caller may build on what it found for these.
    """
    for number in reversed(list(bits(part))):
        start = 1 << number
        lower = (start << 1) - 1
        for subset in _connected(start, lower, part, edges):
            yield from _complements(subset, part, edges)


def _part(
    part: int, edges: Sequence[int], model: CostModel, threshold: int, max_pairs: int, allowed: Allowed | None
) -> Found:
    if part.bit_count() == 1:
        return Found(part.bit_length() - 1, 0.0, "single", 0)
    if part.bit_count() <= threshold:
        try:
            return _dynamic(part, edges, model, max_pairs, allowed)
        except _BudgetError:
            pass
    return _greedy(part, edges, model)


def _dynamic(part: int, edges: Sequence[int], model: CostModel, max_pairs: int, allowed: Allowed | None) -> Found:
    best: dict[int, tuple[float, Shape]] = {1 << number: (0.0, number) for number in bits(part)}
    seen = 0
    for left, right in pairs(part, edges):
        both = left | right
        if left not in best or right not in best or (allowed is not None and not allowed(both)):
            continue
        seen += 1
        if seen > max_pairs:
            raise _BudgetError
        cost = best[left][0] + best[right][0] + model.step(left, right)
        if both not in best or cost < best[both][0]:
            best[both] = cost, Branch(best[left][1], best[right][1])
    if part not in best:
        return _greedy(part, edges, model)
    cost, shape = best[part]
    return Found(shape, cost, "dynamic programming", seen)


def _greedy(part: int, edges: Sequence[int], model: CostModel) -> Found:
    """Join those two trees next that give the fewest rows, until one is left."""
    trees: dict[int, Shape] = {1 << number: number for number in bits(part)}
    seen, cost = 0, 0.0
    while len(trees) > 1:
        left, right = _fewest_rows(trees, edges, model)
        seen += 1
        cost += model.step(left, right)
        trees[left | right] = Branch(trees.pop(left), trees.pop(right))
    return Found(trees[part], cost, "greedy", seen)


def _fewest_rows(trees: Mapping[int, Shape], edges: Sequence[int], model: CostModel) -> tuple[int, int]:
    candidates = [
        (model.step(left, right), left, right)
        for left in trees
        for right in trees
        if left < right and _neighbours(left, edges) & right
    ]
    _, left, right = min(candidates)
    return left, right


def _connected(start: int, excluded: int, part: int, edges: Sequence[int]) -> Iterator[int]:
    """The connected sets that contain `start` and nothing excluded besides it."""
    yield start
    yield from _grown(start, excluded, part, edges)


def _grown(subset: int, excluded: int, part: int, edges: Sequence[int]) -> Iterator[int]:
    reach = _neighbours(subset, edges) & part & ~excluded
    for more in _subsets(reach):
        yield subset | more
    for more in _subsets(reach):
        yield from _grown(subset | more, excluded | reach, part, edges)


def _complements(subset: int, part: int, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    lowest = subset & -subset
    excluded = ((lowest << 1) - 1) | subset
    reach = _neighbours(subset, edges) & part & ~excluded
    for number in reversed(list(bits(reach))):
        start = 1 << number
        below = reach & ((start << 1) - 1)
        for other in _connected(start, excluded | below, part, edges):
            yield subset, other


def _neighbours(subset: int, edges: Sequence[int]) -> int:
    reach = 0
    for number in bits(subset):
        reach |= edges[number]
    return reach & ~subset


def bits(mask: int) -> Iterator[int]:
    """The numbers in a set, in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _subsets(mask: int) -> Iterator[int]:
    """The subsets of a set that are not empty, smaller ones first in the order of their bits."""
    subset = -mask & mask
    while subset:
        yield subset
        subset = (subset - mask) & mask
