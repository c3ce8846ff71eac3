"""Remote SQL as trees. Operands are in parentheses, so that precedence never changes the meaning.

Literals have exactly Spark's value, whatever the settings of the database. Trees may share parts, because no tree is
changed after it is built: `to_sql` and PushedPredicate copy them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache

from sqlglot import ErrorLevel, exp

from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable, quote_identifier
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import MICROSECONDS_PER_DAY

_SQLGLOT_DIALECTS = {
    Dialect.POSTGRES: "postgres",
    Dialect.MYSQL: "mysql",
    Dialect.MARIADB: "mysql",
    Dialect.SQLITE: "sqlite",
}
_ATOMS = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean, exp.Introducer, exp.HexString)
"""Nodes that bind tighter than any operator. In sqlglot, AND and OR are functions too."""
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
"""ASCII without control characters, quotes and backslashes, which means the same under every `sql_mode`."""
_EPOCH = date(1970, 1, 1)
_START = datetime(1970, 1, 1)
_YEARS = (date(1, 1, 1), date(9999, 12, 31))
_MAX_PLAIN_DIGITS = 15
_MAX_EXPONENT_STEP = 30
"""The largest exponent of two in a factor. SQLite reads such factors without rounding."""
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


def has_other_arguments(node: exp.Expr, *expected: str) -> bool:
    """Return whether a node of sqlglot has arguments other than these."""
    return any(value for key, value in node.args.items() if key not in expected)


def table_reference(table: RemoteTable) -> exp.Table | exp.Subquery:
    """Return the qualified table, or the user's query in parentheses.

    The query is sent as written, because parsing and writing it could change its meaning. It may end with a comment.
    """
    if table.subquery is not None:
        query = exp.Var(this=f"{table.subquery}\n")
        return exp.Subquery(this=query, alias=exp.TableAlias(this=quote_identifier(table.name)))
    parts = {"db": table.schema, "catalog": table.catalog}
    return exp.Table(
        this=quote_identifier(table.name),
        **{key: quote_identifier(name) for key, name in parts.items() if name is not None},
    )


def parenthesize(node: exp.Expr) -> exp.Expr:
    """Return an operand in parentheses if it needs them."""
    is_atom = isinstance(node, _ATOMS) and not isinstance(node, exp.Connector)
    return node if is_atom else exp.Paren(this=node)


def binary(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return `left operator right`."""
    return operator(this=parenthesize(left), expression=parenthesize(right))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a function call with the database's own name, which sqlglot does not translate."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(node: exp.Expr, name: str, dialect: Dialect) -> exp.Expr:
    """Return a cast to a type, given by the database's own name."""
    return exp.Cast(this=node, to=_data_type(name, _SQLGLOT_DIALECTS[dialect]).copy())


def collate(node: exp.Expr, collation: str) -> exp.Expr:
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
    tree = parts[0] if len(parts) == 1 else parenthesize(parts[0])
    for part in parts[1:]:
        tree = connector(this=tree, expression=parenthesize(part))
    return tree


def negate(node: exp.Expr) -> exp.Expr:
    """Return the negation. Two NOTs cancel each other."""
    return node.this if isinstance(node, exp.Not) else exp.Not(this=parenthesize(node))


