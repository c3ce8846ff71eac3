"""Takes out of alternatives what all of them demand, so that an equality among it connects relations.

Spark does so, too, before it looks at the order of joins (`BooleanSimplification`).
"""

from __future__ import annotations

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts


def factored(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that together are this one: itself, unless all of its alternatives have some in common.

    >>> import sqlglot
    >>> [part.sql() for part in factored(sqlglot.condition("(a.k = b.k AND p = 1) OR (q = 2 AND a.k = b.k)"))]
    ['a.k = b.k', 'p = 1 OR q = 2']
    >>> [part.sql() for part in factored(sqlglot.condition("(k = 1 AND p = 1) OR k = 1"))]
    ['k = 1']
    """
    condition = condition.unnest()
    if not isinstance(condition, exp.Or):
        return [condition]
    alternatives = [conjuncts(each) for each in condition.flatten()]
    common = [part for part in dict.fromkeys(alternatives[0]) if all(part in each for each in alternatives[1:])]
    if not common:
        return [condition]
    rest = [[part for part in each if part not in common] for each in alternatives]
    return common if [] in rest else [*common, exp.or_(*(exp.and_(*each) for each in rest))]
