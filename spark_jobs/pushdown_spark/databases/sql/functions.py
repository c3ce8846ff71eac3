"""Functions of strings and dates that have the same meaning in databases and in Spark."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.sql.arithmetic import IntegerRange, TypedExpression
from pushdown_spark.databases.sql.builder import (
    binary,
    call,
    case_when,
    cast,
    date_literal,
    has_other_arguments,
    number,
)
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.databases.sql.string_comparison import PostgresqlString, StringComparison
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import EPOCH_ORDINAL

if TYPE_CHECKING:
    from pushdown_spark.databases.sql.expressions import ExpressionWriter

_LENGTH_RANGE = IntegerRange(0, 2**31 - 1)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Quarter: "QUARTER",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.Second: "SECOND",
}
_YEARS, _OTHER_PARTS = IntegerRange(-300_000, 300_000), IntegerRange(0, 59)
_TIME_PARTS = frozenset({"HOUR", "MINUTE", "SECOND"})
_SQLITE_POSITIONS = {
    "YEAR": (1, 4),
    "MONTH": (6, 2),
    "DAY": (9, 2),
    "HOUR": (12, 2),
    "MINUTE": (15, 2),
    "SECOND": (18, 2),
}
"""First character and length of the parts in SQLite's timestamps. Its date functions would round up late in a day."""
_POSITION_FUNCTIONS = {Dialect.POSTGRES: "STRPOS", Dialect.SQLITE: "INSTR"}
_TRIM_FUNCTIONS = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}


def function_call(node: exp.Expr, writer: ExpressionWriter) -> TypedExpression | None:
    """Return a function of strings or dates, or None for other nodes. Raises UnsupportedError for some arguments."""
    match node:
        case exp.Length() if not has_other_arguments(node, "this"):
            return _length(node.this, writer)
        case exp.Substring() | exp.Left() | exp.Right():
            return _substring(node, writer)
        case exp.StrPosition():
            return _position(node, writer)
        case exp.Trim():
            return _trim(node, writer)
        case exp.Replace():
            return _replace(node, writer)
        case exp.Extract() if node.name.upper() in _DATE_PARTS.values():
            return _date_part(node.name.upper(), node.expression, writer, is_extract=True)
        case _ if type(node) in _DATE_PARTS:
            return _date_part(_DATE_PARTS[type(node)], node.this, writer)
    return None


def _string_argument(node: exp.Expr, writer: ExpressionWriter, *, stops_at_nul: bool = False) -> StringComparison:
    """Return a string argument. `stops_at_nul` is set for functions that may stop at a NUL character."""
    value = writer.value(node)
    if value.comparison is None:
        raise UnsupportedError(f"a {value.type.simpleString()} is cast to a string")
    if stops_at_nul and not value.is_literal:
        writer.recheck(value.comparison.stops_at_nul)
    return value.comparison


def _integer(tree: exp.Expr, limits: IntegerRange) -> TypedExpression:
    return TypedExpression(tree, t.IntegerType(), limits)


def _length(node: exp.Expr, writer: ExpressionWriter) -> TypedExpression:
    comparison = _string_argument(node, writer, stops_at_nul=True)
    if isinstance(comparison, PostgresqlString) and comparison.is_padded:
        raise UnsupportedError("the length of a padded char(n) is not sent")
    name = "LENGTH" if writer.dialect is Dialect.SQLITE else "CHAR_LENGTH"
    return _integer(call(name, comparison.characters), _LENGTH_RANGE)


def _constant(node: exp.Expr | None, writer: ExpressionWriter, minimum: int) -> int:
    value = None if node is None else writer.value(node)
    if value is None or not value.is_literal or not value.is_integer or value.range.low < minimum:
        raise UnsupportedError(f"positions and lengths must be constants of at least {minimum}")
    return min(value.range.low, 2**31 - 1)


def _substring(node: exp.Expr, writer: ExpressionWriter) -> TypedExpression:
    """Return a substring. Positions below 1 are not sent, because databases interpret them differently."""
    characters = _string_argument(node.this, writer, stops_at_nul=True).characters
    if isinstance(node, exp.Right):
        size = _constant(node.expression, writer, 1)
        if writer.dialect is Dialect.SQLITE:
            return writer.string(call("SUBSTR", characters, number(-size)))
        return writer.string(call("RIGHT", characters, number(size)))
    if isinstance(node, exp.Left):
        bounds = [1, _constant(node.expression, writer, 1)]
    else:
        bounds = [_constant(node.args.get("start"), writer, 1)]
        bounds += [_constant(node.args["length"], writer, 0)] if node.args.get("length") is not None else []
    return writer.string(call("SUBSTR", characters, *map(number, bounds)))


