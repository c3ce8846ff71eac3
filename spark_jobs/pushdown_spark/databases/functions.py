"""Functions of strings and dates that mean the same here and there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Protocol

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import literals
from pushdown_spark.databases.model import Dialect
from pushdown_spark.databases.render import binary, call, cast
from pushdown_spark.databases.texts import TextForm
from pushdown_spark.databases.values import Range, Value, bound
from pushdown_spark.predicates.constants import UnsupportedError

_LENGTHS = Range(0, 2**31 - 1)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = date(1970, 1, 1).toordinal()
_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Quarter: "QUARTER",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.Second: "SECOND",
}
_RANGES = {"YEAR": Range(-300_000, 300_000)}
_FEW = Range(0, 59)
_CLOCK = frozenset({"HOUR", "MINUTE", "SECOND"})
_PLACES = {"YEAR": (1, 4), "MONTH": (6, 2), "DAY": (9, 2), "HOUR": (12, 2), "MINUTE": (15, 2), "SECOND": (18, 2)}
"""Where the parts are in the text that SQLite holds; its date functions round the last moments of a day up."""


class Writer(Protocol):
    """What functions need to write their arguments."""

    def value(self, node: exp.Expr) -> Value:
        """A typed expression."""

    def string(self, tree: Callable[[], exp.Expr], *, is_literal: bool = False) -> Value:
        """A computed string."""

    def guard_nul(self, value: Value) -> None:
        """Keeps the strings whose functions would end at a NUL."""


def text_function(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    """A function of a string; None for other nodes. Raises UnsupportedError where arguments are of no use there."""
    known = _length(node, dialect, writer) or _part(node, dialect, writer)
    return known or _position(node, dialect, writer) or _changed(node, dialect, writer)


def _text(node: exp.Expr, writer: Writer) -> tuple[Value, TextForm]:
    value = writer.value(node)
    if value.text is None:
        raise UnsupportedError(f"a {value.type.simpleString()} would be cast to a string")
    return value, value.text


def _length(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    is_octets = isinstance(node, exp.Anonymous) and node.name.lower() == "octet_length" and len(node.expressions) == 1
    if not is_octets and (not isinstance(node, exp.Length) or _extra(node, "this")):
        return None
    value, form = _text(node.expressions[0] if is_octets else node.this, writer)
    if form.is_padded:
        raise UnsupportedError("the length of a padded char(n) is left to Spark")
    if is_octets and dialect is Dialect.SQLITE:
        if form.ordered is None:
            raise UnsupportedError("the database's encoding is not UTF-8")
        return _integer(lambda: call("LENGTH", cast(form.characters(), "BLOB", dialect)), _LENGTHS)
    if is_octets:
        return _octets(form)
    name = "LENGTH" if dialect is Dialect.SQLITE else "CHAR_LENGTH"
    writer.guard_nul(value)
    return _integer(lambda: call(name, form.characters()), _LENGTHS)


def _octets(form: TextForm) -> Value:
    if form.dialect is Dialect.POSTGRES and form.ordered is None:
        raise UnsupportedError("the database's encoding is not UTF-8")
    made = form.characters if form.dialect is Dialect.POSTGRES else form.equal
    return _integer(lambda: call("OCTET_LENGTH", made()), _LENGTHS)


def _extra(node: exp.Expr, *known: str) -> bool:
    return any(value for key, value in node.args.items() if key not in known)


def _integer(tree: Callable[[], exp.Expr], limits: Range) -> Value:
    return Value(tree, t.IntegerType(), limits)


def _count(node: exp.Expr | None, writer: Writer, least: int) -> int:
    value = None if node is None else writer.value(node)
    if value is None or not value.is_literal or not value.is_integer or bound(value).low < least:
        raise UnsupportedError(f"positions and lengths must be written out, and be {least} or more")
    return min(bound(value).low, 2**31 - 1)


def _part(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    """Pieces of a string by position; Spark's position 0 and negative ones mean other things elsewhere."""
    if not isinstance(node, exp.Substring | exp.Left | exp.Right):
        return None
    value, form = _text(node.this, writer)
    writer.guard_nul(value)
    if isinstance(node, exp.Right):
        size = _count(node.expression, writer, 1)
        if dialect is Dialect.SQLITE:
            return writer.string(lambda: call("SUBSTR", form.characters(), literals.number(-size)))
        return writer.string(lambda: call("RIGHT", form.characters(), literals.number(size)))
    if isinstance(node, exp.Left):
        bounds = [1, _count(node.expression, writer, 1)]
    else:
        bounds = [_count(node.args.get("start"), writer, 1)]
        bounds += [_count(node.args["length"], writer, 0)] if node.args.get("length") is not None else []
    return writer.string(lambda: call("SUBSTR", form.characters(), *map(literals.number, bounds)))


