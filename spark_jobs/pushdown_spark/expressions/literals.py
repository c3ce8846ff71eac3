"""The constants of a predicate, with the types that Spark gives them. Spark evaluates those that are not literals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

import numpy as np
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.conjuncts import short_sql
from pushdown_spark.expressions.constant_folding import integer_value, is_constant
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.types import (
    EPOCH_ORDINAL,
    MAX_DECIMAL_DIGITS,
    MICROSECONDS_PER_DAY,
    TEMPORAL,
    LogicalType,
    Value,
)


@dataclass(frozen=True)
class Literal:
    """A constant with Spark's type. Dates are days and timestamps are microseconds since 1970-01-01.

    `integer_digits` and `scale` are the numbers of digits before and after the point in Spark's type. `is_literal` is
    True for a number that is written out, neither computed nor cast: Spark gives such integers the narrowest type.
    """

    type: LogicalType
    value: Value | None
    integer_digits: int = 0
    scale: int = 0
    is_literal: bool = False


INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of the decimal type that Spark widens an integer type to, by the number of bits."""
_INTEGER_TYPES = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_NTZ_TEXT = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)")
_MICROSECONDS = 1_000_000
_SAFE_DIGITS = 18
"""Characters of integers that always fit into 64 bits."""


class LiteralReader:
    """Reads constants. Spark evaluates all constants of a list that are not plain literals in one query."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def read(self, nodes: Sequence[exp.Expr], column_type: LogicalType, *, in_list: bool) -> list[Literal]:
        """Return the constants as they are compared with a column of a type. `in_list` is True for the values of an IN.

        Raises UnsupportedError where a value, or its type in Spark, is uncertain.
        """
        plain = [_plain_literal(node.unnest(), column_type) for node in nodes]
        rest = [node.unnest() for node, constant in zip(nodes, plain, strict=True) if constant is None]
        spark_constants = iter(self._evaluate(rest, column_type, in_list) if rest else ())
        constants = [next(spark_constants) if constant is None else constant for constant in plain]
        for constant in constants:
            if (
                constant.type is LogicalType.STRING
                and column_type is LogicalType.STRING
                and not self._scope.has_plain_strings
            ):
                raise UnsupportedError("the session collation is not UTF8_BINARY, or a literal has a backslash")
        return constants

    def _evaluate(self, nodes: Sequence[exp.Expr], column_type: LogicalType, in_list: bool) -> list[Literal]:
        for node in nodes:
            if not is_constant(node):
                raise UnsupportedError(f"{short_sql(node)} is neither a column nor a constant")
        sql_strings = [node.sql(dialect="spark") for node in nodes]
        if column_type not in TEMPORAL:
            rows = self._fold(f"array({', '.join(map(_typed_text, sql_strings))})", nodes)
            return [_from_text(str(row[0]), row[1], node) for row, node in zip(rows, nodes, strict=True)]
        if in_list and any(isinstance(node, exp.Literal) for node in nodes):
            self._check_ansi_lists()
        rows = self._fold(f"array({', '.join(_time_fields(text, column_type) for text in sql_strings)})", nodes)
        return [_from_time(list(row), column_type, node) for row, node in zip(rows, nodes, strict=True)]

    def _check_ansi_lists(self) -> None:
        """Raise UnsupportedError without ANSI mode, where a list of strings casts the column to strings."""
        if self._scope.fold is None or self._scope.fold("DATE '2000-01-01' IN ('2000-1-1')") is not True:
            raise UnsupportedError("without ANSI mode, Spark casts the column to strings for IN with strings")

    def _fold(self, sql: str, nodes: Sequence[exp.Expr]) -> list[Sequence[object]]:
        rows = None if self._scope.fold is None else self._scope.fold(sql)
        if not isinstance(rows, list) or len(rows) != len(nodes) or any(row[1] is None for row in rows):
            raise UnsupportedError(f"Spark does not evaluate {short_sql(nodes[0])} to a constant")
        return rows


def is_never_null(node: exp.Expr) -> bool:
    """Return whether an expression is a literal other than NULL. A cast of a literal may be NULL.

    >>> import sqlglot
    >>> [is_never_null(sqlglot.condition(sql)) for sql in ("-1", "'a'", "NULL", "CAST('x' AS INT)", "a", "1 / 0")]
    [True, True, False, False, False, False]
    """
    try:
        constant = _plain_literal(node.unnest(), LogicalType.OTHER)
    except UnsupportedError:
        return False
    return constant is not None and constant.value is not None


def _plain_literal(node: exp.Expr, column_type: LogicalType) -> Literal | None:
    """Return a constant that Spark need not evaluate, else None."""
    if isinstance(node, exp.Null):
        return Literal(LogicalType.NULL, None)
    if isinstance(node, exp.Boolean):
        return Literal(LogicalType.BOOLEAN, bool(node.this))
    if isinstance(node, exp.HexString):
        return Literal(LogicalType.BINARY, _bytes(node.name))
    if isinstance(node, exp.Literal) and node.is_string:
        return _string(node.name, column_type)
    if isinstance(node, exp.Literal):
        return _number_literal(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number_literal("-" + node.this.name)
    if (number := integer_value(node)) is not None:
        return Literal(LogicalType.INTEGER, number, INTEGER_DIGITS[32])
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _cast(node.this, node.to, column_type)
    return None


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)


def _string(text: str, column_type: LogicalType) -> Literal | None:
    """Return a string constant. Returns None for one that Spark must cast to a date or timestamp."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise UnsupportedError("the literal cannot be encoded in UTF-8")
    if column_type is LogicalType.DATE and (days := _days(text)) is not None:
        return Literal(LogicalType.DATE, days)
    return None if column_type in TEMPORAL else Literal(LogicalType.STRING, text)


