"""Chooses the order of one chain of joins by what is known of its relations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport, JoinTree
from pushdown_spark.joins.block import Block
from pushdown_spark.joins.broadcast import is_small
from pushdown_spark.joins.cardinality import Estimate, Key, Member, RelationFigures, Selective, share_kept
from pushdown_spark.joins.equalities import Equalities
from pushdown_spark.joins.graph import (
    Chain,
    Conjunct,
    Item,
    Join,
    JoinKind,
    Leaf,
    Ordered,
    Pair,
    Plan,
    Tree,
    attached,
    places,
)
from pushdown_spark.joins.hints import takes_hints
from pushdown_spark.joins.implied import implied
from pushdown_spark.joins.known_keys import KnownKeys
from pushdown_spark.joins.leaving import Leaving
from pushdown_spark.joins.order import Branch, CostModel, Shape, are_adjacent, bits, cheapest, components, mask_of
from pushdown_spark.joins.push import Types
from pushdown_spark.joins.star import around, star
from pushdown_spark.joins.text import written

_GAIN = 0.9
"""Another order is taken where it promises at most this share of the rows."""
_WAITING = 500_000.0
"""Rows that a processor joins while Spark runs a stage of hardly any: found by orders of TPC-H and TPC-DS."""

Figures = Callable[[Block, str, Sequence[exp.Expr]], RelationFigures | None]
"""Figures of a relation of a block, by its name, with more conditions than the block's; None where nothing is known."""


@dataclass(frozen=True)
class Setting:
    """What the choice depends on besides the query: options, figures, types, bytes that may be broadcast, ANSI mode.

    Relations in files of up to `small_files` bytes Spark broadcasts by itself. `hints_joins` tells that what comes out
    of joins can be hinted too, and `lists_keys` that keys seen in files may become conditions. `idle` says why nothing
    is to be analysed, if that is so; where the written order compares all rows of two sides, it is. `processors` are
    those that Spark runs tasks on.
    """

    options: JoinOptions
    figures: Figures
    types: Callable[[Block], Types]
    broadcast_bytes: int
    ansi: bool = True
    small_files: int = 0
    idle: str | None = None
    hints_joins: bool = False
    lists_keys: bool = False
    processors: int = 1


