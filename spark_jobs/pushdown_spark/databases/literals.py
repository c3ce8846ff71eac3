"""Writes constants so that the remote gets exactly Spark's value, whatever its settings."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from pushdown_spark.databases.model import Dialect
from pushdown_spark.databases.render import call, cast
from pushdown_spark.predicates.constants import UnsupportedError

_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
"""ASCII without control characters, quotes and backslashes: the same under every `sql_mode`."""
_EPOCH = date(1970, 1, 1)
_START = datetime(1970, 1, 1)
_YEARS = (date(1, 1, 1), date(9999, 12, 31))
MAX_DIGITS = 38
"""Digits of Spark's decimals."""
_FEW_DIGITS = 15
_STEP = 30
"""SQLite multiplies and divides by powers of two up to this one, which it reads without rounding."""


def number(value: int | Decimal) -> exp.Expr:
    """An exact number, in parentheses where it is negative."""
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    positive = exp.Literal.number(text.lstrip("-"))
    return exp.Paren(this=exp.Neg(this=positive)) if text.startswith("-") else positive


def double(value: float, dialect: Dialect) -> exp.Expr:
    """A double, bit for bit. Raises UnsupportedError for NaN and infinities where the database has none."""
    if dialect is Dialect.POSTGRES:
        return cast(exp.Literal.string(repr(value).replace("inf", "Infinity")), "DOUBLE PRECISION", dialect)
    if math.isnan(value) or (math.isinf(value) and dialect.is_mysql):
        raise UnsupportedError(f"{dialect} has no {value}")
    if dialect is Dialect.SQLITE:
        return _sqlite_double(value)
    # Without an exponent MySQL would make it a decimal.
    mantissa, _, exponent = repr(value).partition("e")
    return _signed(f"{mantissa}e{int(exponent or 0)}")


def _signed(text: str) -> exp.Expr:
    literal = exp.Literal.number(text.lstrip("-"))
    return exp.Paren(this=exp.Neg(this=literal)) if text.startswith("-") else literal


def _sqlite_double(value: float) -> exp.Expr:
    """SQLite rounds long decimal texts loosely, so these are an integer times powers of two."""
    if math.isinf(value):
        return _signed("9e999" if value > 0 else "-9e999")
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    if len(digits) <= _FEW_DIGITS and (value == 0 or 1e-7 < abs(value) < 1e15):
        return _signed(f"{Decimal(repr(value)):f}")
    mantissa, exponent = math.frexp(value)
    tree = cast(number(int(mantissa * 2**53)), "REAL", Dialect.SQLITE)
    exponent -= 53
    while exponent:
        step = max(-_STEP, min(_STEP, exponent))
        operator = exp.Mul if step > 0 else exp.Div
        factor = exp.Literal.number(f"{2 ** abs(step)}.0")
        tree = exp.Paren(this=operator(this=tree, expression=factor, **({} if step > 0 else {"typed": True})))
        exponent -= step
    return tree


def text(value: str, dialect: Dialect) -> exp.Expr:
    """A string. Raises UnsupportedError for what no text of the database can hold."""
    check_text(value)
    if dialect.is_mysql and not _PLAIN.fullmatch(value):
        return exp.Introducer(this=exp.Var(this="_utf8mb4"), expression=exp.HexString(this=value.encode().hex()))
    return exp.Literal.string(value)


def check_text(value: str) -> None:
    """Raises UnsupportedError for strings that cannot be sent."""
    if "\0" in value:
        raise UnsupportedError("the string holds a NUL character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise UnsupportedError("the string has no UTF-8 form")


def binary(value: bytes, dialect: Dialect) -> exp.Expr:
    """Bytes."""
    if dialect is Dialect.POSTGRES:
        return call("DECODE", exp.Literal.string(value.hex()), exp.Literal.string("hex"))
    return exp.HexString(this=value.hex())


def date_text(days: int) -> str:
    """A date as ISO text. Raises UnsupportedError beyond the years 1 to 9999, which not all databases have."""
    return _day(days).isoformat()


def _day(days: int) -> date:
    if not (_YEARS[0] - _EPOCH).days <= days <= (_YEARS[1] - _EPOCH).days:
        raise UnsupportedError("the date is beyond the years 1 to 9999")
    return _EPOCH + timedelta(days=days)


def moment_text(micros: int) -> str:
    """A timestamp as ISO text with six digits after the point. Raises UnsupportedError as for dates."""
    _day(micros // 86_400_000_000)
    return (_START + timedelta(microseconds=micros)).isoformat(sep=" ", timespec="microseconds")


def date_literal(days: int, dialect: Dialect) -> exp.Expr:
    """A date from days since 1970-01-01."""
    content = exp.Literal.string(date_text(days))
    return content if dialect is Dialect.SQLITE else cast(content, "DATE", dialect)


def timestamp_literal(micros: int, dialect: Dialect, *, zoned: bool) -> exp.Expr:
    """A timestamp from microseconds since 1970-01-01, in UTC or without a zone.

    MySQL's session must be in UTC where `zoned`: its literals have no zone. SQLite compares texts.
    """
    content = moment_text(micros)
    if dialect is Dialect.POSTGRES:
        name = "TIMESTAMPTZ" if zoned else "TIMESTAMP"
        return cast(exp.Literal.string(content + ("+00" if zoned else "")), name, dialect)
    if dialect is Dialect.SQLITE:
        return exp.Literal.string(content)
    return cast(exp.Literal.string(content), "DATETIME(6)", dialect)
