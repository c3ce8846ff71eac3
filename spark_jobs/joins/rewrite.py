"""Writes a chain of joins into its SELECT again, in another order and with hints for Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlglot
from sqlglot import exp

from spark_jobs.joins.block import Block
from spark_jobs.joins.failing import may_fail
from spark_jobs.joins.graph import Chain, Join, JoinKind, Leaf, Ordered, Pair, Plan, Project, Tree
from spark_jobs.joins.text import KeptSpark
from spark_jobs.projection.paths import quote_name


def obstacle(block: Block, chain: Chain, *, ansi: bool) -> str | None:
    """Why the joins of a SELECT must stay as they are written, None where they need not.

    With `ansi`, expressions raise errors for values that they cannot take.
    """
    if any(isinstance(join, exp.Join) and (join.hint or join.args.get("match_condition")) for join in _joins(block)):
        return "a join is hinted"
    if block.select.args.get("hint") is not None:
        return "the query has hints of its own"
    merges = any(join.args.get("using") or join.method == "NATURAL" for join in _joins(block))
    for item in block.select.expressions:
        if isinstance(item, exp.Star) and (merges or any(item.args.values())):
            return "the star stands for columns that USING, NATURAL or EXCEPT decide"
    if any(_wild(star, block.select) for star in block.select.find_all(exp.Star)):
        return "a star is an argument, and takes its columns in the order of the joins"
    if any(_repeats(conjunct.node) for conjunct in chain.conjuncts):
        return "a condition is not deterministic"
    if ansi and any(len(conjunct.names) > 1 and may_fail(conjunct.node) for conjunct in chain.conjuncts):
        return "a condition over several relations may fail, in another order on rows that it never met before"
    return None


def write(block: Block, chain: Chain, ordered: Ordered, broadcast: Collection[str]) -> None:
    """Put the joins of an ordered chain into the block's SELECT, in place; `broadcast` names relations to hint.

    The SELECT list keeps its columns: a bare star becomes one star for each relation, in the order of the text.
    """
    select = block.select
    names = [node.alias_or_name for name, node in block.relations.items() if name not in block.hidden]
    stars = [exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True)) for name in names]
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [star.copy() for star in stars] if isinstance(item, exp.Star) else [item]
    writer = _Writer(block, chain)
    first, joins = writer.joined(ordered.tree)
    select.set("expressions", items)
    select.set("from_", exp.From(this=first))
    select.set("joins", joins or None)
    above = [conjunct.node for conjunct in ordered.above]
    select.set("where", exp.Where(this=exp.and_(*above)) if above else None)
    if broadcast:
        hinted = ", ".join(quote_name(block.relations[name].alias_or_name) for name in sorted(broadcast))
        model = sqlglot.parse_one(f"SELECT /*+ BROADCAST({hinted}) */ 1", dialect=KeptSpark)
        select.set("hint", model.args["hint"])


class _Writer:
    """Turns trees of a chain into syntax trees."""

    def __init__(self, block: Block, chain: Chain) -> None:
        self._block = block
        self._chain = chain

    def joined(self, tree: Tree) -> tuple[exp.Expr, list[exp.Join]]:
        """A tree as the first relation of a FROM clause, and the joins behind it."""
        if isinstance(tree, int):
            return self._relation(self._chain.items[tree].plan), []
        first, joins = self.joined(tree.left)
        return first, [*joins, _join(tree, self._side(tree.right))]

    def _side(self, tree: Tree) -> exp.Expr:
        """A tree as the right side of a join: a relation, or joins in parentheses."""
        first, joins = self.joined(tree)
        return _group(first, joins) if joins else first

    def _relation(self, plan: Plan) -> exp.Expr:
        """An item of the chain as it was: a relation, or joins of other kinds in parentheses."""
        first, joins = self._written(plan)
        return _group(first, joins) if joins else first

    def _written(self, plan: Plan) -> tuple[exp.Expr, list[exp.Join]]:
        if isinstance(plan, Leaf):
            node = self._block.relations[plan.name].copy()
            node.set("joins", None)
            return node, []
        if isinstance(plan, Project):
            return self._written(plan.child)
        if not isinstance(plan, Join):
            raise ValueError("a filter stands inside a FROM clause")
        first, joins = self._written(plan.left)
        join = self._block.joins[id(plan)].copy()
        join.set("this", self._relation(plan.right))
        return first, [*joins, join]


def _join(pair: Pair, right: exp.Expr) -> exp.Join:
    if not pair.conjuncts:
        return exp.Join(this=right, kind=JoinKind.CROSS.value)
    return exp.Join(this=right, on=exp.and_(*(conjunct.node for conjunct in pair.conjuncts)))


def _group(first: exp.Expr, joins: Sequence[exp.Join]) -> exp.Subquery:
    """Joins in parentheses."""
    start = first.copy()
    start.set("joins", list(joins))
    return exp.Subquery(this=start)


def _joins(block: Block) -> list[exp.Join]:
    return list(block.joins.values())


def _wild(star: exp.Star, select: exp.Select) -> bool:
    """Whether a star of this very SELECT is something else than an item of its list or what count takes."""
    holder = star.parent
    if star.find_ancestor(exp.Select) is not select or isinstance(holder, exp.Count):
        return False
    item = holder if isinstance(holder, exp.Column) else star
    return item.parent is not select


def _repeats(node: exp.Expr) -> bool:
    """Whether a condition may give another answer for the same row."""
    return node.find(exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous, exp.AnonymousAggFunc) is not None
