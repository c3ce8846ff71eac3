"""Bounds what conditions on ranks leave of a sub-query: about so many rows of each partition of its window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

_RANKS = (exp.RowNumber, exp.Rank)
"""Functions that number rows from one on; few rows are taken to share a rank."""
_LEFT: dict[type[exp.Expr], Callable[[int], int]] = {
    exp.EQ: lambda _: 1,
    exp.LTE: lambda high: high,
    exp.LT: lambda high: high - 1,
}
"""Ranks that a comparison with a number leaves."""
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.EQ: exp.EQ, exp.GTE: exp.LTE, exp.GT: exp.LT}
"""Comparisons by what they are with their sides exchanged."""
_GROUPED_POWER = 0.75


@dataclass(frozen=True)
class RankBound:
    """A condition that leaves rows of `ranks` ranks, told by `column`, in each partition of a window."""

    column: str
    ranks: int
    partition: tuple[exp.Expr, ...]

    def rows(self, rows: float, distinct: Callable[[exp.Expr], float | None]) -> float:
        """Rows left of some, by the distinct values of what partitions them, None where these are not known.

        >>> RankBound("place", 3, (exp.column("shop"),)).rows(1000.0, lambda _: 20.0)
        60.0
        """
        known = [distinct(each) for each in self.partition]
        partitions = math.prod(count for count in known if count is not None)
        if None in known:
            partitions = max(partitions, groups_of(rows))
        return max(min(rows, self.ranks * partitions), 1.0)


def groups_of(rows: float) -> float:
    """How many groups so many rows are taken to have, where nothing is known of what groups them."""
    return math.pow(max(rows, 0.0), _GROUPED_POWER)


def rank_bounds(select: exp.Select, conditions: Iterable[exp.Expr]) -> Iterator[RankBound]:
    """The bounds that conditions on the columns of a SELECT are for its ranks.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a, rank() OVER (PARTITION BY b ORDER BY c) AS place FROM t", dialect="spark")
    >>> [bound.ranks for bound in rank_bounds(query, [sqlglot.condition("11 > q.place")])]
    [10]
    """
    partitions = partitions_of_ranks(select)
    for condition in conditions if partitions else ():
        found = _ranks_left(condition.unnest())
        if found is not None and found[0] in partitions:
            yield RankBound(*found, partitions[found[0]])


def partitions_of_ranks(select: exp.Select) -> dict[str, tuple[exp.Expr, ...]]:
    """What partitions the windows of a SELECT's ranks, by the lower-case names of the ranks."""
    return {
        item.alias.lower(): tuple(item.this.args.get("partition_by") or ())
        for item in select.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window) and isinstance(item.this.this, _RANKS)
    }


def _ranks_left(condition: exp.Expr) -> tuple[str, int] | None:
    """The column that a condition compares with a number, and how many ranks it leaves; None for any other."""
    if not isinstance(condition, exp.Binary):
        return None
    kind: type[exp.Expr] | None = type(condition)
    column, number = condition.left.unnest(), condition.right.unnest()
    if isinstance(column, exp.Literal):
        kind, column, number = _TURNED.get(type(condition)), number, column
    if kind not in _LEFT or not isinstance(column, exp.Column) or not isinstance(number, exp.Literal):
        return None
    return (column.name.lower(), max(_LEFT[kind](int(number.name)), 0)) if number.is_int else None
