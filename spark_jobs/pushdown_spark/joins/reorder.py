"""Puts the joins of one SELECT into the order that is chosen for them, and says what it is and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.contract import JoinReport
from pushdown_spark.joins.block import Block
from pushdown_spark.joins.cardinality import ColumnFigures, Member, RelationFigures
from pushdown_spark.joins.chooser import Choice, Chooser, Figures, Setting, label, tree_report
from pushdown_spark.joins.equalities import Equalities
from pushdown_spark.joins.graph import (
    Chain,
    Conjunct,
    Filter,
    Item,
    Join,
    JoinKind,
    Leaf,
    Ordered,
    Plan,
    Tree,
    extract,
    names_at,
)
from pushdown_spark.joins.implied import implied
from pushdown_spark.joins.known_keys import KnownKeys, reduced_by_keys
from pushdown_spark.joins.rewrite import join_on, obstacle, write
from pushdown_spark.joins.rule import documented_order


@dataclass(frozen=True)
class Reordered:
    """What became of a SELECT's chains of joins, and the tables, by name, whose joins are to be broadcast."""

    reports: tuple[JoinReport, ...]
    joined: frozenset[frozenset[str]] = frozenset()


def reorder(block: Block, setting: Setting) -> Reordered | None:
    """Order the joins of a block's SELECT, in place; None where it has no chain of joins.

    The SELECT gives the same rows, in columns of the same names and order. A report's `before` is the order in which
    Spark would run the joins: as written, with relations that no condition connects put off.
    """
    chains = _Chains(block, setting)
    plan = chains.ordered()
    if not chains.reports:
        return None
    if chains.has_changed:
        hinted = frozenset[str]().union(*(choice.hinted for choice in chains.choices))
        write(replace(block, plan=plan, joins=chains.joins), hinted)
    joined = frozenset(
        frozenset(block.relations[name].name for name in names) for choice in chains.choices for names in choice.joined
    )
    return Reordered(tuple(reversed(chains.reports)), joined)


class _Chains:
    """The chains of a SELECT: the one that its FROM ends with, and those to the left of joins that keep their rows.

    `reports` tell of all, innermost first; `choices` are those that change something, and `has_changed` tells whether
    anything did; `joins` has the syntax trees of the joins of the ordered plan.
    """

    def __init__(self, block: Block, setting: Setting) -> None:
        self._block = block
        self._setting = setting
        self.reports: list[JoinReport] = []
        self.choices: list[Choice] = []
        self.has_changed = False
        self.joins = dict(block.joins)

    def ordered(self) -> Plan:
        """The plan with its chains in order."""
        plan = self._below(self._block.plan, ())
        chain = extract(plan)
        after = None if chain is None else self._chosen(chain)
        return plan if chain is None or after is None else Filter(after.above, self._joined(after.tree, chain))

    def _below(self, plan: Plan, above: tuple[Conjunct, ...]) -> Plan:
        """The plan with the chains below its left, semi and anti joins in order; `above` holds for rows of its left."""
        if isinstance(plan, Filter):
            child = self._below(plan.child, plan.conjuncts)
            return replace(plan, child=child)
        if not isinstance(plan, Join) or plan.hinted:
            return plan
        if plan.kind.is_inner:
            left = self._below(plan.left, (*above, *plan.conjuncts))
        elif plan.kind.keeps_left:
            left = self._chain_below(plan.left, above)
        else:
            return plan
        if left is plan.left:
            return plan
        rejoined = replace(plan, left=left)
        self.joins[id(rejoined)] = self.joins[id(plan)]
        return rejoined

    def _chain_below(self, plan: Plan, above: tuple[Conjunct, ...]) -> Plan:
        """The left side of a join that keeps its rows, in order: conditions above that join may connect it too."""
        plan = self._below(plan, above)
        chain = extract(plan)
        if chain is None:
            return plan
        more = tuple(each for each in above if each.joinable and len(each.names) > 1 and each.names <= plan.names)
        after = self._chosen(replace(chain, conjuncts=(*chain.conjuncts, *more)))
        if after is None or isinstance(after.tree, int):
            return plan
        top = replace(after.tree, conjuncts=(*after.tree.conjuncts, *after.above))
        return self._joined(top, chain)

    def _chosen(self, chain: Chain) -> Ordered | None:
        """The order that is chosen for a chain, None where it is best left as it is."""
        started = time.perf_counter()
        before = documented_order(chain)
        types, setting = self._setting.types(self._block), self._setting
        fixed = None if setting.options.reorder else "join_reorder is off"
        fixed = fixed or obstacle(self._block, chain, types, ansi=setting.ansi)
        reason = fixed or (None if _must_be_looked_at(before.tree, chain, setting) else setting.idle)
        figures = [] if reason else [self._figures(item) for item in chain.items]
        unknown = [label(item.plan) for item, known in zip(chain.items, figures, strict=False) if known is None]
        equalities = Equalities(self._block, chain, types)
        if reason or unknown:
            after = before if fixed else equalities.without_repeated(before)
            trees = [tree_report(each.tree, chain.items, None, ()) for each in (before, after)]
            reason = reason or f"nothing is known of {', '.join(unknown)}"
            self.reports.append(JoinReport(before=trees[0], after=trees[1], reason=reason))
            return self._changed(after, chain) if after != before else None
        known = [each for each in figures if each is not None]
        keys: tuple[KnownKeys, ...] = ()
        if setting.lists_keys:
            known, keys = reduced_by_keys(known, equalities.classes, self._is_read, self._narrowed)
        choice = Chooser(self._block, chain, equalities, known, setting, keys).choice(before, started)
        self.reports.append(choice.report)
        if not choice.changes:
            return None
        self.choices.append(choice)
        return self._changed(choice.after, chain)

    def _changed(self, after: Ordered, chain: Chain) -> Ordered:
        """An order to write, with what conditions over several relations imply for each alone.

        Spark takes that out of conditions by itself, but not through every join that it meets (4.3.0).
        """
        self.has_changed = True
        parts = (part for condition in chain.conjuncts for part in implied(condition, self._block.columns))
        return replace(after, above=(*after.above, *dict.fromkeys(parts)))

    def _is_read(self, column: Member) -> bool:
        return self._block.is_table(column.key[0])

    def _narrowed(self, column: Member, conditions: Sequence[exp.Expr]) -> RelationFigures | None:
        return self._setting.figures(self._block, column.key[0], conditions)

    def _figures(self, item: Item) -> RelationFigures | None:
        return _item_figures(self._block, item.plan, self._setting.figures)

    def _joined(self, tree: Tree, chain: Chain) -> Plan:
        """A tree of a chain as a plan."""
        if isinstance(tree, int):
            return chain.items[tree].plan
        left, right = self._joined(tree.left, chain), self._joined(tree.right, chain)
        joined = Join(left, right, tree.kind, tree.conjuncts)
        self.joins[id(joined)] = join_on(tree.conjuncts)
        return joined


