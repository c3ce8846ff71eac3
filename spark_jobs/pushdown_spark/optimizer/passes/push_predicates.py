"""Push predicates down to the relations of a SELECT where this does not change its result.

A predicate above a join may only go below it on a side that the join does not extend with null rows. A predicate in the
ON clause of an outer join may only go to the side that the join does extend.

Inferred predicates are pushed as well. With `a.k = b.k`, a condition on `a.k` holds for `b.k` too.
`(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` implies `a.x = 1 OR a.x = 3`. Spark infers the latter from a
conjunctive normal form (`PushExtraPredicateThroughJoin`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.predicate import needs_every_row
from pushdown_spark.expressions.session_settings import has_plain_meaning
from pushdown_spark.optimizer.plans.logical_plan import (
    Conjunct,
    Filter,
    Join,
    JoinKind,
    Plan,
    Project,
    RelationColumns,
    RelationLeaf,
    column_equality,
    owner,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.plans.sql_dialect import predicate_of
from pushdown_spark.optimizer.query_context import QueryContext, QueryPlan, remove_qualifier

# Kinds of joins below which a predicate from above, or from the ON clause, may go to the left or to the right.
_ABOVE_TO_LEFT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
_ABOVE_TO_RIGHT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT})
_ON_TO_LEFT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT, JoinKind.SEMI})
_ON_TO_RIGHT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})

Predicates = dict[str, tuple[exp.Expr, ...]]
"""Predicates by the relation that they refer to."""

IsExactEquality = Callable[[exp.Column, exp.Column], bool]
"""Returns whether `=` between two columns means that their values are identical: same type, no equal variants."""


class _Side(NamedTuple):
    """A side of an equality, and the relation that it belongs to."""

    column: exp.Column
    relation: str


def push_predicates(context: QueryContext, plan: QueryPlan) -> QueryPlan:
    """Return the plan with the predicates of each source reference of a query.

    No predicate is pushed if its text may mean something else to Spark than to sqlglot, or if names that differ by case
    alone are different columns.
    """
    is_plain = context.has_plain_literals and has_plain_meaning(context.spark, context.sql)
    if not is_plain or context.name_rule.case_sensitive:
        return plan
    conditions_of_view = {}
    has_row_functions = needs_every_row(context.sql, context.query.tree)
    for block in context.blocks:
        predicates = pushdown_predicates(block.plan, block.columns, context.types_in(block).is_exact_equality)
        if has_row_functions:
            predicates |= _complete_predicates(block)
        for name, reference in context.references_in(block).items():
            conditions = tuple(remove_qualifier(condition, name) for condition in predicates[name])
            if conditions and reference.table.args.get("sample") is None:
                conditions_of_view[reference.view] = conditions
    return replace(plan, predicates=conditions_of_view)


def _complete_predicates(block: SelectBlock) -> Predicates:
    """Return the whole WHERE of a block over one relation if it calls a function that must see every row.

    `rand() < 0.5 AND k = 7` without its first conjunct would let a reader drop rows before Spark calls the function.
    With all conjuncts, the scan pushes none. NULL stands for sub-queries, which the scan does not know.
    """
    where = block.select.args.get("where")
    if where is None or len(block.relations) > 1:
        return {}
    conditions = [condition.transform(_without_query) for condition in conjuncts(where.this)]
    predicate = predicate_of(conditions)
    is_complete = predicate is not None and predicate.needs_every_row
    return dict.fromkeys(block.relations, tuple(conditions)) if is_complete else {}


def _without_query(node: exp.Expr) -> exp.Expr:
    return exp.null() if isinstance(node, exp.Query | exp.Exists) else node


def pushdown_predicates(plan: Plan, columns: RelationColumns, is_exact_equality: IsExactEquality) -> Predicates:
    """Return for each relation the predicates on it alone that may filter its rows before any join.

    >>> from pushdown_spark.optimizer.plans.select_block import select_blocks
    >>> from pushdown_spark.optimizer.plans.sql_reader import parse_query
    >>> query = "SELECT * FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = a.k AND c.z = 1 WHERE a.k = 5 AND c.y = 2"
    >>> block = next(select_blocks(parse_query(query), lambda table: frozenset({"k", "y", "z"})))
    >>> pushed = pushdown_predicates(block.plan, block.columns, lambda left, right: True)
    >>> {name: [node.sql() for node in nodes] for name, nodes in pushed.items()}
    {'a': ['a.k = 5'], 'b': ['b.k = 5'], 'c': ['c.z = 1']}
    """
    pushdown = _Pushdown(columns, is_exact_equality, {})
    pushdown.descend(plan, (), is_complete=False)
    return pushdown.predicates


def inner_join_conjuncts(plan: Plan, *, include_preserved: bool = False) -> tuple[Conjunct, ...]:
    """Return every conjunct at and below a plan, as far down as joins are inner. All hold for the rows of the plan.

    With `include_preserved`, the left sides of left outer, semi and anti joins count as well.

    >>> inner_join_conjuncts(RelationLeaf("a"))
    ()
    """
    if isinstance(plan, Filter):
        return (*plan.conjuncts, *inner_join_conjuncts(plan.child, include_preserved=include_preserved))
    if isinstance(plan, Project):
        return inner_join_conjuncts(plan.child, include_preserved=include_preserved)
    if isinstance(plan, Join) and plan.kind.is_inner:
        sides = (plan.left, plan.right)
        left, right = (inner_join_conjuncts(side, include_preserved=include_preserved) for side in sides)
        return (*plan.conjuncts, *left, *right)
    if isinstance(plan, Join) and include_preserved and plan.kind.preserves_left:
        return inner_join_conjuncts(plan.left, include_preserved=True)
    return ()


@dataclass(frozen=True)
class _Pushdown:
    """Walks down a plan and collects the predicates of its relations."""

    columns: RelationColumns
    is_exact_equality: IsExactEquality
    predicates: Predicates

    def descend(self, plan: Plan, above: tuple[Conjunct, ...], *, is_complete: bool) -> None:
        """Push conjuncts that hold above a plan down to its relations.

        `is_complete` means that `above` has all inner conjuncts of the plan and what follows from them already.
        """
        if isinstance(plan, RelationLeaf):
            own = (condition.node for condition in above if condition.is_joinable and condition.names == {plan.name})
            self.predicates[plan.name] = tuple(dict.fromkeys(own))
        elif isinstance(plan, Project):
            self.descend(plan.child, above, is_complete=is_complete)
        elif isinstance(plan, Filter):
            conditions = above if is_complete else (*above, *plan.conjuncts)
            self.descend(plan.child, conditions, is_complete=is_complete)
        elif plan.kind.is_inner:
            if not is_complete:
                conditions = (*above, *inner_join_conjuncts(plan))
                above = infer_predicates(conditions, self.columns, self.is_exact_equality)
            self.descend(plan.left, above, is_complete=True)
            self.descend(plan.right, above, is_complete=True)
        else:
            self._descend_outer(plan, above)

    def _descend_outer(self, join: Join, above: tuple[Conjunct, ...]) -> None:
        left = (
            *(above if join.kind in _ABOVE_TO_LEFT else ()),
            *(join.conjuncts if join.kind in _ON_TO_LEFT else ()),
        )
        right = (
            *(above if join.kind in _ABOVE_TO_RIGHT else ()),
            *(join.conjuncts if join.kind in _ON_TO_RIGHT else ()),
        )
        self.descend(join.left, with_implied(left, self.columns), is_complete=False)
        self.descend(join.right, with_implied(right, self.columns), is_complete=False)


def infer_predicates(
    conditions: Sequence[Conjunct], columns: RelationColumns, is_exact_equality: IsExactEquality
) -> tuple[Conjunct, ...]:
    """Return the distinct joinable conjuncts, followed by the predicates that they imply for single relations.

    >>> import sqlglot
    >>> from pushdown_spark.optimizer.plans.logical_plan import conjunct_of
    >>> columns = {"a": frozenset({"k"}), "b": frozenset({"k", "y"})}
    >>> conditions = [conjunct_of(sqlglot.condition(sql), columns) for sql in ("a.k = b.k", "a.k > 5 OR b.y = 1")]
    >>> [inferred.node.sql() for inferred in infer_predicates(conditions, columns, lambda left, right: True)]
    ['a.k = b.k', 'a.k > 5 OR b.y = 1']
    >>> conditions.append(conjunct_of(sqlglot.condition("a.k < 9"), columns))
    >>> [inferred.node.sql() for inferred in infer_predicates(conditions, columns, lambda left, right: True)]
    ['a.k = b.k', 'a.k > 5 OR b.y = 1', 'a.k < 9', 'b.k < 9']
    """
    predicates = {condition.node: condition for condition in with_implied(conditions, columns) if condition.is_joinable}
    equalities = [
        sides for node in predicates if (sides := _equality_sides(node, columns, is_exact_equality)) is not None
    ]
    pending = [condition for condition in predicates.values() if len(condition.names) == 1]
    while pending:
        condition = pending.pop()
        for left, right in equalities:
            for source, target in ((left, right), (right, left)):
                counterpart = _transfer(condition, source, target)
                if counterpart is not None and counterpart.node not in predicates:
                    predicates[counterpart.node] = counterpart
                    pending.append(counterpart)
    return tuple(predicates.values())


def with_implied(conditions: Iterable[Conjunct], columns: RelationColumns) -> tuple[Conjunct, ...]:
    """Return the conjuncts, followed by what those over several relations imply for each of these relations."""
    conditions = tuple(conditions)
    return (*conditions, *(part for condition in conditions for part in implied_predicates(condition, columns)))


def implied_predicates(condition: Conjunct, columns: RelationColumns) -> Iterator[Conjunct]:
    """Yield the predicates on single relations that a condition over several relations implies.

    >>> import sqlglot
    >>> condition = sqlglot.condition("(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)")
    >>> columns = {"a": frozenset({"x"}), "b": frozenset({"y"})}
    >>> [part.node.sql() for part in implied_predicates(Conjunct(condition, frozenset({"a", "b"})), columns)]
    ['a.x = 1 OR a.x = 3', 'b.y = 2 OR b.y = 4']
    """
    if condition.is_joinable and len(condition.names) > 1:
        for name in sorted(condition.names):
            part = _implied_for(condition.node, name, columns)
            if part is not None:
                yield Conjunct(part, frozenset({name}))


def _implied_for(node: exp.Expr, name: str, columns: RelationColumns) -> exp.Expr | None:
    """Return the strongest implied condition on one relation alone, or None if there is none."""
    if isinstance(node, exp.And | exp.Or):
        parts = [_implied_for(part, name, columns) for part in node.flatten()]
        implied_parts = [part for part in parts if part is not None]
        if isinstance(node, exp.And):
            return exp.and_(*implied_parts, copy=False) if implied_parts else None
        return exp.or_(*implied_parts, copy=False) if len(implied_parts) == len(parts) else None
    if isinstance(node, exp.Paren):
        return _implied_for(node.this, name, columns)
    owners = {owner(column, columns) for column in node.find_all(exp.Column)}
    return node.copy() if owners == {name} else None


def _equality_sides(
    node: exp.Expr, columns: RelationColumns, is_exact_equality: IsExactEquality
) -> tuple[_Side, _Side] | None:
    """Return both sides of an exact equality between two relations, or None for any other condition."""
    pair = column_equality(node)
    if pair is None or not is_exact_equality(*pair):
        return None
    left, right = (owner(column, columns) for column in pair)
    if left is None or right is None or left == right:
        return None
    return _Side(pair[0], left), _Side(pair[1], right)


def _transfer(condition: Conjunct, source: _Side, target: _Side) -> Conjunct | None:
    """Return a condition on the source column as a condition on the target column.

    Return None if the condition refers to any other column.
    """
    if condition.names != {source.relation}:
        return None
    for column in condition.node.find_all(exp.Column):
        # A name in another case may belong to another column.
        if column.name != source.column.name or len(column.parts) > 2:
            return None
    target_node = condition.node.transform(lambda node: target.column.copy() if isinstance(node, exp.Column) else node)
    return Conjunct(target_node, frozenset({target.relation}))
