"""The search finds the cheapest tree, visits each pair once, and makes no needless cross products."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from pushdown_spark.optimizer.join_order.enumeration import (
    CostModel,
    bits,
    connected_components,
    connected_pairs,
    find_cheapest_tree,
    relation_mask,
)
from pushdown_spark.optimizer.plans.logical_plan import ChainTree, JoinNode

Edges = list[int]


def chain(size: int) -> Edges:
    return graph(size, [(number, number + 1) for number in range(size - 1)])


def cycle(size: int) -> Edges:
    return graph(size, [(number, (number + 1) % size) for number in range(size)])


def star(size: int) -> Edges:
    return graph(size, [(0, number) for number in range(1, size)])


def clique(size: int) -> Edges:
    return graph(size, [(one, two) for one in range(size) for two in range(one)])


def graph(size: int, edges: Sequence[tuple[int, int]]) -> Edges:
    masks = [0] * size
    for one, two in edges:
        masks[one] |= 1 << two
        masks[two] |= 1 << one
    return masks


@pytest.mark.parametrize("size", range(3, 10))
@pytest.mark.parametrize(
    ("shape", "closed_form"),
    [
        (chain, lambda n: (n**3 - n) // 6),
        (cycle, lambda n: (n**3 - 2 * n**2 + n) // 2),
        (star, lambda n: (n - 1) * 2 ** (n - 2)),
        (clique, lambda n: (3**n - 2 ** (n + 1) + 1) // 2),
    ],
)
def test_each_pair_is_visited_once(shape: Callable[[int], Edges], closed_form: Callable[[int], int], size: int) -> None:
    actual = [frozenset(pair) for pair in connected_pairs((1 << size) - 1, shape(size))]
    assert len(actual) == len(set(actual)) == closed_form(size)


def reach(mask: int, edges: Edges) -> int:
    neighbors = 0
    for number in bits(mask):
        neighbors |= edges[number]
    return neighbors


def every_tree(mask: int, edges: Edges) -> Iterator[ChainTree]:
    """Yield all trees without cross products, without mirrored ones."""
    if mask.bit_count() == 1:
        yield mask.bit_length() - 1
    left = (mask - 1) & mask
    while left > mask ^ left:
        if reach(left, edges) & (mask ^ left):
            for one in every_tree(left, edges):
                yield from (JoinNode(one, two) for two in every_tree(mask ^ left, edges))
        left = (left - 1) & mask


def random_case(seed: int, size: int) -> tuple[Edges, CostModel]:
    """Return a connected graph, usually cyclic, and a cost model with random sizes."""
    chance = random.Random(seed)
    edges = [(number, chance.randrange(number)) for number in range(1, size)]
    edges += [tuple(chance.sample(range(size), 2)) for _ in range(chance.randrange(size))]  # type: ignore[misc]
    sizes: dict[int, float] = {}
    rows = lambda mask: sizes.setdefault(mask, chance.random() * 10 ** chance.randrange(8))  # noqa: E731
    small = chance.choice([0.0, 1e3, 1e9])
    has_loops = chance.random() >= 0.5
    return graph(size, edges), CostModel(
        rows,
        lambda mask: rows(mask) < small,
        lambda left, right: not has_loops or rows(left | right) < 1e6,
        chance.choice([0.0, 1e3, 1e6]),
    )


@pytest.mark.parametrize("size", range(2, 8))
@pytest.mark.parametrize("seed", range(8))
def test_the_tree_found_is_the_cheapest(size: int, seed: int) -> None:
    edges, model = random_case(seed, size)
    actual = find_cheapest_tree(edges, model)
    assert actual.method == "dynamic programming"
    assert relation_mask(actual.tree) == (1 << size) - 1
    assert actual.cost == pytest.approx(model.tree_cost(actual.tree))
    assert actual.cost == pytest.approx(min(map(model.tree_cost, every_tree((1 << size) - 1, edges))))


def small_cluster(rows: Callable[[int], float]) -> CostModel:
    """Return a model in which everything can be broadcast, and every join has an equality."""
    return CostModel(rows, lambda mask: True, lambda left, right: True)


def test_bushy_trees_are_found() -> None:
    sizes = {0b0011: 1.0, 0b1100: 1.0, 0b1111: 1.0}
    actual = find_cheapest_tree(chain(4), small_cluster(lambda mask: sizes.get(mask, 1e6)))
    assert {relation_mask(actual.tree.left), relation_mask(actual.tree.right)} == {0b0011, 0b1100}  # type: ignore[union-attr]


@pytest.mark.parametrize(("stage_rows", "joined_first"), [(0.0, True), (99.0, True), (101.0, False)])
def test_broadcasting_a_join_result_must_pay_for_its_stage(stage_rows: float, joined_first: bool) -> None:
    fact, middle, last = 0b001, 0b010, 0b100
    sizes = {fact: 1e6, middle: 10.0, last: 1.0, fact | middle: 100.0, middle | last: 5.0, 0b111: 50.0}
    model = CostModel(
        lambda mask: sizes[mask], lambda mask: not mask & fact, lambda left, right: True, stage_rows=stage_rows
    )
    actual = find_cheapest_tree(chain(3), model).tree
    assert isinstance(actual, JoinNode)
    # Separate broadcasts cost 10 + 100 and 1 + 50 rows. Joining first costs 1 + 5 and 5 + 50 rows and a stage.
    assert ({relation_mask(actual.left), relation_mask(actual.right)} == {fact, middle | last}) is joined_first


@pytest.mark.parametrize(("threshold", "max_pairs"), [(5, 50_000), (12, 10)])
def test_the_search_is_greedy_beyond_threshold_or_budget(threshold: int, max_pairs: int) -> None:
    edges, model = random_case(3, 9)
    actual = find_cheapest_tree(edges, model, threshold=threshold, max_pairs=max_pairs)
    assert actual.method == "greedy"
    assert relation_mask(actual.tree) == (1 << 9) - 1
    assert actual.cost == pytest.approx(model.tree_cost(actual.tree))
    assert without_cross(actual.tree, edges)


def without_cross(shape: ChainTree, edges: Edges) -> bool:
    if isinstance(shape, int):
        return True
    connected = reach(relation_mask(shape.left), edges) & relation_mask(shape.right)
    return bool(connected) and without_cross(shape.left, edges) and without_cross(shape.right, edges)


def test_unconnected_parts_are_joined_last_from_small_to_large() -> None:
    edges = graph(5, [(0, 1), (2, 3)])
    assert connected_components(edges) == [0b00011, 0b01100, 0b10000]
    actual = find_cheapest_tree(
        edges, small_cluster(lambda mask: {0b00011: 50.0, 0b01100: 4.0, 0b10000: 9.0}.get(mask, 100.0))
    )
    assert actual.tree == JoinNode(JoinNode(actual.tree.left.left, 4), actual.tree.right)  # type: ignore[union-attr]
    assert relation_mask(actual.tree.left.left) == 0b01100  # type: ignore[union-attr]
    assert relation_mask(actual.tree.right) == 0b00011  # type: ignore[union-attr]


def test_trees_contain_only_allowed_sets() -> None:
    facts = 0b00111
    is_allowed = lambda mask: mask & facts in (0, facts) or mask | facts == facts  # noqa: E731
    edges, model = star(5), small_cluster(lambda mask: 1.0 if mask & 0b11000 else 1e6)
    actual = find_cheapest_tree(edges, model, is_allowed=is_allowed)
    sets: list[int] = []

    def collect(shape: ChainTree) -> None:
        if isinstance(shape, JoinNode):
            sets.append(relation_mask(shape))
            collect(shape.left)
            collect(shape.right)

    collect(actual.tree)
    assert facts in sets
    assert all(map(is_allowed, sets))
    assert actual.pairs < find_cheapest_tree(edges, model).pairs


def test_one_relation_costs_nothing() -> None:
    actual = find_cheapest_tree([0], small_cluster(lambda mask: 7.0))
    assert (actual.tree, actual.cost, actual.pairs) == (0, 0.0, 0)
