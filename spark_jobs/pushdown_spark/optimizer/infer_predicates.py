"""Infer predicates for single relations from equalities and from conditions over several relations.

With `a.k = b.k`, a condition on `a.k` holds for `b.k` too. `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` implies
`a.x = 1 OR a.x = 3`. Spark infers the latter from a conjunctive normal form (`PushExtraPredicateThroughJoin`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot import exp

from pushdown_spark.optimizer.logical_plan import Conjunct, RelationColumns, owner

IsExactEquality = Callable[[exp.Column, exp.Column], bool]
"""Returns whether `=` between two columns means that their values are identical: same type, no equal variants."""

_Side = tuple[exp.Column, str]
"""A side of an equality, and the relation that it belongs to."""


def infer_predicates(
    conditions: Sequence[Conjunct], columns: RelationColumns, is_exact_equality: IsExactEquality
) -> tuple[Conjunct, ...]:
    """Return the distinct joinable conjuncts, followed by the predicates that they imply for single relations.

    >>> import sqlglot
    >>> from pushdown_spark.optimizer.logical_plan import conjunct_of
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
                transferred = _transfer(condition, source, target)
                if transferred is not None and transferred.node not in predicates:
                    predicates[transferred.node] = transferred
                    pending.append(transferred)
    return tuple(predicates.values())


def with_implied(conditions: Iterable[Conjunct], columns: RelationColumns) -> tuple[Conjunct, ...]:
    """Return the conjuncts, followed by what those over several relations imply for each of these relations."""
    conditions = tuple(conditions)
    return (*conditions, *(part for each in conditions for part in implied_predicates(each, columns)))


def implied_predicates(condition: Conjunct, columns: RelationColumns) -> Iterator[Conjunct]:
    """Return what a condition over several relations implies for each of them alone.

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
        implied = [part for part in parts if part is not None]
        if isinstance(node, exp.And):
            return exp.and_(*implied, copy=False) if implied else None
        return exp.or_(*implied, copy=False) if len(implied) == len(parts) else None
    if isinstance(node, exp.Paren):
        return _implied_for(node.this, name, columns)
    owners = {owner(column, columns) for column in node.find_all(exp.Column)}
    return node.copy() if owners == {name} else None


def column_equality(node: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    """Return the columns of `a.k = b.k`, or None for any other condition.

    >>> import sqlglot
    >>> [column.sql() for column in column_equality(sqlglot.condition("a.k = (b.k)"))]
    ['a.k', 'b.k']
    """
    if isinstance(node, exp.EQ):
        left, right = node.left.unnest(), node.right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            return left, right
    return None


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
    return (pair[0], left), (pair[1], right)


def _transfer(condition: Conjunct, source: _Side, target: _Side) -> Conjunct | None:
    """Return a condition on the source column as a condition on the target column.

    Return None if the condition refers to any other column.
    """
    if condition.names != {source[1]}:
        return None
    for column in condition.node.find_all(exp.Column):
        # A name in another case may belong to another column.
        if column.name != source[0].name or len(column.parts) > 2:
            return None
    replaced = condition.node.transform(lambda node: target[0].copy() if isinstance(node, exp.Column) else node)
    return Conjunct(replaced, frozenset({target[1]}))