@dataclass(frozen=True)
class Choice:
    """The order to run a chain in, the sets of relations that are to be broadcast once they are joined, the report.

    `restates` tells that conditions are left out which say nothing new, or added which follow from the files.
    """

    after: Ordered
    broadcast: frozenset[frozenset[str]]
    report: JoinReport
    restates: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything is to be written anew."""
        return self.report.reordered or bool(self.broadcast) or self.restates

    @property
    def hinted(self) -> frozenset[str]:
        """The relations that are broadcast by themselves."""
        return frozenset(name for names in self.broadcast if len(names) == 1 for name in names)

    @property
    def joined(self) -> frozenset[frozenset[str]]:
        """The sets of several."""
        return frozenset(names for names in self.broadcast if len(names) > 1)


class Chooser:
    """The choice for one chain."""

    def __init__(
        self,
        block: Block,
        chain: Chain,
        equalities: Equalities,
        relations: Sequence[RelationFigures],
        setting: Setting,
        keys: Sequence[KnownKeys] = (),
    ) -> None:
        """`keys` are conditions that the query is to have besides its own; `relations` are as they leave them."""
        self._block = block
        self._chain = chain
        self._setting = setting
        conditions = [condition for condition in chain.conjuncts if condition.joinable]
        self._equalities = equalities
        classes = equalities.classes
        self._relations = relations
        self._keys = keys
        distinct = {key: known.distinct for figures in relations for key, known in figures.columns.items()}
        others = [
            Selective(self._mask(each), self._share(each, distinct))
            for each in conditions
            if self._mask(each).bit_count() > 1 and self._equalities.of(each) is None
        ]
        self._hints_joins = setting.hints_joins and takes_hints(block.select)
        leaving = Leaving(block, chain, classes).columns if self._hints_joins else None
        self.estimate = Estimate(relations, self._equalities.all, others, leaving)
        self._small: dict[int, bool] = {}

    def choice(self, before: Ordered, started: float) -> Choice:
        """The cheapest order if it is worth it."""
        equal = self._equal_edges()
        model = CostModel(
            self.estimate.rows,
            self._is_broadcast,
            lambda left, right: are_adjacent(left, right, equal),
            _WAITING * self._setting.processors,
        )
        stars = star(self._relations, self._equalities.all) if self._setting.options.star_schema else ()
        edges = self._edges(equal)
        is_connected = len(components(edges)) == 1
        found = cheapest(
            edges,
            model,
            threshold=self._setting.options.dp_threshold,
            allowed=around(stars) if stars and is_connected else None,
        )
        moved, as_written = replace(model, waiting=0.0), _shape(before.tree)
        old, new = moved.cost(as_written), moved.cost(found.shape)
        is_cheaper = new < _GAIN * old and found.cost < model.cost(as_written)
        is_better = len(self._chain.items) > 2 and is_cheaper
        tree = _tree(self._oriented(found.shape)) if is_better else before.tree
        whole = self._with_implied(attached(tree, self._chain.items, self._chain.conjuncts))
        spared = self._equalities.without_repeated(whole)
        after = replace(spared, above=(*spared.above, *self._conditions_on_keys()))
        broadcast = self._broadcast(after.tree, model)
        rows = f"about {new if is_better else old:,.0f} rows joined or moved"
        rows += f" instead of {old:,.0f}" if is_better else ", no order is much better"
        report = JoinReport(
            before=tree_report(before.tree, self._chain.items, self.estimate.rows, ()),
            after=tree_report(after.tree, self._chain.items, self.estimate.rows, broadcast),
            reason="; ".join([rows, *map(self._told, self._keys)]),
            reordered=is_better,
            method=found.method,
            star=tuple(label(self._chain.items[number].plan) for number in stars),
            seconds=round(time.perf_counter() - started, 3),
        )
        return Choice(after, broadcast, report, restates=after != whole)

    def _conditions_on_keys(self) -> list[Conjunct]:
        """What is known of keys, said of all columns that are equal: Spark carries it to the next one alone."""
        return [
            Conjunct(keys.condition(self._column(member.key)), frozenset({member.key[0]}))
            for keys in self._keys
            for member in keys.equal
        ]

    @staticmethod
    def _told(keys: KnownKeys) -> str:
        relation, column = keys.member.key
        return f"{keys.count:,} of {keys.whole:,} values of {column} in {relation} became a condition"

    def _share(self, condition: Conjunct, distinct: Mapping[Key, float]) -> float:
        """A guess at what a condition over several relations keeps of rows that meet what it implies for each."""
        before = (share_kept(part.node, distinct) for part in implied(condition, self._block.columns))
        return min(share_kept(condition.node, distinct) / max(math.prod(before), 1e-9), 1.0)

    def _mask(self, condition: Conjunct) -> int:
        return self._equalities.relations(condition)

    def _equal_edges(self) -> list[int]:
        """Which items equalities connect, also implied ones."""
        edges = [0] * len(self._chain.items)
        for each in self._chain.conjuncts:
            if each.joinable and isinstance(each.node, exp.EQ) and self._mask(each).bit_count() == 2:
                _connect(edges, self._mask(each))
        for group in self._equalities.classes:
            for one in group:
                for two in group:
                    if one.relation != two.relation:
                        _connect(edges, 1 << one.relation | 1 << two.relation)
        return edges

    def _edges(self, equal: Sequence[int]) -> list[int]:
        """Which items are connected: by equalities, or by other conditions over two of them."""
        edges = list(equal)
        for each in self._chain.conjuncts:
            if each.joinable and self._mask(each).bit_count() == 2:
                _connect(edges, self._mask(each))
        return edges

    def _oriented(self, shape: Shape) -> Shape:
        """Larger sides on the left, and single relations on the right of joins: the sides that Spark builds from."""
        if isinstance(shape, int):
            return shape
        left, right = self._oriented(shape.left), self._oriented(shape.right)
        if isinstance(left, int) is isinstance(right, int):
            swap = self.estimate.rows(mask_of(left)) < self.estimate.rows(mask_of(right))
        else:
            swap = isinstance(left, int)
        return Branch(right, left) if swap else Branch(left, right)

    def _with_implied(self, ordered: Ordered) -> Ordered:
        """Write implied equalities into joins that only these connect: else they would be cross products."""

        def filled(tree: Tree) -> Tree:
            if isinstance(tree, int):
                return tree
            pair = replace(tree, left=filled(tree.left), right=filled(tree.right))
            if any(isinstance(conjunct.node, exp.EQ) for conjunct in pair.conjuncts):
                return pair
            sides = set(places(pair.left)), set(places(pair.right))
            for group in self._equalities.classes:
                left = next((member for member in group if member.relation in sides[0]), None)
                right = next((member for member in group if member.relation in sides[1]), None)
                if left is not None and right is not None:
                    conjuncts = (self._equal(left, right), *pair.conjuncts)
                    return replace(pair, kind=JoinKind.INNER, conjuncts=conjuncts)
            return pair

        return Ordered(filled(ordered.tree), ordered.above)

    def _equal(self, left: Member, right: Member) -> Conjunct:
        columns = [self._column(key) for key in (left.key, right.key)]
        return Conjunct(exp.EQ(this=columns[0], expression=columns[1]), frozenset({left.key[0], right.key[0]}))

    def _column(self, key: Key) -> exp.Column:
        return exp.column(key[1], table=self._block.relations[key[0]].alias_or_name, quoted=True)

    def _broadcast(self, tree: Tree, model: CostModel) -> frozenset[frozenset[str]]:
        """Relations, and sets whose joins, are the smaller side of a join and provably small enough for a hint.

        None of a set where Spark sends the relation on the other side by itself, and need not wait for it.
        """
        if isinstance(tree, int):
            return frozenset()
        found = self._broadcast(tree.left, model) | self._broadcast(tree.right, model)
        small, other = sorted((mask_of(_shape(side)) for side in (tree.left, tree.right)), key=self.estimate.rows)
        is_spared = self._has_few_bytes(other) and model.sent(other) < model.sent(small)
        is_hashed = any(isinstance(conjunct.node, exp.EQ) for conjunct in tree.conjuncts)
        if is_spared or not is_hashed or not self._may_hint(small):
            return found
        return found | {frozenset(name for number in bits(small) for name in self._chain.items[number].plan.names)}

    def _may_hint(self, mask: int) -> bool:
        """Whether a side of a join may be hinted."""
        if mask.bit_count() > 1:
            return self._may_hint_joined(mask)
        return self._is_relation(mask) and self._is_small(mask)

    def _is_broadcast(self, mask: int) -> bool:
        """Whether Spark broadcasts a set: what is hinted, or one relation that is small by its files."""
        return self._has_few_bytes(mask) or self._may_hint(mask)

    def _is_relation(self, mask: int) -> bool:
        """Whether a set is one relation, and not joins that end the chain."""
        return mask.bit_count() == 1 and isinstance(self._chain.items[mask.bit_length() - 1].plan, Leaf)

    def _has_few_bytes(self, mask: int) -> bool:
        """Whether a set is one relation whose files Spark takes for small enough by itself."""
        if not self._is_relation(mask):
            return False
        stored = self._relations[mask.bit_length() - 1].stored
        return stored is not None and stored <= self._setting.small_files

    def _is_table(self, plan: Plan) -> bool:
        """Whether an item is a table by its name, which Spark's plan of the query then has as well."""
        return isinstance(plan, Leaf) and self._block.is_table(plan.name)

    def _may_hint_joined(self, mask: int) -> bool:
        if not self._hints_joins or not all(self._is_table(self._chain.items[number].plan) for number in bits(mask)):
            return False
        return self._is_small(mask)

    def _is_small(self, mask: int) -> bool:
        """Whether a set of relations, joined, is provably small enough for a hint."""
        if mask not in self._small:
            at_most, share = self.estimate.at_most(mask), self.estimate.share_expected(mask)
            self._small[mask] = is_small(at_most, share, self._setting.broadcast_bytes)
        return self._small[mask]


