"""Parse a predicate into sqlglot's AST (Spark dialect) and split it into conjuncts."""

from __future__ import annotations

import re
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_jobs.predicates.long_lists import LongLists
from spark_jobs.predicates.nodes import nodes_of

_READ_OTHERWISE = re.compile(r"\$\{|--[^\n]*(?:\r|\\\n)")
_OF_ITS_FILE = re.compile(r"\b(?:_metadata|input_file_(?:name|block_start|block_length))\b", re.IGNORECASE)


def parse_predicate(text: str) -> exp.Expr | None:
    """Return the AST of a Spark SQL predicate, or None where sqlglot cannot read it, or reads it otherwise than Spark.

    It cannot read what nests dozens of parentheses deep.

    None is no verdict on the text: Spark's own parser has the last word, and a predicate that only Spark can read is
    evaluated by Spark alone.
    """
    lists = LongLists(text)
    try:
        if not read_alike(text):
            return None
        tree = sqlglot.parse_one(lists.text, dialect="spark", into=exp.Condition)
        return tree if lists.put_back(tree) else sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    except (SqlglotError, RecursionError):
        return None


def read_alike(text: str) -> bool:
    """Whether Spark takes the text for the same words as sqlglot does.

    Spark puts settings in place of `${...}`, ends a `--` comment at a carriage return, though not behind a backslash,
    and takes two quotes inside a literal for one where sqlglot sees two literals. May raise SqlglotError for no SQL.
    """
    if _READ_OTHERWISE.search(text):
        return False
    if "'" not in text and '"' not in text:
        return True
    strings = (token.token_type is sqlglot.TokenType.STRING for token in sqlglot.tokenize(text, dialect="spark"))
    return not any(one and other for one, other in pairwise(strings))


def asks_of_its_file(text: str) -> bool:
    """Whether SQL may ask for what only the rows of Spark's own readers know: the file that they come from."""
    return _OF_ITS_FILE.search(text) is not None


def conjuncts(predicate: exp.Expr) -> list[exp.Expr]:
    """Split a predicate at its top-level ANDs, left to right.

    >>> [c.sql() for c in conjuncts(parse_predicate("a = 1 AND (b = 2 AND (c = 3 OR d = 4))"))]
    ['a = 1', 'b = 2', 'c = 3 OR d = 4']
    """
    found: list[exp.Expr] = []
    pending = [predicate.unnest()]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And):
            pending += [part.right.unnest(), part.left.unnest()]
        else:
            found.append(part)
    return found


def column_path(column: exp.Expr) -> tuple[str, ...] | None:
    """Return the dotted parts of a column reference, or None for anything that is not plain member access.

    >>> column_path(sqlglot.parse_one("a.b.c.d.e", dialect="spark"))
    ('a', 'b', 'c', 'd', 'e')
    """
    if isinstance(column, exp.Dot) and isinstance(column.expression, exp.Identifier):
        head = column_path(column.this)
        return None if head is None else (*head, column.expression.name)
    if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
        return tuple(part.name for part in column.parts)
    return None


def has_subquery(predicate: exp.Expr) -> bool:
    """Whether the predicate reads anything besides the source's own row."""
    return any(True for _ in nodes_of(predicate, exp.Select, exp.Subquery, exp.Exists))
