"""LIKE and RLIKE on string columns, with wildcards and classes that every database reads alike."""

from __future__ import annotations

from sqlglot import exp

from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import LikeMatch, walk
from pushdown_spark.expressions.conjuncts import column_path
from pushdown_spark.expressions.like import Wildcard, split_pattern
from pushdown_spark.expressions.pushdown import UnsupportedError
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.readers.remote.conditions import Conditions
from pushdown_spark.readers.remote.model import Dialect
from pushdown_spark.readers.remote.texts import Test, TextForm, escaped, glob


def pattern_test(node: exp.Expr, conditions: Conditions, scope: Scope) -> Test | None:
    """LIKE with wildcards in places that no simpler test has; None for all else, simpler patterns included.

    A NOT before the LIKE is the caller's.

    Raises UnsupportedError where Spark itself would raise, or where only Spark knows.
    """
    like = node.this if isinstance(node, exp.Escape) else node
    if not isinstance(like, exp.Like) or not isinstance(like.expression, exp.Literal):
        return None
    if conditions.dialect is Dialect.SQLITE and like is node and "\\" in like.expression.name:
        raise UnsupportedError("LIKE escapes nothing in SQLite unless an ESCAPE says so, and is left to Spark")
    bound = bind(node, scope)
    if bound.artifact is None:
        raise UnsupportedError(bound.reason)
    if not any(isinstance(part, LikeMatch) for part in walk(bound.artifact)):
        return None
    path = column_path(like.this) or ()
    column = conditions.table.column(path[-1], scope.case_sensitive) if path else None
    if column is None:
        raise UnsupportedError(f"{'.'.join(path)} is no column of the remote table")
    form = conditions.text(conditions.operand(column))
    escape = node.expression.name if isinstance(node, exp.Escape) else "\\"
    parts = split_pattern(like.expression.name, escape)
    return _like(form, parts, conditions)


def _like(form: TextForm, parts: list[str | Wildcard], conditions: Conditions) -> Test:
    if form.dialect is not Dialect.SQLITE:
        return form.like("".join(part.value if isinstance(part, Wildcard) else escaped(part) for part in parts))
    if form.stops_at_nul is not None:
        conditions.guards.append(form.stops_at_nul())
    texts, wild = [""], []
    for part in parts:
        if isinstance(part, Wildcard):
            wild.append("*" if part is Wildcard.ANY else "?")
            texts.append("")
        else:
            texts[-1] += part
    return glob(form, texts, wild)
