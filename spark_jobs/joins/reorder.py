"""Puts the joins of one SELECT into the order that is chosen for them, and says what it is and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_jobs.contract import JoinReport
from spark_jobs.joins.block import Block
from spark_jobs.joins.cardinality import RelationFigures
from spark_jobs.joins.chooser import Chooser, Figures, Setting, label, tree_report
from spark_jobs.joins.graph import Chain, Filter, Item, Join, JoinKind, Leaf, Plan, Tree, extract, names_at
from spark_jobs.joins.rewrite import obstacle, write
from spark_jobs.joins.rule import documented_order


@dataclass(frozen=True)
class Reordered:
    """What became of a SELECT's joins, and the tables, by name, whose joins are to be broadcast."""

    report: JoinReport
    joined: frozenset[frozenset[str]] = frozenset()


def reorder(block: Block, setting: Setting) -> Reordered | None:
    """Order the joins of a block's SELECT, in place; None where it has no chain of joins.

    The SELECT gives the same rows, in columns of the same names and order. The report's `before` is the order in which
    Spark would run the joins: as written, with relations that no condition connects put off.
    """
    chain = extract(block.plan)
    if chain is None:
        return None
    started = time.perf_counter()
    before = documented_order(chain)
    reason = None if setting.options.reorder else "join_reorder is off"
    reason = reason or (None if _must_be_looked_at(before.tree, chain, setting) else setting.idle)
    reason = reason or obstacle(block, chain, ansi=setting.ansi)
    figures = [] if reason else [_item_figures(block, item.plan, setting.figures) for item in chain.items]
    unknown = [label(item.plan) for item, known in zip(chain.items, figures, strict=False) if known is None]
    if reason or unknown:
        tree = tree_report(before.tree, chain.items, None, ())
        reason = reason or f"nothing is known of {', '.join(unknown)}"
        return Reordered(JoinReport(before=tree, after=tree, reason=reason))
    chooser = Chooser(block, chain, [known for known in figures if known is not None], setting)
    choice = chooser.choice(before, started)
    if choice.changes:
        write(block, chain, choice.after, choice.hinted)
    joined = frozenset(frozenset(block.relations[name].name for name in names) for names in choice.joined)
    return Reordered(choice.report, joined)


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
    return Chooser(block, chain, known, setting).estimate.rows((1 << len(known)) - 1)


def _item_figures(block: Block, plan: Plan, figures: Figures) -> RelationFigures | None:
    """Figures of an item: of a relation its own; of joins that end the chain, those of the side that they preserve."""
    if isinstance(plan, Leaf):
        return figures(block, plan.name)
    if not isinstance(plan, Join):
        return _item_figures(block, plan.child, figures)
    left, right = (_item_figures(block, side, figures) for side in (plan.left, plan.right))
    if left is None or right is None:
        return None
    larger = left if left.kept >= right.kept else right
    kept = {JoinKind.SEMI: left, JoinKind.ANTI: left, JoinKind.LEFT: left, JoinKind.RIGHT: right}.get(plan.kind, larger)
    return RelationFigures(max(kept.rows, kept.kept), kept.kept, {**left.columns, **right.columns})
