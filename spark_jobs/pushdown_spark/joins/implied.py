"""Says what a condition over several relations implies for each of them alone.

`(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` implies `a.x = 1 OR a.x = 3`: the weaker condition can keep rows from
being read that the whole one meets no sooner than behind a join. Spark does the same by a conjunctive normal form
(`PushExtraPredicateThroughJoin`); here the condition keeps its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from pushdown_spark.joins.block import owner
from pushdown_spark.joins.graph import Conjunct

Columns = Mapping[str, frozenset[str] | None]
"""The columns of each relation, by lower-case names; None where they are not known."""


def implied(condition: Conjunct, columns: Columns) -> Iterator[Conjunct]:
    """For each relation of a condition over several, what it implies for that one alone, if anything."""
    if condition.joinable and len(condition.names) > 1:
        for name in sorted(condition.names):
            part = _said_of(condition.node, name, columns)
            if part is not None:
                yield Conjunct(part, frozenset({name}))


def _said_of(node: exp.Expr, name: str, columns: Columns) -> exp.Expr | None:
    """The strongest part of a condition that is about one relation alone, None where it says nothing of it."""
    if isinstance(node, exp.And | exp.Or):
        parts = [_said_of(part, name, columns) for part in node.flatten()]
        known = [part for part in parts if part is not None]
        if isinstance(node, exp.And):
            return exp.and_(*known, copy=False) if known else None
        return exp.or_(*known, copy=False) if len(known) == len(parts) else None
    if isinstance(node, exp.Paren):
        return _said_of(node.this, name, columns)
    owners = {owner(column, columns) for column in node.find_all(exp.Column)}
    return node.copy() if owners == {name} else None