def _position(node: exp.StrPosition, writer: ExpressionWriter) -> TypedExpression:
    if has_other_arguments(node, "this", "substr"):
        raise UnsupportedError("only positions from the start are sent")
    comparison = _string_argument(node.this, writer)
    characters, substring = comparison.characters, _search_literal(node.args["substr"], comparison)
    if writer.dialect.is_mysql:
        return _integer(call("LOCATE", substring, characters), _LENGTH_RANGE)
    return _integer(call(_POSITION_FUNCTIONS[writer.dialect], characters, substring), _LENGTH_RANGE)


def _search_literal(node: exp.Expr, comparison: StringComparison) -> exp.Expr:
    node = node.unnest()
    if not isinstance(node, exp.Literal) or not node.is_string or not node.name:
        raise UnsupportedError("the search string must be a constant that is not empty")
    return comparison.text(node.name)


def _trim(node: exp.Trim, writer: ExpressionWriter) -> TypedExpression:
    if has_other_arguments(node, "this", "position"):
        raise UnsupportedError("only spaces can be trimmed")
    name = _TRIM_FUNCTIONS.get(str(node.args.get("position") or ""), "TRIM")
    return writer.string(call(name, _string_argument(node.this, writer).characters))


def _replace(node: exp.Replace, writer: ExpressionWriter) -> TypedExpression:
    comparison = _string_argument(node.this, writer)
    old, replacement = _search_literal(node.expression, comparison), node.args.get("replacement")
    if not isinstance(replacement, exp.Literal) or not replacement.is_string:
        raise UnsupportedError("the replacement must be a constant")
    return writer.string(call("REPLACE", comparison.characters, old, comparison.text(replacement.name)))


def _date_part(name: str, source: exp.Expr, writer: ExpressionWriter, *, is_extract: bool = False) -> TypedExpression:
    """Return a part, from year to second, of a date or of a timestamp without time zone."""
    if isinstance(source, exp.TsOrDsToDate) and not has_other_arguments(source, "this"):
        # The parser adds this cast to a date.
        source = source.this
    value = writer.value(source)
    types = (t.TimestampNTZType,) if name in _TIME_PARTS else (t.TimestampNTZType, t.DateType)
    if not isinstance(value.type, types) or (name == "SECOND" and is_extract):
        raise UnsupportedError(f"{name.lower()} of a {value.type.simpleString()} is not sent")
    part = {Dialect.POSTGRES: _postgresql_part, Dialect.SQLITE: _sqlite_part}.get(writer.dialect, _mysql_part)
    return _integer(part(name, value.tree), _YEARS if name == "YEAR" else _OTHER_PARTS)


def _mysql_part(name: str, tree: exp.Expr) -> exp.Expr:
    part = call("DAYOFMONTH" if name == "DAY" else name, tree)
    # Newer versions of MySQL return an unsigned year, with which a negative difference raises.
    return cast(part, "SIGNED", Dialect.MYSQL) if name == "YEAR" else part


def _postgresql_part(name: str, tree: exp.Expr) -> exp.Expr:
    part: exp.Expr = exp.Extract(this=exp.Var(this=name), expression=tree)
    if name != "YEAR":
        return call("FLOOR", part) if name == "SECOND" else part
    # PostgreSQL has no year 0. The year before 1 is -1, in Spark it is 0.
    is_negative = binary(exp.LT, part, number(0))
    return binary(exp.Add, part, case_when(is_negative, number(1), number(0)))


def _sqlite_part(name: str, tree: exp.Expr) -> exp.Expr:
    if name == "QUARTER":
        months = binary(exp.Add, _sqlite_part("MONTH", tree), number(2))
        return exp.Div(this=exp.Paren(this=months), expression=number(3), typed=True)
    digits = call("SUBSTR", tree, *map(number, _SQLITE_POSITIONS[name]))
    return cast(digits, "INTEGER", Dialect.SQLITE)


def date_of(value: TypedExpression, dialect: Dialect) -> TypedExpression:
    """Return the date of a timestamp without time zone, or a date itself."""
    if isinstance(value.type, t.DateType):
        return value
    if not isinstance(value.type, t.TimestampNTZType):
        raise UnsupportedError(f"the date of a {value.type.simpleString()} is not sent")
    if dialect is Dialect.SQLITE:
        return TypedExpression(call("SUBSTR", value.tree, number(1), number(10)), t.DateType())
    is_postgresql = dialect is Dialect.POSTGRES
    return TypedExpression(
        cast(value.tree, "DATE", dialect) if is_postgresql else call("DATE", value.tree), t.DateType()
    )


def date_constant(node: exp.Expr, dialect: Dialect) -> TypedExpression | None:
    """Return the constant `DATE 'YYYY-MM-DD'`, or None for other nodes."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    if node.to.this is not exp.DataType.Type.DATE or not _DATE.fullmatch(node.this.name):
        return None
    try:
        days = date.fromisoformat(node.this.name).toordinal() - EPOCH_ORDINAL
    except ValueError:
        return None
    return TypedExpression(date_literal(days, dialect), t.DateType(), is_literal=True)
