"""Writing a logical plan back into the SELECT statement that it was read from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from pushdown_spark.optimizer.logical_plan import (
    Conjunct,
    Filter,
    Join,
    JoinKind,
    Plan,
    Project,
    RelationLeaf,
    SelectBlock,
)
from pushdown_spark.optimizer.sql_dialect import parse_sql
from pushdown_spark.projection.paths import quote_name


def write_plan(block: SelectBlock, broadcast: Collection[str]) -> None:
    """Replace FROM, WHERE and hints of a block's SELECT by those of its plan, in place.

    `broadcast` names relations to hint. A bare star becomes one star per relation in the original order, so that the
    output columns stay the same.

    >>> from dataclasses import replace
    >>> from pushdown_spark.optimizer.logical_plan import select_blocks
    >>> from pushdown_spark.optimizer.sql_reader import parse_query
    >>> block = next(select_blocks(parse_query("SELECT * FROM a, b WHERE a.k = b.k"), lambda table: frozenset("k")))
    >>> joins = Join(RelationLeaf("b"), RelationLeaf("a"), conjuncts=block.plan.conjuncts)
    >>> write_plan(replace(block, plan=joins, joins={id(joins): join_on(joins.conjuncts)}), {"a"})
    >>> block.select.sql("spark")
    'SELECT /*+ BROADCAST(`a`) */ `a`.*, `b`.* FROM b JOIN a ON a.k = b.k'
    """
    select = block.select
    names = [node.alias_or_name for name, node in block.relations.items() if name not in block.hidden]
    stars = [exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True)) for name in names]
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [star.copy() for star in stars] if isinstance(item, exp.Star) else [item]
    above, plan = (block.plan.conjuncts, block.plan.child) if isinstance(block.plan, Filter) else ((), block.plan)
    first, joins = _from_clause(plan, block)
    select.set("expressions", items)
    select.set("from_", exp.From(this=first))
    select.set("joins", joins or None)
    select.set("where", exp.Where(this=_conjunction(above)) if above else None)
    if broadcast:
        hinted = ", ".join(quote_name(block.relations[name].alias_or_name) for name in sorted(broadcast))
        template = parse_sql(f"SELECT /*+ BROADCAST({hinted}) */ 1")
        select.set("hint", template.args["hint"])


def join_on(conditions: Sequence[Conjunct]) -> exp.Join:
    """Return an inner join on conditions, or a cross join without conditions. Its right side is still missing."""
    return exp.Join(on=_conjunction(conditions)) if conditions else exp.Join(kind=JoinKind.CROSS.value)


def _conjunction(conditions: Sequence[Conjunct]) -> exp.Expr:
    return exp.and_(*(condition.node for condition in conditions))


def _from_clause(plan: Plan, block: SelectBlock) -> tuple[exp.Expr, list[exp.Join]]:
    """Return a plan as the first relation of a FROM clause and the joins after it."""
    if isinstance(plan, RelationLeaf):
        node = block.relations[plan.name].copy()
        node.set("joins", None)
        return node, []
    if isinstance(plan, Project):
        return _from_clause(plan.child, block)
    if not isinstance(plan, Join):
        raise ValueError("a FROM clause cannot contain a filter")
    first, joins = _from_clause(plan.left, block)
    join = block.joins[id(plan)].copy()
    join.set("this", _right_side(plan.right, block))
    return first, [*joins, join]


def _right_side(plan: Plan, block: SelectBlock) -> exp.Expr:
    """Return a plan as a relation, or as joins in parentheses."""
    first, joins = _from_clause(plan, block)
    if not joins:
        return first
    start = first.copy()
    start.set("joins", list(joins))
    return exp.Subquery(this=start)