def _must_be_looked_at(tree: Tree, chain: Chain, setting: Setting) -> bool:
    """Whether another order is looked for whatever that takes: this one compares all rows of two sides, unboundedly.

    A number of bytes that the user has set is left to mean what it says.
    """
    return len(chain.items) > 2 and setting.options.min_bytes is None and _has_loop(tree, chain.items)


def _has_loop(tree: Tree, items: Sequence[Item]) -> bool:
    """Whether no equality connects the sides of a join, so that Spark cannot hash them."""
    if isinstance(tree, int):
        return False
    left, right = names_at(tree.left, items), names_at(tree.right, items)
    hashed = any(
        isinstance(each.node, exp.EQ | exp.NullSafeEQ) and each.names & left and each.names & right
        for each in tree.conjuncts
    )
    return not hashed or _has_loop(tree.left, items) or _has_loop(tree.right, items)


def estimated_rows(block: Block, setting: Setting) -> float | None:
    """Rows that the FROM and WHERE of a block give, None where that cannot be told."""
    plan = block.plan
    chain = extract(plan)
    if chain is None:
        inner = plan.child if isinstance(plan, Filter) else plan
        alone = _item_figures(block, inner, setting.figures)
        return None if alone is None else alone.kept
    figures = [_item_figures(block, item.plan, setting.figures) for item in chain.items]
    known = [each for each in figures if each is not None]
    if len(known) < len(figures):
        return None
    equalities = Equalities(block, chain, setting.types(block))
    return Chooser(block, chain, equalities, known, setting).estimate.rows((1 << len(known)) - 1)


def _item_figures(block: Block, plan: Plan, figures: Figures) -> RelationFigures | None:
    """Figures of an item: of a relation its own; of joins that end the chain, those of the side that they preserve."""
    if isinstance(plan, Leaf):
        return figures(block, plan.name, ())
    if not isinstance(plan, Join):
        return _item_figures(block, plan.child, figures)
    left, right = (_item_figures(block, side, figures) for side in (plan.left, plan.right))
    if left is None or right is None:
        return None
    larger = left if left.kept >= right.kept else right
    kept = {JoinKind.SEMI: left, JoinKind.ANTI: left, JoinKind.LEFT: left, JoinKind.RIGHT: right}.get(plan.kind, larger)
    columns = {key: _uncertain(known) for side in (left, right) for key, known in side.columns.items()}
    return RelationFigures(max(kept.rows, kept.kept), kept.kept, columns)


def _uncertain(column: ColumnFigures) -> ColumnFigures:
    """A column of joins: outer ones have rows without any key."""
    return column if column.values is None else replace(column, values=replace(column.values, certain=False))
