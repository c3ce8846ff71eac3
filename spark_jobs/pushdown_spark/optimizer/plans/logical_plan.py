"""The logical plan of one SELECT: relations, joins, filters and conjuncts, and chains of joins that may be reordered.

A chain is a sequence of inner and cross joins with the filters between them. It follows the rules of Spark's
`ExtractFiltersAndInnerJoins`: only the left side of a join is followed, so a join on the right side is one item of the
chain. A projection, an aggregate, an outer join or a hinted join ends the chain and is one item of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.predicate import is_deterministic
from pushdown_spark.optimizer.plans.sql_dialect import to_sql, truncation_unit


class JoinKind(StrEnum):
    """Kinds of joins. The values are SQL keywords."""

    INNER = "INNER"
    CROSS = "CROSS"
    LEFT = "LEFT OUTER"
    RIGHT = "RIGHT OUTER"
    FULL = "FULL OUTER"
    SEMI = "LEFT SEMI"
    ANTI = "LEFT ANTI"

    @property
    def is_inner(self) -> bool:
        """Whether the join returns exactly the pairs that satisfy its condition, so that its order is free."""
        return self in (JoinKind.INNER, JoinKind.CROSS)

    @property
    def preserves_left(self) -> bool:
        """Whether the join treats each left row independently, so that a filter on left rows may run before it."""
        return self in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


RelationColumns = Mapping[str, frozenset[str] | None]
"""Lower-case column names by relation; None where they are unknown."""


@dataclass(frozen=True)
class Conjunct:
    """One conjunct of a condition, and the names of the relations that it refers to.

    `names` is empty for conditions that stay where they are: those without columns, with columns of unknown origin,
    with sub-queries, and nondeterministic ones.
    """

    node: exp.Expr
    names: frozenset[str] = frozenset()

    @property
    def is_joinable(self) -> bool:
        """Whether a join may evaluate the conjunct."""
        return bool(self.names)

    @cached_property
    def sql(self) -> str:
        """The conjunct as Spark SQL."""
        return to_sql(self.node)


@dataclass(frozen=True)
class RelationLeaf:
    """A table or sub-query. `name` qualifies its columns."""

    name: str

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return frozenset({self.name})


@dataclass(frozen=True)
class Project:
    """A projection or an aggregate. Joins above and below it do not form one chain."""

    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.child.names


@dataclass(frozen=True)
class Filter:
    """Conjuncts over a plan."""

    conjuncts: tuple[Conjunct, ...]
    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.child.names


@dataclass(frozen=True)
class Join:
    """A join of two plans.

    `has_hint` means that the query has a hint for this join. `syntax` is the join in the query, if it is from there.
    """

    left: Plan
    right: Plan
    kind: JoinKind = JoinKind.INNER
    conjuncts: tuple[Conjunct, ...] = ()
    has_hint: bool = False
    syntax: exp.Join | None = field(default=None, compare=False)

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.left.names | self.right.names

    @property
    def is_chainable(self) -> bool:
        """Whether the join may be part of a chain."""
        return self.kind.is_inner and not self.has_hint


Plan = RelationLeaf | Project | Filter | Join


@dataclass(frozen=True)
class ChainItem:
    """An item of a chain, and the kind of the join that added it. The first item has the kind of the join above it."""

    plan: Plan
    kind: JoinKind


@dataclass(frozen=True)
class JoinChain:
    """A chain of joins: its items from left to right, and all conjuncts between and above them."""

    items: tuple[ChainItem, ...]
    conjuncts: tuple[Conjunct, ...]


@dataclass(frozen=True)
class JoinNode:
    """A join in a join tree over a chain. Each side is a join, or the number of an item of the chain."""

    left: ChainTree
    right: ChainTree
    kind: JoinKind = JoinKind.INNER
    conjuncts: tuple[Conjunct, ...] = ()


ChainTree = int | JoinNode


@dataclass(frozen=True)
class OrderedChain:
    """A join tree over a chain, and the conjuncts of the filter above it."""

    tree: ChainTree
    above: tuple[Conjunct, ...] = ()


def extract_chain(plan: Plan) -> JoinChain | None:
    """Return the chain at the top of a plan, or None if the plan is neither a join nor a filter over a join."""
    top = plan.child if isinstance(plan, Filter) else plan
    return flatten(plan) if isinstance(top, Join) and top.is_chainable else None


def flatten(plan: Plan, kind: JoinKind = JoinKind.INNER) -> JoinChain:
    """Flatten a plan into a chain. A plan that does not start a chain becomes a chain of one item of this kind.

    >>> chain = flatten(Join(Join(RelationLeaf("a"), RelationLeaf("b")), Join(RelationLeaf("c"), RelationLeaf("d"))))
    >>> [sorted(item.plan.names) for item in chain.items]
    [['a'], ['b'], ['c', 'd']]
    """
    if isinstance(plan, Join) and plan.is_chainable:
        left = flatten(plan.left, plan.kind)
        return JoinChain((*left.items, ChainItem(plan.right, plan.kind)), (*left.conjuncts, *plan.conjuncts))
    if isinstance(plan, Filter) and isinstance(plan.child, Join) and plan.child.is_chainable:
        below = flatten(plan.child)
        return JoinChain(below.items, (*below.conjuncts, *plan.conjuncts))
    return JoinChain((ChainItem(plan, kind),), ())


def item_numbers(tree: ChainTree) -> tuple[int, ...]:
    """Return the item numbers of a join tree from left to right."""
    return (tree,) if isinstance(tree, int) else (*item_numbers(tree.left), *item_numbers(tree.right))


def relation_names(tree: ChainTree, items: Sequence[ChainItem]) -> frozenset[str]:
    """Return the names of all relations of a join tree."""
    return frozenset[str]().union(*(items[number].plan.names for number in item_numbers(tree)))


def split_by_relations(
    conditions: Iterable[Conjunct], names: frozenset[str]
) -> tuple[tuple[Conjunct, ...], tuple[Conjunct, ...]]:
    """Split conjuncts into those that these relations suffice for, and the others."""
    conditions = tuple(conditions)
    return (
        tuple(condition for condition in conditions if condition.names <= names),
        tuple(condition for condition in conditions if not condition.names <= names),
    )


def attach_conjuncts(tree: ChainTree, items: Sequence[ChainItem], conditions: Iterable[Conjunct]) -> OrderedChain:
    """Attach each conjunct to the lowest join that has all its relations.

    Conjuncts on a single relation stay above the tree, as do those that no join can evaluate.
    """
    conditions = tuple(conditions)
    above = [conjunct for conjunct in conditions if not conjunct.is_joinable]
    pending = tuple(conjunct for conjunct in conditions if conjunct.is_joinable)

    def attach(node: ChainTree) -> ChainTree:
        nonlocal pending
        if isinstance(node, int):
            single, pending = split_by_relations(pending, items[node].plan.names)
            above.extend(single)
            return node
        left, right = attach(node.left), attach(node.right)
        own, pending = split_by_relations(pending, relation_names(node, items))
        return JoinNode(left, right, JoinKind.INNER if own else JoinKind.CROSS, own)

    complete_tree = attach(tree)
    return OrderedChain(complete_tree, (*above, *pending))


def heuristic_order(chain: JoinChain) -> OrderedChain:
    """Return the order of Spark's joins of a chain without statistics.

    Two relations keep their order. With more, the first relation is joined with the first relation that a condition
    connects it with, or with the next one if there is none. Their join is then the first relation. A condition belongs
    to the first join that has all its relations. Conditions that no join can evaluate stay above.
    Raises ValueError for fewer than two relations.

    >>> import sqlglot

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
    kind, others = items[0].kind, list(range(1, len(items)))
    while len(others) > 1:
        number = _next_relation(tree, others, items, conditions)
        others.remove(number)
        own, conditions = split_by_relations(conditions, relation_names(tree, items) | items[number].plan.names)
        tree = JoinNode(tree, number, items[number].kind, own)
        kind = JoinKind.INNER
    last = others[0]
    own, conditions = split_by_relations(conditions, relation_names(tree, items) | items[last].plan.names)
    is_inner = kind is JoinKind.INNER and items[last].kind is JoinKind.INNER
    return OrderedChain(
        JoinNode(tree, last, JoinKind.INNER if is_inner else JoinKind.CROSS, own), (*conditions, *above)
    )