def _days(text: str) -> int | None:
    """Return the days since 1970-01-01 of a date in the form yyyy-mm-dd, else None."""
    try:
        return date.fromisoformat(text).toordinal() - EPOCH_ORDINAL if _DATE_TEXT.fullmatch(text) else None
    except ValueError:
        return None


def _number_literal(text: str) -> Literal:
    """Return a number with Spark's type: double with an exponent, decimal with a point, else the narrowest integer."""
    if len(text) <= _SAFE_DIGITS and text.isascii() and text.removeprefix("-").isdigit():
        return _integer_literal(int(text))
    if "e" in text.lower():
        return Literal(LogicalType.DOUBLE, float(text), is_literal=True)
    try:
        value = Decimal(text)
    except InvalidOperation as problem:
        raise UnsupportedError(f"{text} is not a number") from problem
    digits = len(value.as_tuple().digits) if value else 1
    scale = max(0, -int(value.as_tuple().exponent))
    if "." not in text and -(2**63) <= value < 2**63:
        return _integer_literal(int(value))
    if max(digits, scale) > MAX_DECIMAL_DIGITS:
        raise UnsupportedError(f"{text} has more than {MAX_DECIMAL_DIGITS} digits")
    return Literal(LogicalType.DECIMAL, value, max(digits, scale) - scale, scale, True)


def _integer_literal(value: int) -> Literal:
    bits = 32 if -(2**31) <= value < 2**31 else 64
    return Literal(LogicalType.INTEGER, value, INTEGER_DIGITS[bits], 0, True)


def _cast(literal: exp.Literal, to: exp.DataType, column_type: LogicalType) -> Literal | None:
    """Return the constant for casts that the parser makes of `DATE '...'` and of suffixes such as L and D."""
    if literal.is_string:
        is_date = to.this is exp.DataType.Type.DATE and column_type is not LogicalType.TIMESTAMP
        days = _days(literal.name) if is_date else None
        if days is None:
            return None
        if column_type is LogicalType.TIMESTAMP_NTZ:
            return Literal(LogicalType.TIMESTAMP_NTZ, days * MICROSECONDS_PER_DAY)
        return Literal(LogicalType.DATE, days)
    number = _number_literal(literal.name)
    if to.this is exp.DataType.Type.DOUBLE and isinstance(number.value, int | Decimal | float):
        return Literal(LogicalType.DOUBLE, float(number.value))
    if to.this is exp.DataType.Type.BIGINT and number.type is LogicalType.INTEGER:
        return Literal(LogicalType.INTEGER, number.value, INTEGER_DIGITS[64])
    return None


