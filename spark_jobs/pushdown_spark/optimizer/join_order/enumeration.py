"""The search for the cheapest join tree: dynamic programming within a budget, greedy search beyond it.

Bushy trees are allowed. Cross products occur only between parts of the join graph that nothing connects. The
enumeration is DPccp (Moerkotte and Neumann, VLDB 2006), which visits each pair of connected, disjoint and adjacent sets
once. The greedy search is greedy operator ordering (Fegaras, 1998).

Relations are numbered. Sets of relations are bit masks. `edges` holds for each relation the set of relations that a
condition connects it with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pushdown_spark.optimizer.plans.logical_plan import ChainTree, JoinNode

MAX_PAIRS = 50_000
"""Maximum number of pairs of sets that dynamic programming visits, to limit its time."""

IsAllowed = Callable[[int], bool]
"""Returns whether the join of a set of relations may be part of the tree."""
_COMPARISON_COST = 0.1
"""Cost of comparing two rows in a nested loop, relative to that of an output row."""


def relation_mask(tree: ChainTree) -> int:
    """Return the set of relations of a tree."""
    return 1 << tree if isinstance(tree, int) else relation_mask(tree.left) | relation_mask(tree.right)


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers in a set in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@dataclass(frozen=True)
class CostModel:
    """The cost of a join tree: the rows that its joins return, and those that they move and compare.

    `rows` returns the estimated rows of the join of a set. A join moves the rows of the side that it broadcasts, or
    shuffles both sides. A join without an equality compares all pairs of rows. All single relations are broadcast at
    the same time, but broadcasting the result of a join, or shuffling, adds a stage that delays the following joins;
    `stage_rows` is the cost of such a stage in rows.

    >>> model = CostModel(lambda mask: 10.0 * mask.bit_count(), lambda mask: True, lambda left, right: True)
    >>> model.tree_cost(JoinNode(JoinNode(0, 1), 2))
    70.0
    """

    rows: Callable[[int], float]
    can_broadcast: Callable[[int], bool]
    has_equality: Callable[[int, int], bool]
    stage_rows: float = 0.0

    def join_cost(self, left: int, right: int) -> float:
        """Return the cost of one join without the cost of its sides."""
        left_rows, right_rows = self.rows(left), self.rows(right)
        shuffle = left_rows + right_rows + self.stage_rows
        move_cost = min(self.broadcast_cost(left), self.broadcast_cost(right), shuffle)
        comparison_cost = 0.0 if self.has_equality(left, right) else _COMPARISON_COST * left_rows * right_rows
        return self.rows(left | right) + move_cost + comparison_cost

    def broadcast_cost(self, side: int) -> float:
        """Return the cost of broadcasting a side of a join, or infinity if Spark cannot broadcast it."""
        if not self.can_broadcast(side):
            return math.inf
        return self.rows(side) + (self.stage_rows if side.bit_count() > 1 else 0.0)

    def tree_cost(self, tree: ChainTree) -> float:
        """Return the cost of a whole tree."""
        if isinstance(tree, int):
            return 0.0
        join = self.join_cost(relation_mask(tree.left), relation_mask(tree.right))
        return self.tree_cost(tree.left) + self.tree_cost(tree.right) + join


@dataclass(frozen=True)
class SearchResult:
    """A join tree, its cost, the search method, and the number of visited pairs of sets."""

    tree: ChainTree
    cost: float
    method: str
    pairs: int


class _BudgetError(Exception):
    """Dynamic programming has visited the maximum number of pairs."""


def find_cheapest_tree(
    edges: Sequence[int],
    model: CostModel,
    *,
    threshold: int = 12,
    max_pairs: int = MAX_PAIRS,
    is_allowed: IsAllowed = lambda _: True,
) -> SearchResult:
    """Return the cheapest tree over all relations.

    Up to `threshold` relations and `max_pairs` pairs, it is the cheapest of all trees without needless cross products
    whose sets are allowed. Larger graphs use the greedy search.

    >>> sizes = {0b011: 5.0, 0b110: 100.0, 0b111: 7.0}
    >>> model = CostModel(lambda mask: sizes.get(mask, 10.0), lambda mask: True, lambda left, right: True)
    >>> find_cheapest_tree([0b010, 0b101, 0b010], model).cost
    27.0
    """
    parts = [
        _search_component(component, edges, model, threshold=threshold, max_pairs=max_pairs, is_allowed=is_allowed)
        for component in connected_components(edges)
    ]
    parts.sort(key=lambda part: model.rows(relation_mask(part.tree)))
    tree, cost = parts[0].tree, parts[0].cost
    for part in parts[1:]:
        cost += part.cost + model.join_cost(relation_mask(tree), relation_mask(part.tree))
        tree = JoinNode(tree, part.tree)
    largest = max(parts, key=lambda part: part.pairs)
    return SearchResult(tree, cost, largest.method, sum(part.pairs for part in parts))


def connected_components(edges: Sequence[int]) -> list[int]:
    """Return the connected parts of a join graph.

    >>> [bin(component) for component in connected_components([0b010, 0b001, 0])]
    ['0b11', '0b100']
    """
    components, unassigned = [], (1 << len(edges)) - 1
    while unassigned:
        component = unassigned & -unassigned
        while (extension := component | _neighbors(component, edges)) != component:
            component = extension
        components.append(component)
        unassigned &= ~component
    return components


def are_adjacent(left: int, right: int, edges: Sequence[int]) -> bool:
    """Return whether an edge connects two sets of relations."""
    return any(edges[number] & right for number in bits(left))


def _search_component(
    component: int, edges: Sequence[int], model: CostModel, *, threshold: int, max_pairs: int, is_allowed: IsAllowed
) -> SearchResult:
    if component.bit_count() == 1:
        return SearchResult(component.bit_length() - 1, 0.0, "single", 0)
    result = None
    if component.bit_count() <= threshold:
        with suppress(_BudgetError):
            result = _dynamic_programming(component, edges, model, max_pairs, is_allowed)
    return result or _greedy(component, edges, model)


def _dynamic_programming(
    component: int, edges: Sequence[int], model: CostModel, max_pairs: int, is_allowed: IsAllowed
) -> SearchResult | None:
    """Return the cheapest tree, or None if there is none whose sets are all allowed."""
    best: dict[int, tuple[float, ChainTree]] = {1 << number: (0.0, number) for number in bits(component)}
    pair_count = 0
    for left, right in connected_pairs(component, edges):
        both = left | right
        if left not in best or right not in best or not is_allowed(both):
            continue
        pair_count += 1
        if pair_count > max_pairs:
            raise _BudgetError
        cost = best[left][0] + best[right][0] + model.join_cost(left, right)
        if both not in best or cost < best[both][0]:
            best[both] = cost, JoinNode(best[left][1], best[right][1])
    if component not in best:
        return None
    cost, tree = best[component]
    return SearchResult(tree, cost, "dynamic programming", pair_count)


def _greedy(component: int, edges: Sequence[int], model: CostModel) -> SearchResult:
    """Repeatedly join the two adjacent trees whose join is cheapest."""
    trees: dict[int, ChainTree] = {1 << number: number for number in bits(component)}
    pair_count, cost = 0, 0.0
    while len(trees) > 1:
        step, left, right = _cheapest_join(trees, edges, model)
        pair_count += 1
        cost += step
        trees[left | right] = JoinNode(trees.pop(left), trees.pop(right))
    return SearchResult(trees[component], cost, "greedy", pair_count)


def _cheapest_join(trees: Mapping[int, ChainTree], edges: Sequence[int], model: CostModel) -> tuple[float, int, int]:
    """Return the cost and both sides of the cheapest join of two adjacent trees."""
    return min(
        (model.join_cost(left, right), left, right)
        for left in trees
        for right in trees
        if left < right and _neighbors(left, edges) & right
    )


def connected_pairs(component: int, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield every pair of connected, disjoint and adjacent sets inside a connected part of the graph once.

    All pairs that make up a set come before the pairs that contain the set.
    """
    # Each first set is found from its lowest relation only, so the sets of a start exclude all lower relations.
    for number in reversed(list(bits(component))):
        start = 1 << number
        lower = (start << 1) - 1
        for subset in _connected_supersets(start, lower, component, edges):
            for complement in _complements(subset, component, edges):
                yield subset, complement


