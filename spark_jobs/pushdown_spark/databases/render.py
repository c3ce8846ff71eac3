"""Builds remote SQL as a tree in which every operand stands in parentheses, and writes it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import ErrorLevel, exp

from pushdown_spark.databases.model import Dialect, RemoteTable

_WRITERS = {Dialect.POSTGRES: "postgres", Dialect.MYSQL: "mysql", Dialect.MARIADB: "mysql", Dialect.SQLITE: "sqlite"}
_CLOSED = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean, exp.Introducer, exp.HexString)
"""What binds tighter than any operator. AND and OR are functions to sqlglot."""
_WAITING: dict[type[exp.Expr], int] = {exp.Paren: 1, exp.Not: 1, exp.Case: 3, exp.If: 3}
"""Words of a node that wait while the last part of it is read, at most; else a name and what is before a comma, or an
operand and its operator."""
_ABREAST = 100
"""Parts of an AND or OR side by side; more are put in parentheses: databases take each for a level of the tree."""
_MANY = 100
"""Constants of a list from which on it is one leaf."""


def to_sql(tree: exp.Expr, dialect: Dialect, *, copy: bool = True) -> str:
    """The text of a remote tree, which is spoilt by that without a copy.

    Raises sqlglot's UnsupportedError for a node that the database has no word for.
    """
    return tree.sql(dialect=_WRITERS[dialect], unsupported_level=ErrorLevel.RAISE, comments=False, copy=copy)


def quoted(name: str) -> exp.Identifier:
    """A name as it is, whatever characters it has."""
    return exp.to_identifier(name, quoted=True)


def column_reference(table: RemoteTable, name: str) -> exp.Column:
    """A column of the table by its exact name."""
    return exp.Column(this=quoted(name))


def table_reference(table: RemoteTable) -> exp.Table | exp.Subquery:
    """The table, with its schema where that is known; the user's own query in parentheses where there is one.

    The query stays as it is written: read and written anew, some would mean something else. A comment may end it.
    """
    if table.subquery is not None:
        written = exp.Var(this=f"{table.subquery}\n")
        return exp.Subquery(this=written, alias=exp.TableAlias(this=quoted(table.name)))
    parts = {"db": table.schema, "catalog": table.catalog}
    return exp.Table(this=quoted(table.name), **{key: quoted(name) for key, name in parts.items() if name is not None})


def wrapped(node: exp.Expr) -> exp.Expr:
    """An operand that no neighbouring operator can tear apart."""
    closed = isinstance(node, _CLOSED) and not isinstance(node, exp.Connector)
    return node if closed else exp.Paren(this=node)


def binary(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """`left operator right`."""
    return operator(this=wrapped(left), expression=wrapped(right))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function of the remote by its own name, which sqlglot must not translate."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(node: exp.Expr, name: str, dialect: Dialect) -> exp.Expr:
    """A cast to a type by the remote's own name."""
    return exp.Cast(this=node, to=_data_type(name, _WRITERS[dialect]).copy())


def parser_depth(tree: exp.Expr) -> int:
    """At most so many words wait at a time while a parser that goes from left to right reads a remote tree."""

    def waiting(node: exp.Expr, child: exp.Expr) -> int:
        is_first = isinstance(node, exp.Binary) and child is node.this
        return 0 if is_first else _WAITING.get(type(node), 4)

    return 1 + longest_path(tree, waiting)


def longest_path(tree: exp.Expr, length: Callable[[exp.Expr, exp.Expr], int]) -> int:
    """The longest way from the root down, by the length of the step from a node to its child."""
    longest, pending = 0, [(tree, 0)]
    while pending:
        here, passed = pending.pop()
        longest = max(longest, passed)
        for child in here.iter_expressions():
            reached = passed + length(here, child)
            if isinstance(child, exp.Literal):
                longest = max(longest, reached)
            else:
                pending.append((child, reached))
    return longest


@cache
def _data_type(name: str, dialect: str) -> exp.DataType:
    """A type by its name, parsed once for all columns that have it."""
    return exp.DataType.build(name, dialect=dialect)


def all_of(parts: Sequence[exp.Expr]) -> exp.Expr:
    """The AND of one or more parts."""
    return _joined(exp.And, parts)


def any_of(parts: Sequence[exp.Expr]) -> exp.Expr:
    """The OR of one or more parts."""
    return _joined(exp.Or, parts)


def _joined(connector: type[exp.Connector], parts: Sequence[exp.Expr]) -> exp.Expr:
    while len(parts) > _ABREAST:
        parts = [_joined(connector, parts[start : start + _ABREAST]) for start in range(0, len(parts), _ABREAST)]
    joined = parts[0] if len(parts) == 1 else wrapped(parts[0])
    for part in parts[1:]:
        joined = connector(this=joined, expression=wrapped(part))
    return joined


def negated(node: exp.Expr) -> exp.Expr:
    """NOT, or what it undoes."""
    return node.this if isinstance(node, exp.Not) else exp.Not(this=wrapped(node))


def is_null(node: exp.Expr) -> exp.Expr:
    """`node IS NULL`, which no state and no null-safe comparison is: MySQL 8.0.12 takes some of the latter for NULL."""
    if isinstance(node.unnest(), exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
        return exp.Boolean(this=False)
    return exp.Is(this=wrapped(node), expression=exp.Null())


def is_true(node: exp.Expr) -> exp.Expr:
    """`node IS TRUE`."""
    return exp.Is(this=wrapped(node), expression=exp.Boolean(this=True))


def one_of(node: exp.Expr, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Expr:
    """`node IN (values)`, for constants. A long list is one leaf: a tree is copied and written out several times."""
    if len(values) < _MANY:
        return exp.In(this=wrapped(node), expressions=list(values))
    listed = to_sql(exp.Tuple(expressions=list(values)), dialect, copy=False)
    return exp.In(this=wrapped(node), expressions=[exp.Var(this=listed[1:-1])])


def one_of_numbers(node: exp.Expr, numbers: Sequence[int], *, has_null: bool) -> exp.Expr:
    """`node IN (numbers)`, written as every database reads it. Thousands of nodes for them would take 20 ms."""
    texts = [str(number) if number >= 0 else f"({number})" for number in numbers]
    listed = ", ".join([*texts, "NULL"] if has_null else texts)
    return exp.In(this=wrapped(node), expressions=[exp.Var(this=listed)])