def _typed_text(sql: str) -> str:
    return f"struct(typeof({sql}), CAST({sql} AS STRING))"


def _from_text(name: str, value: object, node: exp.Expr) -> Literal:
    """Return a constant from the name of its type and its value, as Spark shows them."""
    text = str(value)
    if name in _INTEGER_TYPES:
        return Literal(LogicalType.INTEGER, int(text), INTEGER_DIGITS[_INTEGER_TYPES[name]])
    if decimal := _DECIMAL_TYPE.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        return Literal(LogicalType.DECIMAL, Decimal(text), precision - scale, scale)
    if name in ("float", "double"):
        # Spark shows the digits that identify a float. As a double they would be another number.
        return Literal(LogicalType(name), float(np.float32(text)) if name == "float" else float(text))
    if name == "boolean":
        return Literal(LogicalType.BOOLEAN, text == "true")
    raise UnsupportedError(f"{short_sql(node)} is of type {name}")


def _time_fields(sql: str, column_type: LogicalType) -> str:
    """Return SQL for a constant that is compared with a date or a timestamp. The second field is its value.

    Spark casts a date column for a comparison with a timestamp, so the first moments of the day and of the next day
    are needed as well.
    """
    if column_type is LogicalType.TIMESTAMP:
        return f"struct(typeof({sql}), unix_micros(CAST({sql} AS TIMESTAMP_LTZ)))"
    if column_type is LogicalType.TIMESTAMP_NTZ:
        return f"struct(typeof({sql}), CAST(CAST({sql} AS TIMESTAMP_NTZ) AS STRING))"
    day = f"CAST({sql} AS DATE)"
    moments = (f"CAST({sql} AS TIMESTAMP_LTZ)", f"CAST({day} AS TIMESTAMP_LTZ)", f"CAST({day} + 1 AS TIMESTAMP_LTZ)")
    return f"struct(typeof({sql}), unix_date({day}), {', '.join(f'unix_micros({moment})' for moment in moments)})"


def _from_time(row: Sequence[object], column_type: LogicalType, node: exp.Expr) -> Literal:
    name, value = str(row[0]), row[1]
    if name not in ("string", "date", "timestamp", "timestamp_ntz"):
        raise UnsupportedError(f"{short_sql(node)} is of type {name}")
    if column_type is LogicalType.TIMESTAMP:
        return Literal(LogicalType.TIMESTAMP, int(str(value)))
    if column_type is LogicalType.TIMESTAMP_NTZ:
        if name in ("timestamp", "string"):
            raise UnsupportedError("Spark compares the column in the session time zone, which may lack local times")
        return Literal(LogicalType.TIMESTAMP_NTZ, _micros(str(value)))
    if name in ("string", "date"):
        return Literal(LogicalType.DATE, int(str(value)))
    if name == "timestamp_ntz":
        raise UnsupportedError("a date column is compared with a timestamp without time zone")
    return _moment_as_days(*(int(str(part)) for part in row[1:]))


def _moment_as_days(day: int, moment: int, start: int, end: int) -> Literal:
    """Convert a moment to days: an integer at the start of a day, else a fraction inside the day."""
    if not start <= moment < end:
        raise UnsupportedError("the session time zone sets clocks back over midnight on that day")
    return Literal(LogicalType.TIMESTAMP, Decimal(day) if moment == start else Decimal(day) + Decimal("0.5"))


def _micros(text: str) -> int:
    """Return the microseconds since 1970-01-01 of a timestamp without time zone, as Spark shows it."""
    match = _NTZ_TEXT.fullmatch(text)
    if match is None:
        raise UnsupportedError(f"{text} is not a timestamp")
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    # Python's calendar has the years 1 to 9999. It repeats itself every 400 years.
    cycles = (year - 1) // 400
    days = date(year - 400 * cycles, month, day).toordinal() - EPOCH_ORDINAL + cycles * 146_097
    hours, minutes, seconds = (int(match[part] or 0) for part in (4, 5, 6))
    total_seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return total_seconds * _MICROSECONDS + int((match[7] or "0").ljust(6, "0"))
