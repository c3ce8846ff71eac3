"""Flattens consecutive inner and cross joins with the filters between them into relations and conjuncts.

The rules are those of Spark's `ExtractFiltersAndInnerJoins`: only the left spine is followed, so that a join on the
right is one relation; a projection, an aggregate, an outer join or a hinted join ends the chain and is one relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp


class JoinKind(StrEnum):
    """Kinds of joins, by the words that SQL has for them."""

    INNER = "INNER"
    CROSS = "CROSS"
    LEFT = "LEFT OUTER"
    RIGHT = "RIGHT OUTER"
    FULL = "FULL OUTER"
    SEMI = "LEFT SEMI"
    ANTI = "LEFT ANTI"

    @property
    def is_inner(self) -> bool:
        """Whether the join keeps exactly the pairs that satisfy its condition, so that its order is free."""
        return self in (JoinKind.INNER, JoinKind.CROSS)

    @property
    def keeps_left(self) -> bool:
        """Whether the join looks at each row of its left side by itself: what chooses among these may do so before."""
        return self in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Conjunct:
    """One part of a condition, and the names of the relations that it refers to.

    `movable` is false for what must stay where it is: nondeterministic conditions, those with sub-queries, and those
    that no join can evaluate. A condition without references stays as well.
    """

    node: exp.Expr
    names: frozenset[str]
    movable: bool = True

    @property
    def joinable(self) -> bool:
        """Whether a join may take the condition over."""
        return self.movable and bool(self.names)


@dataclass(frozen=True)
class Leaf:
    """A relation that is no join: a table, a sub-query; `name` is what columns are qualified with."""

    name: str

    @property
    def names(self) -> frozenset[str]:
        """The names that columns of the plan may be qualified with."""
        return frozenset({self.name})


@dataclass(frozen=True)
class Project:
    """A projection or an aggregate: what is below keeps its names, but joins on both sides are not consecutive."""

    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names that columns of the plan may be qualified with."""
        return self.child.names


@dataclass(frozen=True)
class Filter:
    """Conditions over a plan."""

    conjuncts: tuple[Conjunct, ...]
    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names that columns of the plan may be qualified with."""
        return self.child.names


@dataclass(frozen=True)
class Join:
    """Two plans joined; `hinted` says that the query tells Spark how to join them."""

    left: Plan
    right: Plan
    kind: JoinKind = JoinKind.INNER
    conjuncts: tuple[Conjunct, ...] = ()
    hinted: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names that columns of the plan may be qualified with."""
        return self.left.names | self.right.names

    @property
    def is_consecutive(self) -> bool:
        """Whether the join may be one of a chain."""
        return self.kind.is_inner and not self.hinted


Plan = Leaf | Project | Filter | Join


@dataclass(frozen=True)
class Item:
    """A relation of a chain, and the kind of the join that brought it in (of the first: of the join above it)."""

    plan: Plan
    kind: JoinKind


@dataclass(frozen=True)
class Chain:
    """A chain of joins: its relations from left to right, and all conditions between and above them."""

    items: tuple[Item, ...]
    conjuncts: tuple[Conjunct, ...]


@dataclass(frozen=True)
class Pair:
    """A join of an ordered chain. Both sides are pairs, or relations by their places in the chain."""

    left: Tree
    right: Tree
    kind: JoinKind
    conjuncts: tuple[Conjunct, ...] = ()


Tree = int | Pair


@dataclass(frozen=True)
class Ordered:
    """A chain in an order, and the conditions that stay in a filter above it."""

    tree: Tree
    above: tuple[Conjunct, ...] = ()


def extract(plan: Plan) -> Chain | None:
    """The chain that starts at a plan, or None where there is none: the plan is neither a join nor a filter on one."""
    joined = plan.child if isinstance(plan, Filter) else plan
    return flatten(plan) if isinstance(joined, Join) and joined.is_consecutive else None


def flatten(plan: Plan, kind: JoinKind = JoinKind.INNER) -> Chain:
    """Flatten a plan; one that starts no chain is a chain of one relation, brought in by `kind`."""
    if isinstance(plan, Join) and plan.is_consecutive:
        left = flatten(plan.left, plan.kind)
        return Chain((*left.items, Item(plan.right, plan.kind)), (*left.conjuncts, *plan.conjuncts))
    if isinstance(plan, Filter) and isinstance(plan.child, Join) and plan.child.is_consecutive:
        below = flatten(plan.child)
        return Chain(below.items, (*below.conjuncts, *plan.conjuncts))
    return Chain((Item(plan, kind),), ())


def places(tree: Tree) -> tuple[int, ...]:
    """The relations of a tree from left to right, by their places in the chain."""
    return (tree,) if isinstance(tree, int) else (*places(tree.left), *places(tree.right))


def names_at(tree: Tree, items: Sequence[Item]) -> frozenset[str]:
    """The names of all relations of a tree."""
    return frozenset[str]().union(*(items[place].plan.names for place in places(tree)))


def attached(tree: Tree, items: Sequence[Item], conjuncts: Iterable[Conjunct]) -> Ordered:
    """The tree with each condition at the lowest join that has all its relations, the others above it.

    Conditions on a single relation stay above as well: they are Spark's to push down, and no join's.
    """
    waiting = list(conjuncts)
    above = [conjunct for conjunct in waiting if not conjunct.joinable]
    waiting = [conjunct for conjunct in waiting if conjunct.joinable]

    def placed(node: Tree) -> Tree:
        if isinstance(node, int):
            own = items[node].plan.names
            above.extend(conjunct for conjunct in waiting if conjunct.names <= own)
            waiting[:] = [conjunct for conjunct in waiting if not conjunct.names <= own]
            return node
        left, right = placed(node.left), placed(node.right)
        names = names_at(node, items)
        taken = tuple(conjunct for conjunct in waiting if conjunct.names <= names)
        waiting[:] = [conjunct for conjunct in waiting if not conjunct.names <= names]
        return Pair(left, right, JoinKind.INNER if taken else JoinKind.CROSS, taken)

    done = placed(tree)
    return Ordered(done, (*above, *waiting))
