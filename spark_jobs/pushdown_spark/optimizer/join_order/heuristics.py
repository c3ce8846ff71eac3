"""Join orders by rules: the order of Spark's `ReorderJoin`, and the detection of star schemas.

Star schemas are detected by the rules of Spark's `StarSchemaDetection`. The order inside of a star follows the
estimates, because ordering dimensions by size alone can cost far more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pushdown_spark.optimizer.logical_plan import (
    ChainItem,
    ChainTree,
    Conjunct,
    JoinChain,
    JoinKind,
    JoinNode,
    OrderedChain,
    relation_names,
    split_by_relations,
)
from pushdown_spark.optimizer.statistics.relation_statistics import ColumnKey, Equality, RelationStatistics

_MIN_UNIQUENESS = 0.95
"""Share of distinct values among the rows of a dimension that its key must have at least."""
_FACT_TABLE_MARGIN = 0.9
"""Share of the fact table's rows from which on another relation may be the fact table as well."""


def heuristic_order(chain: JoinChain) -> OrderedChain:
    """Return the order in which Spark joins a chain without statistics.

    Two relations keep their order. With more, the first relation is joined with the first relation that a condition
    connects it with, or with the next one if there is none. Their join is then the first relation. A condition belongs
    to the first join that has all its relations. Conditions that no join can evaluate stay above.
    Raises ValueError for fewer than two relations.

    >>> import sqlglot
    >>> from pushdown_spark.optimizer.logical_plan import RelationLeaf, item_numbers
    >>> condition = Conjunct(sqlglot.condition("a.k = c.k"), frozenset({"a", "c"}))
    >>> items = tuple(ChainItem(RelationLeaf(name), JoinKind.INNER) for name in "abc")
    >>> item_numbers(heuristic_order(JoinChain(items, (condition,))).tree)
    (0, 2, 1)
    """
    items = chain.items
    if len(items) < 2:
        raise ValueError("a chain has at least two relations")
    above = tuple(conjunct for conjunct in chain.conjuncts if not conjunct.is_joinable)
    conditions = tuple(conjunct for conjunct in chain.conjuncts if conjunct.is_joinable)
    tree: ChainTree = 0
    kind, remaining = items[0].kind, list(range(1, len(items)))
    while len(remaining) > 1:
        number = _next_relation(tree, remaining, items, conditions)
        remaining.remove(number)
        own, conditions = split_by_relations(conditions, relation_names(tree, items) | items[number].plan.names)
        tree = JoinNode(tree, number, items[number].kind, own)
        kind = JoinKind.INNER
    last = remaining[0]
    own, conditions = split_by_relations(conditions, relation_names(tree, items) | items[last].plan.names)
    is_inner = kind is JoinKind.INNER and items[last].kind is JoinKind.INNER
    return OrderedChain(
        JoinNode(tree, last, JoinKind.INNER if is_inner else JoinKind.CROSS, own), (*conditions, *above)
    )


def _next_relation(
    tree: ChainTree, remaining: Sequence[int], items: Sequence[ChainItem], conditions: Sequence[Conjunct]
) -> int:
    """Return the first remaining relation that a condition connects with a tree, or else the first remaining one."""
    joined = relation_names(tree, items)
    for number in remaining:
        names = items[number].plan.names
        if any(
            condition.names <= joined | names and not condition.names <= joined and not condition.names <= names
            for condition in conditions
        ):
            return number
    return remaining[0]


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
        keys = {equality.left: equality.left_key, equality.right: equality.right_key}
        other = next((number for number in keys if number != fact), fact)
        if fact in keys and other not in (fact, *dimensions) and _is_unique(relations[other], keys[other]):
            dimensions.append(other)
    is_filtered = any(relations[number].filtered_rows < relations[number].rows for number in dimensions)
    return (fact, *dimensions) if len(dimensions) > 1 and is_filtered else ()


def star_first(star: Sequence[int]) -> Callable[[int], bool]:
    """Return a predicate on sets of relations that allows only trees that join the star before everything else.

    An empty star allows all trees.

    >>> is_allowed = star_first([0, 1])
    >>> [is_allowed(mask) for mask in (0b001, 0b011, 0b100, 0b101)]
    [True, True, True, False]
    """
    whole = sum(1 << number for number in star)
    return lambda mask: mask & whole in (0, whole) or mask | whole == whole


def _is_unique(relation: RelationStatistics, key: ColumnKey) -> bool:
    column = relation.columns.get(key)
    return column is not None and column.null_share == 0.0 and column.distinct >= _MIN_UNIQUENESS * relation.rows