def is_null(node: exp.Expr) -> exp.Expr:
    """Return `node IS NULL`, or false for tests that are never NULL: MySQL 8.0.12 takes some of them for NULL."""
    if isinstance(node.unnest(), exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
        return exp.Boolean(this=False)
    return exp.Is(this=parenthesize(node), expression=exp.Null())


def is_true(node: exp.Expr) -> exp.Expr:
    """Return `node IS TRUE`."""
    return exp.Is(this=parenthesize(node), expression=exp.Boolean(this=True))


def in_values(node: exp.Expr, values: Sequence[exp.Expr], dialect: Dialect) -> exp.Expr:
    """Return `node IN (values)`. A long list is one node, because trees are copied several times.

    The values must not be used afterwards.
    """
    if len(values) < _LONG_LIST:
        return exp.In(this=parenthesize(node), expressions=list(values))
    items = to_sql(exp.Tuple(expressions=list(values)), dialect, copy=False)[1:-1]
    return exp.In(this=parenthesize(node), expressions=[exp.Var(this=items)])


def in_integers(node: exp.Expr, numbers: Sequence[int], *, has_null: bool) -> exp.Expr:
    """Return `node IN (numbers)` with the list as one node, because thousands of nodes take time."""
    literals = [str(number) if number >= 0 else f"({number})" for number in numbers]
    items = ", ".join([*literals, "NULL"] if has_null else literals)
    return exp.In(this=parenthesize(node), expressions=[exp.Var(this=items)])


def number(value: int | Decimal | str) -> exp.Expr:
    """Return an exact number, in parentheses if it is negative."""
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    positive = exp.Literal.number(text.lstrip("-"))
    return exp.Paren(this=exp.Neg(this=positive)) if text.startswith("-") else positive


def double(value: float, dialect: Dialect) -> exp.Expr:
    """Return a double with the same bits. Raises UnsupportedError if the database has no NaN or infinity."""
    if dialect is Dialect.POSTGRES:
        return cast(exp.Literal.string(repr(value).replace("inf", "Infinity")), "DOUBLE PRECISION", dialect)
    if math.isnan(value) or (math.isinf(value) and dialect.is_mysql):
        raise UnsupportedError(f"{dialect} has no {value}")
    if dialect is Dialect.SQLITE:
        return _sqlite_double(value)
    # MySQL reads a number without an exponent as a decimal.
    mantissa, _, exponent = repr(value).partition("e")
    return number(f"{mantissa}e{int(exponent or 0)}")


def _sqlite_double(value: float) -> exp.Expr:
    """Return a double as an integer times powers of two, because SQLite rounds long decimal literals inexactly."""
    if math.isinf(value):
        return number("9e999" if value > 0 else "-9e999")
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    if len(digits) <= _MAX_PLAIN_DIGITS and (value == 0 or 1e-7 < abs(value) < 1e15):
        return number(Decimal(repr(value)))
    mantissa, exponent = math.frexp(value)
    tree = cast(number(int(mantissa * 2**53)), "REAL", Dialect.SQLITE)
    exponent -= 53
    while exponent:
        step = max(-_MAX_EXPONENT_STEP, min(_MAX_EXPONENT_STEP, exponent))
        operator = exp.Mul if step > 0 else exp.Div
        factor = exp.Literal.number(f"{2 ** abs(step)}.0")
        tree = exp.Paren(this=operator(this=tree, expression=factor, **({} if step > 0 else {"typed": True})))
        exponent -= step
    return tree


def text_literal(value: str, dialect: Dialect) -> exp.Expr:
    """Return a string. Raises UnsupportedError for strings that databases cannot hold."""
    check_text(value)
    if dialect.is_mysql and not _PLAIN.fullmatch(value):
        return exp.Introducer(this=exp.Var(this="_utf8mb4"), expression=exp.HexString(this=value.encode().hex()))
    return exp.Literal.string(value)


def check_text(value: str) -> None:
    """Raise UnsupportedError for strings that cannot be sent."""
    if "\0" in value:
        raise UnsupportedError("the string contains a NUL character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise UnsupportedError("the string cannot be encoded in UTF-8")


def bytes_literal(value: bytes, dialect: Dialect) -> exp.Expr:
    """Return a constant of type binary."""
    if dialect is Dialect.POSTGRES:
        return call("DECODE", exp.Literal.string(value.hex()), exp.Literal.string("hex"))
    return exp.HexString(this=value.hex())


def _day(days: int) -> date:
    """Return a date. Raises UnsupportedError outside the years 1 to 9999."""
    if not (_YEARS[0] - _EPOCH).days <= days <= (_YEARS[1] - _EPOCH).days:
        raise UnsupportedError("the date is outside the years 1 to 9999")
    return _EPOCH + timedelta(days=days)


def date_literal(days: int, dialect: Dialect) -> exp.Expr:
    """Return a date. `days` count from 1970-01-01."""
    content = exp.Literal.string(_day(days).isoformat())
    return content if dialect is Dialect.SQLITE else cast(content, "DATE", dialect)


def timestamp_literal(micros: int, dialect: Dialect, *, has_zone: bool) -> exp.Expr:
    """Return a timestamp in UTC, or without a time zone. `micros` count from 1970-01-01.

    MySQL's literals have no time zone, so its session must be in UTC. SQLite compares strings.
    """
    _day(micros // MICROSECONDS_PER_DAY)
    content = (_START + timedelta(microseconds=micros)).isoformat(sep=" ", timespec="microseconds")
    if dialect is Dialect.POSTGRES:
        name = "TIMESTAMPTZ" if has_zone else "TIMESTAMP"
        return cast(exp.Literal.string(content + ("+00" if has_zone else "")), name, dialect)
    if dialect is Dialect.SQLITE:
        return exp.Literal.string(content)
    return cast(exp.Literal.string(content), "DATETIME(6)", dialect)
