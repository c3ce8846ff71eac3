"""Conjuncts of a predicate, and walks over syntax trees that skip literals.

Lists of thousands of literals cost nothing in these walks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract.message import shorten

Node = TypeVar("Node", bound=exp.Expr)
_MAX_SHOWN_CHARACTERS = 60
"""The length of expressions in messages."""


def conjuncts(predicate: exp.Expr) -> list[exp.Expr]:
    """Split a predicate at its top-level ANDs, from left to right.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conjuncts(parse_one("a = 1 AND (b = 2 AND (c = 3 OR d = 4))"))]
    ['a = 1', 'b = 2', 'c = 3 OR d = 4']
    """
    parts: list[exp.Expr] = []
    pending = [predicate.unnest()]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And):
            pending += [part.right.unnest(), part.left.unnest()]
        else:
            parts.append(part)
    return parts


def short_sql(node: exp.Expr) -> str:
    """Return an expression as Spark SQL, shortened for messages."""
    return shorten(node.sql(dialect="spark"), _MAX_SHOWN_CHARACTERS)


def has_subquery(predicate: exp.Expr) -> bool:
    """Return whether a predicate reads anything other than the row that it is evaluated on."""
    return any(
        not isinstance(node.args.get("expression"), exp.Lambda)
        for node in nodes_of(predicate, exp.Select, exp.Subquery, exp.Exists)
    )


def nodes_of(tree: exp.Expr, *kinds: type[Node]) -> Iterator[Node]:
    """Yield the nodes of some classes, other than literals, in the order of sqlglot's `find_all`.

    >>> from sqlglot import parse_one
    >>> [node.name for node in nodes_of(parse_one("a IN (1, 2) AND b = a"), exp.Column)]
    ['a', 'b', 'a']
    """
    pending = deque([tree])
    while pending:
        node = pending.popleft()
        if isinstance(node, kinds):
            yield node
        pending.extend(operands(node))


def operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield a node's operands in order, except literals."""
    for value in node.args.values():
        for child in value if isinstance(value, list) else (value,):
            if type(child) is not exp.Literal and isinstance(child, exp.Expr):
                yield child


def column_path(column: exp.Expr) -> tuple[str, ...] | None:
    """Return the parts of a dotted column reference, or None for any other expression.

    >>> column_path(sqlglot.parse_one("a.b.c.d.e", dialect="spark"))
    ('a', 'b', 'c', 'd', 'e')
    """
    if isinstance(column, exp.Dot) and isinstance(column.expression, exp.Identifier):
        head = column_path(column.this)
        return None if head is None else (*head, column.expression.name)
    if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
        return tuple(part.name for part in column.parts)
    return None


def without_relation(column: exp.Column) -> exp.Column:
    """Remove the first part of a column reference. A name that alone is a constant or a function gets quotes."""
    rest = [part.copy() for part in column.parts[1:]]
    if isinstance(rest[0], exp.Identifier) and not _is_column_name(rest[0].name):
        rest[0].set("quoted", True)
    return exp.Column(**dict(zip(("this", "table", "db"), reversed(rest), strict=False)))


@lru_cache(maxsize=1024)
def _is_column_name(word: str) -> bool:
    """Return whether sqlglot reads a word without quotes as a column."""
    try:
        tree = sqlglot.parse_one(word, dialect="spark")
    except SqlglotError:
        return False
    return isinstance(tree, exp.Column) and tree.name == word