def _next_relation(
    tree: ChainTree, candidates: Sequence[int], items: Sequence[ChainItem], conditions: Sequence[Conjunct]
) -> int:
    """Return the first remaining relation that a condition connects with a tree, or else the first remaining one."""
    tree_names = relation_names(tree, items)
    for number in candidates:
        names = items[number].plan.names
        if any(
            condition.names <= tree_names | names and not condition.names <= tree_names and not condition.names <= names
            for condition in conditions
        ):
            return number
    return candidates[0]


def owner(column: exp.Expr, columns: RelationColumns) -> str | None:
    """Return the relation that a column belongs to, or None if that is uncertain.

    As in Spark, a first name part that is the name of a relation refers to that relation. An unqualified column belongs
    to the only relation that has it, provided that the columns of all relations are known.

    >>> columns = {"a": frozenset({"x", "y"}), "b": frozenset({"y"})}
    >>> [owner(exp.column(name), columns) for name in ("x", "y")]
    ['a', None]
    """
    parts = [part.name.lower() for part in column.parts] if isinstance(column, exp.Column) else []
    if len(parts) > 1 and parts[0] in columns:
        names = columns[parts[0]]
        return parts[0] if names is None or parts[1] in names else None
    if not parts or any(names is None for names in columns.values()):
        return None
    candidates = [relation for relation, names in columns.items() if names is not None and parts[0] in names]
    return candidates[0] if len(candidates) == 1 else None


