"""The search for the cheapest join tree: dynamic programming within a budget, greedy search beyond it.

Bushy trees are allowed. Cross products occur only between parts of the join graph that nothing connects. The
enumeration is DPccp (Moerkotte and Neumann, VLDB 2006), which visits each pair of connected, disjoint and adjacent sets
once. The greedy search is greedy operator ordering (Fegaras, 1998).

Relations are numbered. Sets of relations are bit masks. `edges` holds for each relation the set of relations that a
condition connects it with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pushdown_spark.optimizer.join_order.cost_model import Branch, CostModel, Shape, bits, relation_mask

MAX_PAIRS = 50_000
"""Pairs of sets that dynamic programming visits at most, about 0.3 seconds."""

IsAllowed = Callable[[int], bool]
"""Returns whether the join of a set of relations may be part of the tree."""


@dataclass(frozen=True)
class SearchResult:
    """A join tree, its cost, the search method, and the number of visited pairs of sets."""

    shape: Shape
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
    >>> find_cheapest_tree([0b010, 0b101, 0b010], CostModel(lambda mask: sizes.get(mask, 10.0))).cost
    12.0
    """
    parts = [
        _search_component(component, edges, model, threshold, max_pairs, is_allowed)
        for component in connected_components(edges)
    ]
    parts.sort(key=lambda part: model.rows(relation_mask(part.shape)))
    shape, cost = parts[0].shape, parts[0].cost
    for part in parts[1:]:
        cost += part.cost + model.join_cost(relation_mask(shape), relation_mask(part.shape))
        shape = Branch(shape, part.shape)
    largest = max(parts, key=lambda part: part.pairs)
    return SearchResult(shape, cost, largest.method, sum(part.pairs for part in parts))


def connected_components(edges: Sequence[int]) -> list[int]:
    """Return the connected parts of a join graph.

    >>> [bin(component) for component in connected_components([0b010, 0b001, 0])]
    ['0b11', '0b100']
    """
    components, remaining = [], (1 << len(edges)) - 1
    while remaining:
        component = remaining & -remaining
        while (grown := component | _neighbors(component, edges)) != component:
            component = grown
        components.append(component)
        remaining &= ~component
    return components


def are_adjacent(left: int, right: int, edges: Sequence[int]) -> bool:
    """Return whether an edge connects two sets of relations."""
    return any(edges[number] & right for number in bits(left))


def _search_component(
    component: int, edges: Sequence[int], model: CostModel, threshold: int, max_pairs: int, is_allowed: IsAllowed
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
    best: dict[int, tuple[float, Shape]] = {1 << number: (0.0, number) for number in bits(component)}
    visited = 0
    for left, right in connected_pairs(component, edges):
        both = left | right
        if left not in best or right not in best or not is_allowed(both):
            continue
        visited += 1
        if visited > max_pairs:
            raise _BudgetError
        cost = best[left][0] + best[right][0] + model.join_cost(left, right)
        if both not in best or cost < best[both][0]:
            best[both] = cost, Branch(best[left][1], best[right][1])
    if component not in best:
        return None
    cost, shape = best[component]
    return SearchResult(shape, cost, "dynamic programming", visited)


def _greedy(component: int, edges: Sequence[int], model: CostModel) -> SearchResult:
    """Repeatedly join the two adjacent trees whose join is cheapest."""
    trees: dict[int, Shape] = {1 << number: number for number in bits(component)}
    visited, cost = 0, 0.0
    while len(trees) > 1:
        step, left, right = _cheapest_join(trees, edges, model)
        visited += 1
        cost += step
        trees[left | right] = Branch(trees.pop(left), trees.pop(right))
    return SearchResult(trees[component], cost, "greedy", visited)


def _cheapest_join(trees: Mapping[int, Shape], edges: Sequence[int], model: CostModel) -> tuple[float, int, int]:
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
    reachable = _neighbors(subset, edges) & component & ~excluded
    for addition in _subsets(reachable):
        yield subset | addition
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
    subset = -mask & mask
    while subset:
        yield subset
        subset = (subset - mask) & mask
