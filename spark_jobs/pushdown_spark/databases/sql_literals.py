"""Literals that have exactly Spark's value in a database, whatever its settings."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from pushdown_spark.databases.remote_table import Dialect
from pushdown_spark.databases.sql_builder import call, cast
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import MICROSECONDS_PER_DAY

_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
"""ASCII without control characters, quotes and backslashes, which means the same under every `sql_mode`."""
_EPOCH = date(1970, 1, 1)
_START = datetime(1970, 1, 1)
_YEARS = (date(1, 1, 1), date(9999, 12, 31))
MAX_DECIMAL_DIGITS = 38
"""The most digits of a decimal in Spark."""
_MAX_PLAIN_DIGITS = 15
_MAX_EXPONENT_STEP = 30
"""The largest exponent of two in a factor. SQLite reads such factors without rounding."""


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


def text(value: str, dialect: Dialect) -> exp.Expr:
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
        raise UnsupportedError("the string has no UTF-8 form")


def binary(value: bytes, dialect: Dialect) -> exp.Expr:
    """Return bytes."""
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


def timestamp_literal(micros: int, dialect: Dialect, *, zoned: bool) -> exp.Expr:
    """Return a timestamp in UTC, or without a time zone. `micros` count from 1970-01-01.

    MySQL's literals have no time zone, so its session must be in UTC. SQLite compares strings.
    """
    _day(micros // MICROSECONDS_PER_DAY)
    content = (_START + timedelta(microseconds=micros)).isoformat(sep=" ", timespec="microseconds")
    if dialect is Dialect.POSTGRES:
        name = "TIMESTAMPTZ" if zoned else "TIMESTAMP"
        return cast(exp.Literal.string(content + ("+00" if zoned else "")), name, dialect)
    if dialect is Dialect.SQLITE:
        return exp.Literal.string(content)
    return cast(exp.Literal.string(content), "DATETIME(6)", dialect)
