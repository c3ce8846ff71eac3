"""Says which conditions of a query may reach which of its relations without changing the answer.

A condition above a join goes below it only on a side whose rows the join never fills up with nulls; a condition of an
outer join goes only to the side that it fills up. What holds for a column holds for those that inner joins equate it
with, where both have the same type. What a condition over several relations implies for one of them goes there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from pushdown_spark.joins.block import owner
from pushdown_spark.joins.graph import Conjunct, Filter, Join, JoinKind, Leaf, Plan, Project
from pushdown_spark.joins.implied import Columns, implied

Equated = Callable[[exp.Column, exp.Column], bool]
"""Whether two columns hold the same values when `=` says that they are equal: same type, one spelling per value."""


class Types(Protocol):
    """What is known of the types of a block's columns."""

    def spelt_once(self, left: exp.Column, right: exp.Column, /) -> bool:
        """Whether two columns have one type, whose values are equal only if they are the same."""

    def is_date(self, column: exp.Column, /) -> bool:
        """Whether a column is a date."""


class Untyped:
    """Types of which nothing is known."""

    def spelt_once(self, _left: exp.Column, _right: exp.Column, /) -> bool:
        """No."""
        return False

    def is_date(self, _column: exp.Column, /) -> bool:
        """No."""
        return False


_Side = tuple[exp.Column, str]
"""A side of an equality, and the relation that it belongs to."""

_LEFT_OF = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
_RIGHT_OF = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT})
_LEFT_BY = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT, JoinKind.SEMI})
_RIGHT_BY = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
"""Kinds of joins below which a condition above them, or of their own, may go: to their left and to their right."""


def reaching(plan: Plan, columns: Columns, equated: Equated) -> dict[str, tuple[exp.Expr, ...]]:
    """For each relation the conditions that refer to it alone and hold for every row of it that matters."""
    found: dict[str, tuple[exp.Expr, ...]] = {}
    _descend(plan, (), _Closure(columns, equated), found, is_closed=False)
    return found


def inner_conditions(plan: Plan, *, kept_sides: bool = False) -> tuple[Conjunct, ...]:
    """Every condition at and below a plan, as far down as joins are inner: all of them hold for the rows that leave it.

    With `kept_sides` also those to the left of joins that keep their rows, which hold for the rows of that side.

    >>> inner_conditions(Leaf("a"))
    ()
    """
    if isinstance(plan, Filter):
        return (*plan.conjuncts, *inner_conditions(plan.child, kept_sides=kept_sides))
    if isinstance(plan, Project):
        return inner_conditions(plan.child, kept_sides=kept_sides)
    if isinstance(plan, Join) and plan.kind.is_inner:
        left, right = (inner_conditions(side, kept_sides=kept_sides) for side in (plan.left, plan.right))
        return (*plan.conjuncts, *left, *right)
    if isinstance(plan, Join) and kept_sides and plan.kind.keeps_left:
        return inner_conditions(plan.left, kept_sides=True)
    return ()


def column_equality(node: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    """The columns of `a.k = b.k`, None for any other condition."""
    if isinstance(node, exp.EQ):
        left, right = node.left.unnest(), node.right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            return left, right
    return None


class _Closure:
    """Adds what equalities, and conditions over several relations, imply to a list of conditions."""

    def __init__(self, columns: Columns, equated: Equated) -> None:
        self._columns = columns
        self._equated = equated

    def of(self, conditions: Sequence[Conjunct]) -> tuple[Conjunct, ...]:
        """The conditions, each once, and behind them those that they imply for relations alone."""
        known = {condition.node: condition for condition in self.narrowed(conditions) if condition.joinable}
        equalities = [sides for node in known if (sides := self._usable(node)) is not None]
        pending = [condition for condition in known.values() if len(condition.names) == 1]
        while pending:
            condition = pending.pop()
            for left, right in equalities:
                for here, there in ((left, right), (right, left)):
                    carried = _carried(condition, here, there)
                    if carried is not None and carried.node not in known:
                        known[carried.node] = carried
                        pending.append(carried)
        return tuple(known.values())

    def narrowed(self, conditions: Sequence[Conjunct]) -> tuple[Conjunct, ...]:
        """The conditions, and behind them what those over several relations imply for each of these."""
        return (*conditions, *(part for condition in conditions for part in implied(condition, self._columns)))

    def _usable(self, node: exp.Expr) -> tuple[_Side, _Side] | None:
        """The columns of an equality between two relations, with these."""
        pair = column_equality(node)
        if pair is None or not self._equated(*pair):
            return None
        left, right = (owner(column, self._columns) for column in pair)
        if left is None or right is None or left == right:
            return None
        return (pair[0], left), (pair[1], right)


def _carried(condition: Conjunct, here: _Side, there: _Side) -> Conjunct | None:
    """The condition about the column here, said of the column there; None where it is about anything else."""
    if condition.names != {here[1]}:
        return None
    for column in condition.node.find_all(exp.Column):
        # In another case the name may be another column's.
        if column.name != here[0].name or len(column.parts) > 2:
            return None
    said = condition.node.transform(lambda node: there[0].copy() if isinstance(node, exp.Column) else node)
    return Conjunct(said, frozenset({there[1]}))


def _descend(
    plan: Plan,
    above: tuple[Conjunct, ...],
    closure: _Closure,
    found: dict[str, tuple[exp.Expr, ...]],
    *,
    is_closed: bool,
) -> None:
    """Hand conditions that hold above a plan down to its relations.

    `is_closed` says that they hold all inner conditions of the plan and what follows from them already.
    """
    if isinstance(plan, Leaf):
        mine = (condition.node for condition in above if condition.joinable and condition.names == {plan.name})
        found[plan.name] = tuple(dict.fromkeys(mine))
    elif isinstance(plan, Project):
        _descend(plan.child, above, closure, found, is_closed=is_closed)
    elif isinstance(plan, Filter):
        every = above if is_closed else (*above, *plan.conjuncts)
        _descend(plan.child, every, closure, found, is_closed=is_closed)
    elif plan.kind.is_inner:
        every = above if is_closed else closure.of((*above, *inner_conditions(plan)))
        _descend(plan.left, every, closure, found, is_closed=True)
        _descend(plan.right, every, closure, found, is_closed=True)
    else:
        own = plan.conjuncts
        left = (*(above if plan.kind in _LEFT_OF else ()), *(own if plan.kind in _LEFT_BY else ()))
        right = (*(above if plan.kind in _RIGHT_OF else ()), *(own if plan.kind in _RIGHT_BY else ()))
        _descend(plan.left, closure.narrowed(left), closure, found, is_closed=False)
        _descend(plan.right, closure.narrowed(right), closure, found, is_closed=False)