def conjunct_of(node: exp.Expr, columns: RelationColumns) -> Conjunct:
    """Return a condition with the relations that it refers to."""
    nodes = list(node.walk())
    owners = [owner(column, columns) for column in nodes if isinstance(column, exp.Column)]
    stays = (
        any(isinstance(part, exp.Query | exp.Exists | exp.Window | exp.Lambda | exp.Star) for part in nodes)
        or not is_deterministic(node)
        or any(
            not isinstance(truncation_unit(part), exp.Literal) for part in nodes if isinstance(part, exp.TimestampTrunc)
        )
        or None in owners
    )
    return Conjunct(node) if stays else Conjunct(node, frozenset(name for name in owners if name is not None))


def factor_common_conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Return conditions whose conjunction is this condition, with the common conjuncts of an OR in front.

    A common equality can then connect relations. Spark's `BooleanSimplification` does the same before it orders joins.

    >>> import sqlglot
    >>> condition = sqlglot.condition("(a.k = b.k AND p = 1) OR (q = 2 AND a.k = b.k)")
    >>> [part.sql() for part in factor_common_conjuncts(condition)]
    ['a.k = b.k', 'p = 1 OR q = 2']
    >>> [part.sql() for part in factor_common_conjuncts(sqlglot.condition("(k = 1 AND p = 1) OR k = 1"))]
    ['k = 1']
    """
    condition = condition.unnest()
    if not isinstance(condition, exp.Or):
        return [condition]
    alternatives = [conjuncts(alternative) for alternative in condition.flatten()]
    common = [part for part in dict.fromkeys(alternatives[0]) if all(part in other for other in alternatives[1:])]
    if not common:
        return [condition]
    rest = [[part for part in alternative if part not in common] for alternative in alternatives]
    return common if [] in rest else [*common, exp.or_(*(exp.and_(*parts) for parts in rest))]


def column_equality(node: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    """Return the columns of `a.k = b.k`, or None for any other condition.

    >>> import sqlglot
    >>> [column.sql() for column in column_equality(sqlglot.condition("a.k = (b.k)"))]
    ['a.k', 'b.k']
    """
    if isinstance(node, exp.EQ):
        left, right = node.left.unnest(), node.right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            return left, right
    return None
