"""Push predicates down to the relations of a SELECT as far as this does not change its result.

A predicate above a join may only go below it on a side that the join does not extend with null rows. A predicate in the
ON clause of an outer join may only go to the side that the join does extend. Inferred predicates are pushed as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from pushdown_spark.expressions.session_settings import has_plain_meaning
from pushdown_spark.optimizer.infer_predicates import IsExactEquality, infer_predicates, with_implied
from pushdown_spark.optimizer.logical_plan import (
    Conjunct,
    Filter,
    Join,
    JoinKind,
    Plan,
    Project,
    RelationColumns,
    RelationLeaf,
)
from pushdown_spark.optimizer.query_context import QueryContext, remove_qualifier
from pushdown_spark.optimizer.sql_dialect import to_sql

# Kinds of joins below which a predicate from above, or from the ON clause, may go to the left or to the right.
_ABOVE_TO_LEFT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
_ABOVE_TO_RIGHT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT})
_ON_TO_LEFT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT, JoinKind.SEMI})
_ON_TO_RIGHT = frozenset({JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})

Predicates = dict[str, tuple[exp.Expr, ...]]
"""Predicates by the relation that they refer to."""


def push_predicates(context: QueryContext) -> None:
    """Set the predicates of each source reference of a query, as SQL.

    No predicate is pushed if its text may mean something else to Spark than to sqlglot, or if names that differ by case
    alone are different columns.
    """
    has_plain_text = context.has_plain_literals and has_plain_meaning(context.spark, context.sql)
    if not has_plain_text or context.case_sensitive:
        return
    for block in context.blocks():
        predicates = pushdown_predicates(block.plan, block.columns, context.types_in(block).is_exact_equality)
        for name, reference in context.references_in(block).items():
            conditions = [remove_qualifier(condition, name) for condition in predicates[name]]
            if conditions and reference.table.args.get("sample") is None:
                context.predicates[reference.view] = " AND ".join(f"({to_sql(condition)})" for condition in conditions)


def pushdown_predicates(plan: Plan, columns: RelationColumns, is_exact_equality: IsExactEquality) -> Predicates:
    """Return for each relation the predicates on it alone that may filter its rows before any join.

    >>> from pushdown_spark.optimizer.logical_plan import select_blocks
    >>> from pushdown_spark.optimizer.sql_reader import parse_query
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
