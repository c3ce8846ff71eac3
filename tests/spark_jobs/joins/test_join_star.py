"""Stars are recognised by the rules that Spark's suites pin, and by nothing less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.joins.cardinality import ColumnFigures, Equality, RelationFigures
from spark_jobs.joins.star import star

FACTS, DATES, STORES, OTHER = range(4)


def relation(
    name: str, rows: float, kept: float | None = None, *, distinct: float, nulls: float = 0
) -> RelationFigures:
    return RelationFigures(rows, rows if kept is None else kept, {(name, "k"): ColumnFigures(distinct, nulls)})


RELATIONS = [
    relation("f", 1e6, distinct=1e5),
    relation("d", 365, 31, distinct=365),
    relation("s", 50, distinct=50),
    relation("o", 5e4, distinct=100),
]
EQUALITIES = [
    Equality(FACTS, ("f", "d"), DATES, ("d", "k")),
    Equality(STORES, ("s", "k"), FACTS, ("f", "s")),
    Equality(FACTS, ("f", "o"), OTHER, ("o", "k")),
]


def changed(place: int, figures: RelationFigures) -> list[RelationFigures]:
    return [*RELATIONS[:place], figures, *RELATIONS[place + 1 :]]


def test_facts_come_first_and_what_is_not_unique_is_no_dimension() -> None:
    assert star(RELATIONS, EQUALITIES) == (FACTS, DATES, STORES)


@pytest.mark.parametrize(
    "relations",
    [
        changed(DATES, relation("d", 365, 31, distinct=100)),
        changed(DATES, relation("d", 365, 31, distinct=365, nulls=0.1)),
        changed(DATES, replace(RELATIONS[DATES], columns={})),
        changed(DATES, replace(RELATIONS[DATES], kept=365)),
        changed(OTHER, relation("o", 9.5e5, distinct=100)),
        RELATIONS[:2],
    ],
    ids=["not unique", "nulls", "unknown key", "no condition", "two tables of facts", "two relations"],
)
def test_there_is_no_star(relations: list[RelationFigures]) -> None:
    known = [each for each in EQUALITIES if max(each.left, each.right) < len(relations)]
    assert star(relations, known) == ()


def test_dimensions_are_joined_with_the_facts_themselves() -> None:
    aside = [EQUALITIES[0], Equality(DATES, ("d", "s"), STORES, ("s", "k"))]
    assert star(RELATIONS, aside) == ()
