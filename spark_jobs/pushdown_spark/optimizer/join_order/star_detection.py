"""Detection of star schemas: a fact table and its dimensions, which are joined first.

The rules are the same as in Spark's `StarSchemaDetection`. The order inside of a star follows the estimates, because
ordering dimensions by size alone can cost far more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pushdown_spark.optimizer.join_order.equalities import ColumnKey, Equality
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics

_MIN_UNIQUENESS = 0.95
"""Minimum fraction of distinct key values among the rows of a dimension."""
_FACT_TABLE_MARGIN = 0.9
"""A relation with at least this fraction of the fact table's rows may be the fact table instead."""


def detect_star(relations: Sequence[RelationStatistics], equalities: Sequence[Equality]) -> tuple[int, ...]:
    """Return the numbers of a fact table and its dimensions, or an empty tuple.

    A dimension is joined with the fact table by `=` on a unique column without nulls. There is no star if another
    relation is about as large as the fact table, with fewer than two dimensions, or if no dimension has a condition.
    """
    if len(relations) < 3:
        return ()
    by_size = sorted(range(len(relations)), key=lambda number: -relations[number].rows)
    fact, second = by_size[0], by_size[1]
    if relations[second].rows >= _FACT_TABLE_MARGIN * relations[fact].rows:
        return ()
    dimensions: list[int] = []
    for equality in equalities:
        for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
            is_new = one.relation == fact and other.relation not in (fact, *dimensions)
            if is_new and _is_unique(relations[other.relation], other.key):
                dimensions.append(other.relation)
    is_filtered = any(relations[number].filtered_rows < relations[number].rows for number in dimensions)
    return (fact, *dimensions) if len(dimensions) > 1 and is_filtered else ()


def star_first(star: Sequence[int]) -> Callable[[int], bool]:
    """Return a predicate on sets of relations that allows only trees that join the star before everything else.

    An empty star allows all trees.

    >>> is_allowed = star_first([0, 1])
    >>> [is_allowed(mask) for mask in (0b001, 0b011, 0b100, 0b101)]
    [True, True, True, False]
    """
    star_mask = sum(1 << number for number in star)
    return lambda mask: mask & star_mask in (0, star_mask) or mask | star_mask == star_mask


def _is_unique(relation: RelationStatistics, key: ColumnKey) -> bool:
    column = relation.columns.get(key)
    return column is not None and column.null_fraction == 0.0 and column.distinct >= _MIN_UNIQUENESS * relation.rows
