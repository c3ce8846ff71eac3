"""Recognises star schemas: a large table of facts whose joins each lead to one row of a dimension.

The rules of recognition are those of Spark's `StarSchemaDetection`; the order inside the star is left to the estimates,
because dimensions in the order of their size alone cost up to hundreds of times more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pushdown_spark.joins.cardinality import Equality, RelationFigures

_UNIQUE = 0.95
"""A key has at least this share of distinct values among its relation's rows."""
_COMPARABLE = 0.9
"""Another relation of at least this share of the largest one's rows may be the table of facts as well."""


def star(relations: Sequence[RelationFigures], equalities: Sequence[Equality]) -> tuple[int, ...]:
    """The facts and then the dimensions of a star, by number; empty where there is none.

    There is none with another relation as large as the facts, with fewer than two dimensions, or without a condition on
    any of them. A dimension is joined by `=` on a column that is never null and unique.
    """
    if len(relations) < 3:
        return ()
    by_size = sorted(range(len(relations)), key=lambda number: -relations[number].rows)
    facts, second = by_size[0], by_size[1]
    if relations[second].rows >= _COMPARABLE * relations[facts].rows:
        return ()
    dimensions: list[int] = []
    for each in equalities:
        sides = {each.left: each.left_key, each.right: each.right_key}
        other = next((number for number in sides if number != facts), facts)
        if facts in sides and other not in (facts, *dimensions) and _is_unique(relations[other], sides[other]):
            dimensions.append(other)
    filtered = any(relations[number].kept < relations[number].rows for number in dimensions)
    return (facts, *dimensions) if len(dimensions) > 1 and filtered else ()


def around(members: Sequence[int]) -> Callable[[int], bool]:
    """Allows, of sets of relations as masks, only those that are inside the star, hold all of it, or none of it."""
    whole = sum(1 << number for number in members)
    return lambda mask: mask & whole in (0, whole) or mask | whole == whole


def _is_unique(figures: RelationFigures, key: tuple[str, str]) -> bool:
    known = figures.columns.get(key)
    return known is not None and known.null_share == 0.0 and known.distinct >= _UNIQUE * figures.rows
