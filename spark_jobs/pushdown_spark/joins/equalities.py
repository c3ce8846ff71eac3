"""Equalities between the relations of a chain: what follows from them, and which of them say nothing new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from pushdown_spark.joins.block import Block, owner
from pushdown_spark.joins.cardinality import Equality, Key, Member, equal_columns
from pushdown_spark.joins.graph import Chain, Conjunct, Ordered, Tree
from pushdown_spark.joins.push import Types, column_equality


class Equalities:
    """The conditions `column = column` of a chain between two of its relations.

    `all` are the equalities; `classes` are columns that are equal, directly or through others, of which only those
    count whose values are equal only if they are the same.
    """

    def __init__(self, block: Block, chain: Chain, types: Types) -> None:
        self._block = block
        self._chain = chain
        self._types = types
        conditions = [condition for condition in chain.conjuncts if condition.joinable]
        self.all: tuple[Equality, ...] = tuple(found for each in conditions if (found := self.of(each)) is not None)
        self.classes: tuple[tuple[Member, ...], ...] = equal_columns(
            found for each in conditions if (found := self._carrying(each)) is not None
        )

    def relations(self, condition: Conjunct) -> int:
        """The relations that a condition refers to, as a bit mask of their places in the chain."""
        return sum(1 << number for number, item in enumerate(self._chain.items) if item.plan.names & condition.names)

    def of(self, condition: Conjunct) -> Equality | None:
        """What a condition equates, None where it is no equality between columns of two relations."""
        pair = column_equality(condition.node)
        if pair is None or self.relations(condition).bit_count() != 2:
            return None
        visible = {name: known for name, known in self._block.columns.items() if name not in self._block.hidden}
        owners = [owner(column, visible) for column in pair]
        if None in owners:
            return None
        keys: list[Key] = [(name or "", column.name.lower()) for name, column in zip(owners, pair, strict=True)]
        numbers = [self._number(key[0]) for key in keys]
        return Equality(numbers[0], keys[0], numbers[1], keys[1])

    def without_repeated(self, ordered: Ordered) -> Ordered:
        """The order in which no join has a key twice.

        Of `t.id = a.t AND t.id = b.t`, behind `a.t = b.t`, one is left out: it follows from others at the same join and
        below it. Of `t.id = a.x AND t.id = a.y` one becomes `a.x = a.y`. Else Spark 4.3 makes a key of two parts of
        both, whose hashes lie so close together that a table of half a million takes a minute to build.
        """
        known = _Known()

        def spared(tree: Tree) -> Tree:
            if isinstance(tree, int):
                return tree
            left, right = spared(tree.left), spared(tree.right)
            return replace(tree, left=left, right=right, conjuncts=tuple(self._said_once(tree.conjuncts, known)))

        return Ordered(spared(ordered.tree), ordered.above)

    def _said_once(self, conditions: Sequence[Conjunct], known: _Known) -> Iterator[Conjunct]:
        """The conditions of a join, with what is `known` below it."""
        partners: dict[Key, list[_End]] = {}
        for condition in conditions:
            found, pair = self._carrying(condition), column_equality(condition.node)
            if found is None or pair is None:
                yield condition
            elif known.is_new(found.left_key, found.right_key):
                ends = (found.left_key, pair[0]), (found.right_key, pair[1])
                yield _beside(ends, partners) or _beside(ends[::-1], partners) or condition
                for (key, _), other in (ends, ends[::-1]):
                    partners.setdefault(key, []).append(other)

    def _carrying(self, condition: Conjunct) -> Equality | None:
        """An equality through which others follow: what is equal to one of its columns is equal to the other."""
        pair = column_equality(condition.node)
        return self.of(condition) if pair is not None and self._types.spelt_once(*pair) else None

    def _number(self, name: str) -> int:
        return next(number for number, item in enumerate(self._chain.items) if name in item.plan.names)


class _Known:
    """Columns that are known to be equal."""

    def __init__(self) -> None:
        self._merged: dict[Key, Key] = {}

    def is_new(self, left: Key, right: Key) -> bool:
        """Whether nobody has said so far that two columns are equal; it has been said then."""
        ends = self._first(left), self._first(right)
        if ends[0] != ends[1]:
            self._merged[ends[0]] = ends[1]
        return ends[0] != ends[1]

    def _first(self, key: Key) -> Key:
        while key in self._merged:
            key = self._merged[key]
        return key


_End = tuple[Key, exp.Column]
"""One side of an equality."""


def _beside(ends: tuple[_End, _End], partners: Mapping[Key, Sequence[_End]]) -> Conjunct | None:
    """For `t.id = a.y` the condition `a.x = a.y`, where `a.x` is one of the `partners` of `t.id`."""
    (key, _), ((relation, _), column) = ends
    for (other, _), partner in partners.get(key, ()):
        if other == relation:
            return Conjunct(exp.EQ(this=partner.copy(), expression=column.copy()), frozenset({relation}))
    return None