def _position(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    if not isinstance(node, exp.StrPosition):
        return None
    if _extra(node, "this", "substr"):
        raise UnsupportedError("positions are counted from the start only")
    _, form = _text(node.this, writer)
    sought = _search_text(node.args["substr"], dialect)
    if dialect is Dialect.POSTGRES:
        return _integer(lambda: call("STRPOS", form.characters(), sought()), _LENGTHS)
    if dialect is Dialect.SQLITE:
        return _integer(lambda: call("INSTR", form.characters(), sought()), _LENGTHS)
    return _integer(lambda: call("LOCATE", sought(), form.characters()), _LENGTHS)


def _search_text(node: exp.Expr, dialect: Dialect) -> Callable[[], exp.Expr]:
    node = node.unnest()
    if not isinstance(node, exp.Literal) or not node.is_string or not node.name:
        raise UnsupportedError("what is looked for must be a string that is written out and not empty")
    literals.check_text(node.name)
    return lambda: literals.text(node.name, dialect)


def _changed(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    if isinstance(node, exp.Trim):
        if _extra(node, "this", "position"):
            raise UnsupportedError("only spaces are trimmed")
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(str(node.args.get("position") or ""), "TRIM")
        _, form = _text(node.this, writer)
        return writer.string(lambda: call(name, form.characters()))
    if isinstance(node, exp.Replace):
        _, form = _text(node.this, writer)
        old = _search_text(node.expression, dialect)
        replacement = node.args.get("replacement")
        if not isinstance(replacement, exp.Literal) or not replacement.is_string:
            raise UnsupportedError("a replacement must be written out")
        literals.check_text(replacement.name)
        return writer.string(
            lambda: call("REPLACE", form.characters(), old(), literals.text(replacement.name, dialect))
        )
    return None


def date_part(node: exp.Expr, dialect: Dialect, writer: Writer) -> Value | None:
    """Year to second of a date or a timestamp without zone."""
    if isinstance(node, exp.Extract) and node.name.upper() in _PARTS.values():
        name, source = node.name.upper(), node.expression
    elif type(node) in _PARTS:
        name, source = _PARTS[type(node)], node.this
    else:
        return None
    value = writer.value(_undated(source))
    kinds = (t.TimestampNTZType,) if name in _CLOCK else (t.TimestampNTZType, t.DateType)
    if not isinstance(value.type, kinds) or (name == "SECOND" and isinstance(node, exp.Extract)):
        raise UnsupportedError(f"{name.lower()} of a {value.type.simpleString()} is left to Spark")
    return _integer(lambda: _extracted(name, value, dialect), _RANGES.get(name, _FEW))


def _undated(node: exp.Expr) -> exp.Expr:
    """Without the cast to a date that the parser adds."""
    return node.this if isinstance(node, exp.TsOrDsToDate) and not _extra(node, "this") else node


def _extracted(name: str, value: Value, dialect: Dialect) -> exp.Expr:
    if dialect is Dialect.SQLITE:
        return _sqlite_part(name, value)
    if dialect.is_mysql:
        part: exp.Expr = call("DAYOFMONTH" if name == "DAY" else name, value.tree())
        # New versions of MySQL give an unsigned year, from which nothing can be taken below zero.
        return cast(part, "SIGNED", dialect) if name == "YEAR" else part
    part = exp.Extract(this=exp.Var(this=name), expression=value.tree())
    if name == "SECOND":
        part = call("FLOOR", part)
    if name != "YEAR":
        return part
    # There is no year 0 in PostgreSQL: what Spark calls 0 is -1 there.
    before = exp.If(this=binary(exp.LT, part.copy(), literals.number(0)), true=literals.number(1))
    return binary(exp.Add, part, exp.Case(ifs=[before], default=literals.number(0)))


def _sqlite_part(name: str, value: Value) -> exp.Expr:
    if name == "QUARTER":
        months = binary(exp.Add, _sqlite_part("MONTH", value), literals.number(2))
        return exp.Div(this=exp.Paren(this=months), expression=literals.number(3), typed=True)
    piece = call("SUBSTR", value.tree(), *map(literals.number, _PLACES[name]))
    return cast(piece, "INTEGER", Dialect.SQLITE)


def date_of(value: Value, dialect: Dialect) -> Value:
    """The date of a timestamp without zone, or of a date written out."""
    if isinstance(value.type, t.DateType):
        return value
    if isinstance(value.type, t.TimestampNTZType):
        if dialect is Dialect.POSTGRES:
            return Value(lambda: cast(value.tree(), "DATE", dialect), t.DateType())
        if dialect is Dialect.SQLITE:
            return Value(lambda: call("SUBSTR", value.tree(), literals.number(1), literals.number(10)), t.DateType())
        return Value(lambda: call("DATE", value.tree()), t.DateType())
    raise UnsupportedError(f"the date of a {value.type.simpleString()} is left to Spark")


def date_constant(node: exp.Expr, dialect: Dialect) -> Value | None:
    """`DATE 'YYYY-MM-DD'`; None for all else."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    if node.to.this is not exp.DataType.Type.DATE or not _DAY.fullmatch(node.this.name):
        return None
    try:
        days = date.fromisoformat(node.this.name).toordinal() - _EPOCH
    except ValueError:
        return None
    return Value(lambda: literals.date_literal(days, dialect), t.DateType(), is_literal=True)
