"""Writes joins into their SELECT again, in another order and with hints for Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from pushdown_spark.joins.block import Block
from pushdown_spark.joins.failing import may_fail
from pushdown_spark.joins.graph import Chain, Conjunct, Filter, Join, JoinKind, Leaf, Plan, Project
from pushdown_spark.joins.kept import read
from pushdown_spark.joins.push import Types
from pushdown_spark.projection.paths import quote_name


def obstacle(block: Block, chain: Chain, types: Types, *, ansi: bool) -> str | None:
    """Why the joins of a SELECT must stay as they are written, None where they need not.

    With `ansi`, expressions raise errors for values that they cannot take; `types` are the columns'.
    """
    if any(isinstance(join, exp.Join) and (join.hint or join.args.get("match_condition")) for join in _joins(block)):
        return "a join is hinted"
    if block.select.args.get("hint") is not None:
        return "the query has hints of its own"
    if block.shadows:
        return "a name in an ON means another column to those who see more relations"
    merges = any(join.args.get("using") or join.method == "NATURAL" for join in _joins(block))
    for item in block.select.expressions:
        if isinstance(item, exp.Star) and (merges or any(item.args.values())):
            return "the star stands for columns that USING, NATURAL or EXCEPT decide"
    if any(_wild(star, block.select) for star in block.select.find_all(exp.Star)):
        return "a star is an argument, and takes its columns in the order of the joins"
    if any(_repeats(conjunct.node) for conjunct in chain.conjuncts):
        return "a condition is not deterministic"
    if ansi and any(len(conjunct.names) > 1 and may_fail(conjunct.node, types) for conjunct in chain.conjuncts):
        return "a condition over several relations may fail, in another order on rows that it never met before"
    return None


def write(block: Block, broadcast: Collection[str]) -> None:
    """Put the plan of a block into its SELECT, in place; `broadcast` names relations to hint.

    The SELECT list keeps its columns: a bare star becomes one star for each relation, in the order of the text.
    """
    select = block.select
    names = [node.alias_or_name for name, node in block.relations.items() if name not in block.hidden]
    stars = [exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True)) for name in names]
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [star.copy() for star in stars] if isinstance(item, exp.Star) else [item]
    above, plan = (block.plan.conjuncts, block.plan.child) if isinstance(block.plan, Filter) else ((), block.plan)
    first, joins = _written(plan, block)
    select.set("expressions", items)
    select.set("from_", exp.From(this=first))
    select.set("joins", joins or None)
    select.set("where", exp.Where(this=_all(above)) if above else None)
    if broadcast:
        hinted = ", ".join(quote_name(block.relations[name].alias_or_name) for name in sorted(broadcast))
        model = read(f"SELECT /*+ BROADCAST({hinted}) */ 1")
        select.set("hint", model.args["hint"])


def join_on(conditions: Sequence[Conjunct]) -> exp.Join:
    """An inner join on conditions, a cross join where there are none; what it joins is set later."""
    return exp.Join(on=_all(conditions)) if conditions else exp.Join(kind=JoinKind.CROSS.value)


def _all(conditions: Sequence[Conjunct]) -> exp.Expr:
    return exp.and_(*(condition.node for condition in conditions))


def _written(plan: Plan, block: Block) -> tuple[exp.Expr, list[exp.Join]]:
    """A plan as the first relation of a FROM clause, and the joins behind it."""
    if isinstance(plan, Leaf):
        node = block.relations[plan.name].copy()
        node.set("joins", None)
        return node, []
    if isinstance(plan, Project):
        return _written(plan.child, block)
    if not isinstance(plan, Join):
        raise ValueError("a filter stands inside a FROM clause")
    first, joins = _written(plan.left, block)
    join = block.joins[id(plan)].copy()
    join.set("this", _side(plan.right, block))
    return first, [*joins, join]


def _side(plan: Plan, block: Block) -> exp.Expr:
    """A plan as the right side of a join: a relation, or joins in parentheses."""
    first, joins = _written(plan, block)
    return _group(first, joins) if joins else first


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
