"""Remote SQL as trees. Operands are in parentheses, so that precedence never changes the meaning.

Trees may share parts, because no tree is changed after it is built: `to_sql` and Pushdown copy them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import ErrorLevel, exp

from pushdown_spark.databases.remote_table import Dialect, RemoteTable, quoted

_SQLGLOT_DIALECTS = {
    Dialect.POSTGRES: "postgres",
    Dialect.MYSQL: "mysql",
    Dialect.MARIADB: "mysql",
    Dialect.SQLITE: "sqlite",
}
_ATOMS = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean, exp.Introducer, exp.HexString)
"""Nodes that bind tighter than any operator. In sqlglot, AND and OR are functions too."""
_STACKED_TOKENS: dict[type[exp.Expr], int] = {exp.Paren: 1, exp.Not: 1, exp.Case: 3, exp.If: 3}
"""Tokens on the parser's stack while it reads the last part of a node. The default is 4 (operator and operand, or name
and comma)."""
_MAX_SIBLINGS = 100
"""Parts of an AND or OR before they are grouped. Databases parse a chain as a tree with a level for each part."""
_LONG_LIST = 100
"""Number of constants from which a list is written as one node."""


def to_sql(tree: exp.Expr, dialect: Dialect, *, copy: bool = True) -> str:
    """Return the SQL of a remote tree. Without `copy`, the tree must not be used afterwards.

    Raises sqlglot's UnsupportedError for nodes that the dialect lacks.
    """
    return tree.sql(dialect=_SQLGLOT_DIALECTS[dialect], unsupported_level=ErrorLevel.RAISE, comments=False, copy=copy)


def table_reference(table: RemoteTable) -> exp.Table | exp.Subquery:
    """Return the qualified table, or the user's query in parentheses.

    The query is sent as written, because parsing and writing it could change its meaning. It may end with a comment.
    """
    if table.subquery is not None:
        query = exp.Var(this=f"{table.subquery}\n")
        return exp.Subquery(this=query, alias=exp.TableAlias(this=quoted(table.name)))
    parts = {"db": table.schema, "catalog": table.catalog}
    return exp.Table(this=quoted(table.name), **{key: quoted(name) for key, name in parts.items() if name is not None})


def parenthesized(node: exp.Expr) -> exp.Expr:
    """Return an operand in parentheses if it needs them."""
    is_atom = isinstance(node, _ATOMS) and not isinstance(node, exp.Connector)
    return node if is_atom else exp.Paren(this=node)


def binary(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return `left operator right`."""
    return operator(this=parenthesized(left), expression=parenthesized(right))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a function call with the database's own name, which sqlglot does not translate."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(node: exp.Expr, name: str, dialect: Dialect) -> exp.Expr:
    """Return a cast to a type, given by the database's own name."""
    return exp.Cast(this=node, to=_data_type(name, _SQLGLOT_DIALECTS[dialect]).copy())


def collated(node: exp.Expr, collation: str) -> exp.Expr:
    """Return a string in a collation."""
    operand = exp.Paren(this=node) if isinstance(node, exp.Binary | exp.Case) else node
    return exp.Collate(this=operand, expression=exp.Var(this=collation))


def case_when(test: exp.Expr, value: exp.Expr, default: exp.Expr | None = None) -> exp.Expr:
    """Return `CASE WHEN test THEN value ELSE default END`."""
    return exp.Case(ifs=[exp.If(this=test, true=value)], default=default)


def parser_depth(tree: exp.Expr) -> int:
    """Return the most tokens on the stack of a left-to-right parser that reads a tree."""

    def step(node: exp.Expr, child: exp.Expr) -> int:
        is_first = isinstance(node, exp.Binary) and child is node.this
        return 0 if is_first else _STACKED_TOKENS.get(type(node), 4)

    return 1 + longest_path(tree, step)


def longest_path(tree: exp.Expr, length: Callable[[exp.Expr, exp.Expr], int]) -> int:
    """Return the longest path from the root to a leaf. `length` is the length of the step from a node to a child."""
    longest, pending = 0, [(tree, 0)]
    while pending:
        node, distance = pending.pop()
        longest = max(longest, distance)
        for child in node.iter_expressions():
            child_distance = distance + length(node, child)
            if isinstance(child, exp.Literal):
                longest = max(longest, child_distance)
            else:
                pending.append((child, child_distance))
    return longest


@cache
def _data_type(name: str, dialect: str) -> exp.DataType:
    """Parse a type."""
    return exp.DataType.build(name, dialect=dialect)


def all_of(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Return the AND of one or more parts."""
    return _chain(exp.And, parts)


def any_of(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Return the OR of one or more parts."""
    return _chain(exp.Or, parts)


def _chain(connector: type[exp.Connector], parts: Sequence[exp.Expr]) -> exp.Expr:
    while len(parts) > _MAX_SIBLINGS:
        starts = range(0, len(parts), _MAX_SIBLINGS)
        parts = [_chain(connector, parts[start : start + _MAX_SIBLINGS]) for start in starts]
    tree = parts[0] if len(parts) == 1 else parenthesized(parts[0])
    for part in parts[1:]:
        tree = connector(this=tree, expression=parenthesized(part))
    return tree


def negated(node: exp.Expr) -> exp.Expr:
    """Return the negation. Two NOTs cancel each other."""
    return node.this if isinstance(node, exp.Not) else exp.Not(this=parenthesized(node))


def is_null(node: exp.Expr) -> exp.Expr:
    """Return `node IS NULL`, or false for tests that are never NULL: MySQL 8.0.12 takes some of them for NULL."""
    if isinstance(node.unnest(), exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
        return exp.Boolean(this=False)
    return exp.Is(this=parenthesized(node), expression=exp.Null())


def is_true(node: exp.Expr) -> exp.Expr:
    """Return `node IS TRUE`."""
    return exp.Is(this=parenthesized(node), expression=exp.Boolean(this=True))


def in_list(node: exp.Expr, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Expr:
    """Return `node IN (values)` for constants. A long list is one node, because trees are copied several times."""
    if len(values) < _LONG_LIST:
        return exp.In(this=parenthesized(node), expressions=list(values))
    listed = to_sql(exp.Tuple(expressions=list(values)), dialect, copy=False)
    return exp.In(this=parenthesized(node), expressions=[exp.Var(this=listed[1:-1])])


def in_integers(node: exp.Expr, numbers: Sequence[int], *, has_null: bool) -> exp.Expr:
    """Return `node IN (numbers)` with the list as one node. Thousands of nodes would take 20 ms."""
    literals = [str(number) if number >= 0 else f"({number})" for number in numbers]
    listed = ", ".join([*literals, "NULL"] if has_null else literals)
    return exp.In(this=parenthesized(node), expressions=[exp.Var(this=listed)])