def _connected_supersets(start: int, excluded: int, component: int, edges: Sequence[int]) -> Iterator[int]:
    """Yield the connected sets that contain `start` and no excluded relation outside of it."""
    yield start
    yield from _expansions(start, excluded, component, edges)


def _expansions(subset: int, excluded: int, component: int, edges: Sequence[int]) -> Iterator[int]:
    """Yield the connected sets that contain a set, other relations of the component, and no excluded one."""
    reachable = _neighbors(subset, edges) & component & ~excluded
    for addition in _subsets(reachable):
        yield subset | addition
    # A set grows by some of its neighbors now, and never by the others, so that no set is found twice.
    for addition in _subsets(reachable):
        yield from _expansions(subset | addition, excluded | reachable, component, edges)


def _complements(subset: int, component: int, edges: Sequence[int]) -> Iterator[int]:
    """Yield the connected sets that are disjoint from a set and adjacent to it, each of these pairs only once."""
    lowest = subset & -subset
    excluded = ((lowest << 1) - 1) | subset
    reachable = _neighbors(subset, edges) & component & ~excluded
    for number in reversed(list(bits(reachable))):
        start = 1 << number
        lower = reachable & ((start << 1) - 1)
        yield from _connected_supersets(start, excluded | lower, component, edges)


def _neighbors(subset: int, edges: Sequence[int]) -> int:
    neighbors = 0
    for number in bits(subset):
        neighbors |= edges[number]
    return neighbors & ~subset


def _subsets(mask: int) -> Iterator[int]:
    """Yield the non-empty subsets of a set, subsets before their supersets."""
    # The carry of a subtraction passes over the bits outside of the mask, so this counts through the bits of the mask.
    subset = -mask & mask
    while subset:
        yield subset
        subset = (subset - mask) & mask
