"""LIKE and RLIKE on string columns, with wildcards and classes that every database reads alike."""

from __future__ import annotations

from sqlglot import exp

from pushdown_spark.databases.conditions import Conditions
from pushdown_spark.databases.model import Dialect
from pushdown_spark.databases.texts import Test, TextForm, escaped, glob
from pushdown_spark.predicates.compile import compile_filter
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.derive import Scope
from pushdown_spark.predicates.like import Wild, split_pattern
from pushdown_spark.predicates.parse import column_path
from pushdown_spark.predicates.vector import Pattern


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
    compiled = compile_filter(node, scope)
    if isinstance(compiled, str):
        raise UnsupportedError(compiled)
    if not any(isinstance(part, Pattern) for part in (compiled.root, getattr(compiled.root, "part", None))):
        return None
    path = column_path(like.this) or ()
    column = conditions.table.column(path[-1], scope.case_sensitive) if path else None
    if column is None:
        raise UnsupportedError(f"{'.'.join(path)} is no column of the remote table")
    form = conditions.text(conditions.operand(column))
    escape = node.expression.name if isinstance(node, exp.Escape) else "\\"
    parts = split_pattern(like.expression.name, escape)
    return _like(form, parts, conditions)


def _like(form: TextForm, parts: list[str | Wild], conditions: Conditions) -> Test:
    if form.dialect is not Dialect.SQLITE:
        return form.like("".join(part.value if isinstance(part, Wild) else escaped(part) for part in parts))
    if form.stops_at_nul is not None:
        conditions.guards.append(form.stops_at_nul())
    texts, wild = [""], []
    for part in parts:
        if isinstance(part, Wild):
            wild.append("*" if part is Wild.ANY else "?")
            texts.append("")
        else:
            texts[-1] += part
    return glob(form, texts, wild)