def _connect(edges: list[int], pair: int) -> None:
    for number in range(len(edges)):
        if pair >> number & 1:
            edges[number] |= pair & ~(1 << number)


def _tree(shape: Shape) -> Tree:
    return shape if isinstance(shape, int) else Pair(_tree(shape.left), _tree(shape.right), JoinKind.INNER)


def _shape(tree: Tree) -> Shape:
    return tree if isinstance(tree, int) else Branch(_shape(tree.left), _shape(tree.right))


def _names(tree: Tree, items: Sequence[Item]) -> frozenset[str]:
    """The relations of a tree."""
    return frozenset(name for number in places(tree) for name in items[number].plan.names)


def label(plan: Plan) -> str:
    """A plan in a few words: its relation, or the relations that it joins."""
    if isinstance(plan, Leaf):
        return plan.name
    if isinstance(plan, Join):
        return f"({label(plan.left)} {plan.kind.value} JOIN {label(plan.right)})"
    return label(plan.child)


def tree_report(
    tree: Tree,
    items: Sequence[Item],
    rows: Callable[[int], float] | None,
    broadcast: Collection[frozenset[str]],
) -> JoinTree:
    """A tree for the report; `broadcast` are the relations of each part that is hinted."""
    hint = "BROADCAST" if _names(tree, items) in broadcast else None
    estimated = None if rows is None else round(rows(mask_of(_shape(tree))), 1)
    if isinstance(tree, int):
        name = label(items[tree].plan)
        return JoinTree(relation=name, hint=hint, estimated=estimated)
    return JoinTree(
        hint=hint,
        kind=tree.kind.value,
        condition=" AND ".join(written(conjunct.node) for conjunct in tree.conjuncts) or None,
        estimated=estimated,
        left=tree_report(tree.left, items, rows, broadcast),
        right=tree_report(tree.right, items, rows, broadcast),
    )
