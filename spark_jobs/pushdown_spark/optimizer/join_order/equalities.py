"""Equalities between the relations of a chain: classes of equal columns, implied and redundant equalities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from sqlglot import exp

from pushdown_spark.optimizer.join_order.enumeration import bits
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.plans.logical_plan import (
    ChainTree,
    Conjunct,
    JoinChain,
    JoinKind,
    JoinNode,
    OrderedChain,
    column_equality,
    item_numbers,
    owner,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock

ColumnKey = tuple[str, str]
"""A column: the name of its relation and its own, both in lower case."""

_End = tuple[ColumnKey, exp.Column]
"""One side of an equality."""


@dataclass(frozen=True)
class JoinColumn:
    """A join key: a column, with the number of its relation."""

    relation: int
    key: ColumnKey


@dataclass(frozen=True)
class Equality:
    """`left = right` between columns of two relations."""

    left: JoinColumn
    right: JoinColumn


def equivalence_classes(equalities: Iterable[Equality]) -> tuple[tuple[JoinColumn, ...], ...]:
    """Return the classes of columns that equalities connect, directly or through other columns.

    >>> a, b, c = (JoinColumn(number, (name, "k")) for number, name in enumerate("abc"))
    >>> [[member.key[0] for member in group] for group in equivalence_classes([Equality(a, b), Equality(c, b)])]
    [['a', 'b', 'c']]
    """
    groups: list[set[JoinColumn]] = []
    for equality in equalities:
        union = {equality.left, equality.right}
        others = []
        for group in groups:
            if group & union:
                union |= group
            else:
                others.append(group)
        groups = [*others, union]
    return tuple(tuple(sorted(group, key=lambda member: (member.relation, member.key))) for group in groups)


class ChainEqualities:
    """The conditions `column = column` between two relations of a chain.

    `all` are the equalities. `classes` are the classes of columns that exact equalities connect.
    """

    def __init__(self, block: SelectBlock, chain: JoinChain, types: ColumnTypes) -> None:
        self._block = block
        self._chain = chain
        self._types = types
        conditions = [condition for condition in chain.conjuncts if condition.is_joinable]
        self.all: tuple[Equality, ...] = tuple(
            equality for condition in conditions if (equality := self.equality_of(condition)) is not None
        )
        self.classes: tuple[tuple[JoinColumn, ...], ...] = equivalence_classes(
            equality for condition in conditions if (equality := self._exact_equality_of(condition)) is not None
        )

    def mask_of(self, condition: Conjunct) -> int:
        """Return the set of items that a condition refers to, as a bit mask."""
        return sum(1 << number for number, item in enumerate(self._chain.items) if item.plan.names & condition.names)

    def equality_of(self, condition: Conjunct) -> Equality | None:
        """Return a condition as an equality, or None if it does not equate columns of two relations."""
        pair = column_equality(condition.node)
        if pair is None or self.mask_of(condition).bit_count() != 2:
            return None
        visible = {name: names for name, names in self._block.columns.items() if name not in self._block.hidden}
        left, right = (self._join_column(column, owner(column, visible)) for column in pair)
        return None if left is None or right is None else Equality(left, right)

    def _exact_equality_of(self, condition: Conjunct) -> Equality | None:
        """Return an equality of columns with identical values, so that it may be transferred to other columns."""
        pair = column_equality(condition.node)
        is_exact = pair is not None and self._types.is_exact_equality(*pair)
        return self.equality_of(condition) if is_exact else None

    def _join_column(self, column: exp.Column, name: str | None) -> JoinColumn | None:
        """Return a column of the relation with this name."""
        numbers = (number for number, item in enumerate(self._chain.items) if name in item.plan.names)
        return None if name is None else JoinColumn(next(numbers), (name, column.name.lower()))

    def edges(self, *, only_equalities: bool = False) -> list[int]:
        """Return for each item the items that a condition or an implied equality connects it with."""
        masks = [
            self.mask_of(condition)
            for condition in self._chain.conjuncts
            if condition.is_joinable and (isinstance(condition.node, exp.EQ) or not only_equalities)
        ]
        masks += [
            1 << one.relation | 1 << two.relation for group in self.classes for one, two in combinations(group, 2)
        ]
        edges = [0] * len(self._chain.items)
        for mask in masks:
            for number in bits(mask) if mask.bit_count() == 2 else ():
                edges[number] |= mask & ~(1 << number)
        return edges

    def column(self, key: ColumnKey) -> exp.Column:
        """Return a column as an expression."""
        return exp.column(key[1], table=self._block.relations[key[0]].alias_or_name, quoted=True)

    def with_implied(self, order: OrderedChain) -> OrderedChain:
        """Return the order with implied equalities in joins that would otherwise be cross products."""

        def complete(tree: ChainTree) -> ChainTree:
            if isinstance(tree, int):
                return tree
            node = replace(tree, left=complete(tree.left), right=complete(tree.right))
            has_equality = any(isinstance(conjunct.node, exp.EQ) for conjunct in node.conjuncts)
            equality = None if has_equality else self._implied_equality(node)
            return replace(node, kind=JoinKind.INNER, conjuncts=(equality, *node.conjuncts)) if equality else node

        return OrderedChain(complete(order.tree), order.above)

    def _implied_equality(self, node: JoinNode) -> Conjunct | None:
        """Return an equality between both sides of a join that follows from others, or None."""
        left_items, right_items = set(item_numbers(node.left)), set(item_numbers(node.right))
        for group in self.classes:
            left = next((member.key for member in group if member.relation in left_items), None)
            right = next((member.key for member in group if member.relation in right_items), None)
            if left is not None and right is not None:
                equality = exp.EQ(this=self.column(left), expression=self.column(right))
                return Conjunct(equality, frozenset({left[0], right[0]}))
        return None

    def remove_redundant(self, order: OrderedChain) -> OrderedChain:
        """Return the order without equalities that follow from others at the same join and below it.

        Given `a.t = b.t` below, a join drops one of `t.id = a.t AND t.id = b.t`. Of `t.id = a.x AND t.id = a.y`, the
        second becomes `a.x = a.y`. Spark 4.3.0 would otherwise hash both equal values as a composite key, whose hashes
        collide so often that building a hash table takes quadratic time.
        """
        equal_columns = _EqualColumns()

        def simplify(tree: ChainTree) -> ChainTree:
            if isinstance(tree, int):
                return tree
            left, right = simplify(tree.left), simplify(tree.right)
            conjuncts = tuple(self._without_redundant(tree.conjuncts, equal_columns))
            return replace(tree, left=left, right=right, conjuncts=conjuncts)

        return OrderedChain(simplify(order.tree), order.above)

    def _without_redundant(self, conditions: Sequence[Conjunct], equal_columns: _EqualColumns) -> Iterator[Conjunct]:
        """Yield the conditions of a join, given the columns that are equal already."""
        partners: dict[ColumnKey, list[_End]] = {}
        for condition in conditions:
            equality, pair = self._exact_equality_of(condition), column_equality(condition.node)
            if equality is None or pair is None:
                yield condition
            elif equal_columns.merge(equality.left.key, equality.right.key):
                left, right = (equality.left.key, pair[0]), (equality.right.key, pair[1])
                yield _within_one_side(left, right, partners) or _within_one_side(right, left, partners) or condition
                partners.setdefault(left[0], []).append(right)
                partners.setdefault(right[0], []).append(left)


class _EqualColumns:
    """A union-find structure of equal columns."""

    def __init__(self) -> None:
        self._parents: dict[ColumnKey, ColumnKey] = {}

    def merge(self, left: ColumnKey, right: ColumnKey) -> bool:
        """Register two columns as equal. Return whether this was unknown."""
        left_root, right_root = self._root(left), self._root(right)
        if left_root != right_root:
            self._parents[left_root] = right_root
        return left_root != right_root

    def _root(self, key: ColumnKey) -> ColumnKey:
        while key in self._parents:
            key = self._parents[key]
        return key


def _within_one_side(shared: _End, other: _End, partners: Mapping[ColumnKey, Sequence[_End]]) -> Conjunct | None:
    """Return `a.x = a.y` for `t.id = a.y` if `t.id = a.x` is a condition of the same join.

    `shared` is the end `t.id`, `other` the end `a.y`.
    """
    (relation, _), column = other
    for (partner_relation, _), partner in partners.get(shared[0], ()):
        if partner_relation == relation:
            return Conjunct(exp.EQ(this=partner.copy(), expression=column.copy()), frozenset({relation}))
    return None
