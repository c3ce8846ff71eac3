"""Functions of strings and dates that have the same meaning in databases and in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Protocol

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import sql_literals as literals
from pushdown_spark.databases.remote_table import Dialect
from pushdown_spark.databases.sql_arithmetic import IntegerRange, TypedExpression, integer_range
from pushdown_spark.databases.sql_builder import binary, call, cast
from pushdown_spark.databases.string_comparison import StringComparison, check_ascii
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import EPOCH_ORDINAL

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
_PART_RANGES = {"YEAR": IntegerRange(-300_000, 300_000)}
_DEFAULT_PART_RANGE = IntegerRange(0, 59)
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


class ArgumentWriter(Protocol):
    """The writer of a function's arguments."""

    def value(self, node: exp.Expr) -> TypedExpression:
        """Return the remote expression of a node."""

    def string(self, tree: Callable[[], exp.Expr], *, is_literal: bool = False) -> TypedExpression:
        """Return a string expression."""

    def guard_nul(self, value: TypedExpression) -> None:
        """Add a guard for strings on which functions stop at a NUL character."""


def text_function(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    """Return a function of a string. None for other nodes. Raises UnsupportedError for unsupported arguments."""
    for function in (_length, _substring, _position, _trim_or_replace):
        value = function(node, dialect, writer)
        if value is not None:
            return value
    return None


def _string_argument(node: exp.Expr, writer: ArgumentWriter) -> tuple[TypedExpression, StringComparison]:
    value = writer.value(node)
    if value.comparison is None:
        raise UnsupportedError(f"a {value.type.simpleString()} is cast to a string")
    return value, value.comparison


def _length(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    is_octets = isinstance(node, exp.Anonymous) and node.name.lower() == "octet_length" and len(node.expressions) == 1
    if not is_octets and (not isinstance(node, exp.Length) or _has_other_arguments(node, "this")):
        return None
    value, comparison = _string_argument(node.expressions[0] if is_octets else node.this, writer)
    if comparison.is_padded:
        raise UnsupportedError("the length of a padded char(n) is not sent")
    if is_octets and dialect is Dialect.SQLITE:
        if comparison.ordered is None:
            raise UnsupportedError("the database's encoding is not UTF-8")
        return _integer(lambda: call("LENGTH", cast(comparison.characters(), "BLOB", dialect)), _LENGTH_RANGE)
    if is_octets:
        return _octets(comparison)
    name = "LENGTH" if dialect is Dialect.SQLITE else "CHAR_LENGTH"
    writer.guard_nul(value)
    return _integer(lambda: call(name, comparison.characters()), _LENGTH_RANGE)


def _octets(comparison: StringComparison) -> TypedExpression:
    if comparison.dialect is Dialect.POSTGRES and comparison.ordered is None:
        raise UnsupportedError("the database's encoding is not UTF-8")
    subject = comparison.characters if comparison.dialect is Dialect.POSTGRES else comparison.equal
    return _integer(lambda: call("OCTET_LENGTH", subject()), _LENGTH_RANGE)


def _has_other_arguments(node: exp.Expr, *expected: str) -> bool:
    return any(value for key, value in node.args.items() if key not in expected)


def _integer(tree: Callable[[], exp.Expr], limits: IntegerRange) -> TypedExpression:
    return TypedExpression(tree, t.IntegerType(), limits)


def _constant(node: exp.Expr | None, writer: ArgumentWriter, minimum: int) -> int:
    value = None if node is None else writer.value(node)
    if value is None or not value.is_literal or not value.is_integer or integer_range(value).low < minimum:
        raise UnsupportedError(f"positions and lengths must be constants of at least {minimum}")
    return min(integer_range(value).low, 2**31 - 1)


def _substring(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    """Return a substring. Positions below 1 are not sent, because databases interpret them differently."""
    if not isinstance(node, exp.Substring | exp.Left | exp.Right):
        return None
    value, comparison = _string_argument(node.this, writer)
    writer.guard_nul(value)
    if isinstance(node, exp.Right):
        size = _constant(node.expression, writer, 1)
        if dialect is Dialect.SQLITE:
            return writer.string(lambda: call("SUBSTR", comparison.characters(), literals.number(-size)))
        return writer.string(lambda: call("RIGHT", comparison.characters(), literals.number(size)))
    if isinstance(node, exp.Left):
        bounds = [1, _constant(node.expression, writer, 1)]
    else:
        bounds = [_constant(node.args.get("start"), writer, 1)]
        bounds += [_constant(node.args["length"], writer, 0)] if node.args.get("length") is not None else []
    return writer.string(lambda: call("SUBSTR", comparison.characters(), *map(literals.number, bounds)))


def _position(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    if not isinstance(node, exp.StrPosition):
        return None
    if _has_other_arguments(node, "this", "substr"):
        raise UnsupportedError("only positions from the start are sent")
    _, comparison = _string_argument(node.this, writer)
    substring = _search_literal(node.args["substr"], comparison)
    if dialect is Dialect.POSTGRES:
        return _integer(lambda: call("STRPOS", comparison.characters(), substring()), _LENGTH_RANGE)
    if dialect is Dialect.SQLITE:
        return _integer(lambda: call("INSTR", comparison.characters(), substring()), _LENGTH_RANGE)
    return _integer(lambda: call("LOCATE", substring(), comparison.characters()), _LENGTH_RANGE)


def _search_literal(node: exp.Expr, comparison: StringComparison) -> Callable[[], exp.Expr]:
    node = node.unnest()
    if not isinstance(node, exp.Literal) or not node.is_string or not node.name:
        raise UnsupportedError("the search string must be a constant that is not empty")
    return _plain_literal(node.name, comparison)


def _plain_literal(text: str, comparison: StringComparison) -> Callable[[], exp.Expr]:
    """Return a string constant. Raises UnsupportedError if the database may not be able to encode it."""
    literals.check_text(text)
    # Without an order by bytes, a PostgreSQL database has another encoding than UTF-8.
    if comparison.dialect is Dialect.POSTGRES and comparison.ordered is None:
        check_ascii(text)
    return lambda: literals.text(text, comparison.dialect)


def _trim_or_replace(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    if isinstance(node, exp.Trim):
        if _has_other_arguments(node, "this", "position"):
            raise UnsupportedError("only spaces can be trimmed")
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(str(node.args.get("position") or ""), "TRIM")
        _, comparison = _string_argument(node.this, writer)
        return writer.string(lambda: call(name, comparison.characters()))
    if isinstance(node, exp.Replace):
        _, comparison = _string_argument(node.this, writer)
        old = _search_literal(node.expression, comparison)
        replacement = node.args.get("replacement")
        if not isinstance(replacement, exp.Literal) or not replacement.is_string:
            raise UnsupportedError("the replacement must be a constant")
        new = _plain_literal(replacement.name, comparison)
        return writer.string(lambda: call("REPLACE", comparison.characters(), old(), new()))
    return None


def date_part(node: exp.Expr, dialect: Dialect, writer: ArgumentWriter) -> TypedExpression | None:
    """Return a part, from year to second, of a date or of a timestamp without time zone. None for other nodes."""
    if isinstance(node, exp.Extract) and node.name.upper() in _DATE_PARTS.values():
        name, source = node.name.upper(), node.expression
    elif type(node) in _DATE_PARTS:
        name, source = _DATE_PARTS[type(node)], node.this
    else:
        return None
    value = writer.value(_without_implicit_cast(source))
    types = (t.TimestampNTZType,) if name in _TIME_PARTS else (t.TimestampNTZType, t.DateType)
    if not isinstance(value.type, types) or (name == "SECOND" and isinstance(node, exp.Extract)):
        raise UnsupportedError(f"{name.lower()} of a {value.type.simpleString()} is not sent")
    return _integer(lambda: _extract(name, value, dialect), _PART_RANGES.get(name, _DEFAULT_PART_RANGE))


def _without_implicit_cast(node: exp.Expr) -> exp.Expr:
    """Return a node without the cast to a date that the parser adds."""
    return node.this if isinstance(node, exp.TsOrDsToDate) and not _has_other_arguments(node, "this") else node


def _extract(name: str, value: TypedExpression, dialect: Dialect) -> exp.Expr:
    if dialect is Dialect.SQLITE:
        return _sqlite_part(name, value)
    if dialect.is_mysql:
        part: exp.Expr = call("DAYOFMONTH" if name == "DAY" else name, value.tree())
        # Newer versions of MySQL return an unsigned year, with which a negative difference raises.
        return cast(part, "SIGNED", dialect) if name == "YEAR" else part
    part = exp.Extract(this=exp.Var(this=name), expression=value.tree())
    if name == "SECOND":
        part = call("FLOOR", part)
    if name != "YEAR":
        return part
    # PostgreSQL has no year 0. The year before 1 is -1, in Spark it is 0.
    correction = exp.If(this=binary(exp.LT, part.copy(), literals.number(0)), true=literals.number(1))
    return binary(exp.Add, part, exp.Case(ifs=[correction], default=literals.number(0)))


def _sqlite_part(name: str, value: TypedExpression) -> exp.Expr:
    if name == "QUARTER":
        months = binary(exp.Add, _sqlite_part("MONTH", value), literals.number(2))
        return exp.Div(this=exp.Paren(this=months), expression=literals.number(3), typed=True)
    digits = call("SUBSTR", value.tree(), *map(literals.number, _SQLITE_POSITIONS[name]))
    return cast(digits, "INTEGER", Dialect.SQLITE)


def date_of(value: TypedExpression, dialect: Dialect) -> TypedExpression:
    """Return the date of a timestamp without time zone, or a date itself."""
    if isinstance(value.type, t.DateType):
        return value
    if isinstance(value.type, t.TimestampNTZType):
        if dialect is Dialect.POSTGRES:
            return TypedExpression(lambda: cast(value.tree(), "DATE", dialect), t.DateType())
        if dialect is Dialect.SQLITE:
            return TypedExpression(
                lambda: call("SUBSTR", value.tree(), literals.number(1), literals.number(10)), t.DateType()
            )
        return TypedExpression(lambda: call("DATE", value.tree()), t.DateType())
    raise UnsupportedError(f"the date of a {value.type.simpleString()} is not sent")


def date_constant(node: exp.Expr, dialect: Dialect) -> TypedExpression | None:
    """Return the constant `DATE 'YYYY-MM-DD'`. None for other nodes."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    if node.to.this is not exp.DataType.Type.DATE or not _DATE.fullmatch(node.this.name):
        return None
    try:
        days = date.fromisoformat(node.this.name).toordinal() - EPOCH_ORDINAL
    except ValueError:
        return None
    return TypedExpression(lambda: literals.date_literal(days, dialect), t.DateType(), is_literal=True)
