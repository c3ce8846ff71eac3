"""Star schemas are detected by the rules that Spark's test suites define."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pushdown_spark.optimizer.join_order.enumeration import CostModel, find_cheapest_tree
from pushdown_spark.optimizer.join_order.equalities import Equality, JoinColumn
from pushdown_spark.optimizer.join_order.star_detection import detect_star, star_first
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics

FACTS, DATES, STORES, OTHER = range(4)


def relation(
    name: str, rows: float, kept: float | None = None, *, distinct: float, nulls: float = 0
) -> RelationStatistics:
    return RelationStatistics(
        rows, rows if kept is None else kept, {(name, "k"): JoinColumnStatistics(distinct, nulls)}
    )


RELATIONS = [
    relation("f", 1e6, distinct=1e5),
    relation("d", 365, 31, distinct=365),
    relation("s", 50, distinct=50),
    relation("o", 5e4, distinct=100),
]
EQUALITIES = [
    Equality(JoinColumn(FACTS, ("f", "d")), JoinColumn(DATES, ("d", "k"))),
    Equality(JoinColumn(STORES, ("s", "k")), JoinColumn(FACTS, ("f", "s"))),
    Equality(JoinColumn(FACTS, ("f", "o")), JoinColumn(OTHER, ("o", "k"))),
]


def change_statistics(place: int, figures: RelationStatistics) -> list[RelationStatistics]:
    return [*RELATIONS[:place], figures, *RELATIONS[place + 1 :]]


def test_a_star_has_its_fact_table_first_and_only_unique_dimensions() -> None:
    assert detect_star(RELATIONS, EQUALITIES) == (FACTS, DATES, STORES)


@pytest.mark.parametrize(
    "relations",
    [
        change_statistics(DATES, relation("d", 365, 31, distinct=100)),
        change_statistics(DATES, relation("d", 365, 31, distinct=365, nulls=0.1)),
        change_statistics(DATES, replace(RELATIONS[DATES], columns={})),
        change_statistics(DATES, replace(RELATIONS[DATES], filtered_rows=365)),
        change_statistics(OTHER, relation("o", 9.5e5, distinct=100)),
        RELATIONS[:2],
    ],
    ids=["not unique", "nulls", "unknown key", "no condition", "two tables of facts", "two relations"],
)
def test_other_schemas_are_not_stars(relations: list[RelationStatistics]) -> None:
    equalities = [each for each in EQUALITIES if max(each.left.relation, each.right.relation) < len(relations)]
    assert detect_star(relations, equalities) == ()


def test_dimensions_are_joined_with_the_fact_table_directly() -> None:
    aside = [EQUALITIES[0], Equality(JoinColumn(DATES, ("d", "s")), JoinColumn(STORES, ("s", "k")))]
    assert detect_star(RELATIONS, aside) == ()


GRAPHS = {
    "two dimensions and two other tables": ("f1-t1 f1-t2 f1-d1 f1-d2", "f1 d1 d2", 11, 20),
    "a linear branch": ("d1-f1 t1-f1 d2-f1 d1-t2 t2-t3", "f1 d1 d2", 15, 24),
    "derived branches": ("t1-t2 t3-t4 t1-t4 d1-t4 f1-d1 f1-d2", "f1 d1 d2", 22, 34),
    "several branches": ("d1-t3 t3-t4 d1-f1 f1-d2 d2-t5 t5-t6 f1-d3 d3-t1 t1-t2", "f1 d1 d2 d3", 46, 82),
    "nothing but a star": ("f1-d1 f1-d2 f1-d3", "f1 d1 d2 d3", 11, 11),
    "no star": ("f1-t1 f1-t2 f1-t3", "", 11, 11),
}
"""The graphs of Spark's StarJoinCostBasedReorderSuite, their stars, and for how many sets of relations Spark keeps a
plan: with stars joined before everything else, and without."""


@pytest.mark.parametrize("name", GRAPHS)
def test_the_search_visits_as_many_sets_as_spark(name: str) -> None:
    text, members, with_star, without = GRAPHS[name]
    edges = [pair.split("-") for pair in text.split()]
    relations = sorted({relation for pair in edges for relation in pair})
    masks = [
        sum(1 << relations.index(other) for pair in edges if relation in pair for other in pair if other != relation)
        for relation in relations
    ]
    actual = star_first([relations.index(relation) for relation in members.split()])

    def sets(allowed: Callable[[int], bool]) -> int:
        seen = {1 << number for number in range(len(relations))}

        def noted(mask: int) -> bool:
            if allowed(mask):
                seen.add(mask)
            return allowed(mask)

        model = CostModel(lambda mask: float(mask.bit_count()), lambda mask: True, lambda left, right: True)
        assert find_cheapest_tree(masks, model, is_allowed=noted).cost > 0
        return len(seen)

    assert sets(actual) == with_star
    assert sets(lambda _mask: True) == without
