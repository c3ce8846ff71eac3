"""Reads the constants of a predicate with the types Spark gives them; Spark itself evaluates what is not a literal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum

import numpy as np
from sqlglot import exp

from pushdown_spark.predicates.derive import Scope, whole_number
from pushdown_spark.predicates.vector import Kind, Value


class UnsupportedError(Exception):
    """A part of a predicate that cannot be compiled; the message says why in words."""


class Type(StrEnum):
    """Spark's types of constants, integers of all widths as one."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"


@dataclass(frozen=True)
class Constant:
    """A constant: dates in days and timestamps in microseconds since 1970-01-01, decimals exactly.

    `whole` and `scale` are the digits before and after the point that Spark's type has room for. `is_literal` tells a
    number written out from one that is computed or cast: Spark gives written integers types as narrow as they are.
    """

    type: Type
    value: Value | None
    whole: int = 0
    scale: int = 0
    is_literal: bool = False


INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of the decimal type that Spark widens an integer type of so many bits to."""
_INTEGER_TYPES = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MAX_PRECISION = 38
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_NTZ_TEXT = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)")
_FOLDABLE = (
    exp.Literal,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.IntervalSpan,
    exp.DateAdd,
    exp.DateSub,
    exp.AddMonths,
    exp.Boolean,
)
_EPOCH = date(1970, 1, 1).toordinal()
MICROSECONDS = 1_000_000
_SHORT = 18
"""Characters of whole numbers that 64 bits always have room for."""
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})


def is_constant(node: exp.Expr) -> bool:
    """Whether a node is made of literals and what Spark computes from them alone, the same at any time."""
    node = node.unnest()
    return isinstance(node, exp.Null | exp.HexString) or all(isinstance(part, _FOLDABLE) for part in node.walk())


class ConstantReader:
    """Reads constants; asks Spark once for all those of a list that take more than reading."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def read(self, nodes: Sequence[exp.Expr], kind: Kind, *, listed: bool) -> list[Constant]:
        """The constants as they compare with a column of some kind; `listed` for the values of an IN.

        Raises UnsupportedError where Spark's value or type of one of them is not certain.
        """
        plain = [_literal(node.unnest(), kind) for node in nodes]
        rest = [node.unnest() for node, constant in zip(nodes, plain, strict=True) if constant is None]
        asked = iter(self._ask(rest, kind, listed) if rest else ())
        found = [next(asked) if constant is None else constant for constant in plain]
        for constant in found:
            if constant.type is Type.STRING and kind is Kind.STRING and not self._scope.plain_strings:
                raise UnsupportedError("strings are not compared by bytes, or the literal has escapes")
        return found

    def _ask(self, nodes: Sequence[exp.Expr], kind: Kind, listed: bool) -> list[Constant]:
        for node in nodes:
            if not is_constant(node):
                raise UnsupportedError(f"{_shown(node)} is neither a column nor a constant")
        texts = [node.sql(dialect="spark") for node in nodes]
        if kind not in _TIMES:
            rows = self._fold(f"array({', '.join(map(_typed_text, texts))})", nodes)
            return [_from_text(str(row[0]), row[1], node) for row, node in zip(rows, nodes, strict=True)]
        if listed and any(isinstance(node, exp.Literal) for node in nodes):
            self._need_ansi_lists()
        rows = self._fold(f"array({', '.join(_time_fields(text, kind) for text in texts)})", nodes)
        return [_from_time(list(row), kind, node) for row, node in zip(rows, nodes, strict=True)]

    def _need_ansi_lists(self) -> None:
        """Without ANSI mode a list of strings turns the column into strings, instead of them into its type."""
        if self._scope.fold is None or self._scope.fold("DATE '2000-01-01' IN ('2000-1-1')") is not True:
            raise UnsupportedError("without ANSI mode, IN with strings compares strings")

    def _fold(self, sql: str, nodes: Sequence[exp.Expr]) -> list[Sequence[object]]:
        found = None if self._scope.fold is None else self._scope.fold(sql)
        if not isinstance(found, list) or len(found) != len(nodes) or any(row[1] is None for row in found):
            raise UnsupportedError(f"Spark finds no value for {_shown(nodes[0])}")
        return found


def _shown(node: exp.Expr) -> str:
    text = node.sql(dialect="spark")
    return text if len(text) <= 60 else text[:57] + "..."


def _literal(node: exp.Expr, kind: Kind) -> Constant | None:
    """The constant where it can be read off, else None."""
    if isinstance(node, exp.Null):
        return Constant(Type.NULL, None)
    if isinstance(node, exp.Boolean):
        return Constant(Type.BOOLEAN, bool(node.this))
    if isinstance(node, exp.HexString):
        return Constant(Type.BINARY, _bytes(node.name))
    if isinstance(node, exp.Literal) and node.is_string:
        return _string(node.name, kind)
    if isinstance(node, exp.Literal):
        return _number(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number("-" + node.this.name)
    if (number := whole_number(node)) is not None:
        return Constant(Type.INTEGER, number, INTEGER_DIGITS[32])
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _cast(node.this, node.to, kind)
    return None


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)


def _string(text: str, kind: Kind) -> Constant | None:
    """Strings become times where they are compared with times."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise UnsupportedError("the literal has no UTF-8 form")
    if kind is Kind.DATE and (days := _days(text)) is not None:
        return Constant(Type.DATE, days)
    return None if kind in _TIMES else Constant(Type.STRING, text)


def _days(text: str) -> int | None:
    """Days since the epoch of a date as it is usually written; None for all else."""
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH if _DATE_TEXT.fullmatch(text) else None
    except ValueError:
        return None


def _number(text: str) -> Constant:
    """A number as Spark reads it: a double with an exponent, a decimal with a point, else as narrow as it fits."""
    if len(text) <= _SHORT and text.isascii() and text.removeprefix("-").isdigit():
        return _whole(int(text))
    if "e" in text.lower():
        return Constant(Type.DOUBLE, float(text), is_literal=True)
    try:
        value = Decimal(text)
    except InvalidOperation as problem:
        raise UnsupportedError(f"{text} is no number") from problem
    digits = len(value.as_tuple().digits) if value else 1
    scale = max(0, -int(value.as_tuple().exponent))
    if "." not in text and -(2**63) <= value < 2**63:
        return _whole(int(value))
    if max(digits, scale) > _MAX_PRECISION:
        raise UnsupportedError(f"{text} has more than {_MAX_PRECISION} digits")
    return Constant(Type.DECIMAL, value, max(digits, scale) - scale, scale, True)


def _whole(value: int) -> Constant:
    bits = 32 if -(2**31) <= value < 2**31 else 64
    return Constant(Type.INTEGER, value, INTEGER_DIGITS[bits], 0, True)


def _cast(literal: exp.Literal, to: exp.DataType, kind: Kind) -> Constant | None:
    """Casts as the parser makes them of `DATE '...'` and of suffixes like L and D."""
    if literal.is_string:
        is_date = to.this is exp.DataType.Type.DATE and kind is not Kind.TIMESTAMP
        days = _days(literal.name) if is_date else None
        if days is None:
            return None
        if kind is Kind.TIMESTAMP_NTZ:
            return Constant(Type.TIMESTAMP_NTZ, days * 86_400 * MICROSECONDS)
        return Constant(Type.DATE, days)
    number = _number(literal.name)
    if to.this is exp.DataType.Type.DOUBLE and isinstance(number.value, int | Decimal | float):
        return Constant(Type.DOUBLE, float(number.value))
    if to.this is exp.DataType.Type.BIGINT and number.type is Type.INTEGER:
        return Constant(Type.INTEGER, number.value, INTEGER_DIGITS[64])
    return None


def _typed_text(sql: str) -> str:
    return f"struct(typeof({sql}), CAST({sql} AS STRING))"


def _from_text(name: str, value: object, node: exp.Expr) -> Constant:
    """A constant from the name of its type and its value as Spark shows it."""
    text = str(value)
    if name in _INTEGER_TYPES:
        return Constant(Type.INTEGER, int(text), INTEGER_DIGITS[_INTEGER_TYPES[name]])
    if decimal := _DECIMAL_TYPE.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        return Constant(Type.DECIMAL, Decimal(text), precision - scale, scale)
    if name in ("float", "double"):
        # A float is shown with the digits that tell it from other floats; as a double they are another number.
        return Constant(Type(name), float(np.float32(text)) if name == "float" else float(text))
    if name == "boolean":
        return Constant(Type.BOOLEAN, text == "true")
    raise UnsupportedError(f"{_shown(node)} is of type {name}")


def _time_fields(sql: str, kind: Kind) -> str:
    """What to ask of a constant that is compared with a date or a timestamp; the second field is its value.

    A date column compared with a timestamp becomes one, so its days' first moments are needed as well.
    """
    if kind is Kind.TIMESTAMP:
        return f"struct(typeof({sql}), unix_micros(CAST({sql} AS TIMESTAMP_LTZ)))"
    if kind is Kind.TIMESTAMP_NTZ:
        return f"struct(typeof({sql}), CAST(CAST({sql} AS TIMESTAMP_NTZ) AS STRING))"
    day = f"CAST({sql} AS DATE)"
    moments = (f"CAST({sql} AS TIMESTAMP_LTZ)", f"CAST({day} AS TIMESTAMP_LTZ)", f"CAST({day} + 1 AS TIMESTAMP_LTZ)")
    return f"struct(typeof({sql}), unix_date({day}), {', '.join(f'unix_micros({moment})' for moment in moments)})"


def _from_time(row: Sequence[object], kind: Kind, node: exp.Expr) -> Constant:
    name, value = str(row[0]), row[1]
    if name not in ("string", "date", "timestamp", "timestamp_ntz"):
        raise UnsupportedError(f"{_shown(node)} is of type {name}")
    if kind is Kind.TIMESTAMP:
        return Constant(Type.TIMESTAMP, int(str(value)))
    if kind is Kind.TIMESTAMP_NTZ:
        if name in ("timestamp", "string"):
            raise UnsupportedError("timestamps without time zone may get one to be compared, and then there are gaps")
        return Constant(Type.TIMESTAMP_NTZ, _micros(str(value)))
    if name in ("string", "date"):
        return Constant(Type.DATE, int(str(value)))
    if name == "timestamp_ntz":
        raise UnsupportedError("dates are not compared with timestamps without time zone here")
    return _moment_as_days(*(int(str(part)) for part in row[1:]))


def _moment_as_days(day: int, moment: int, start: int, end: int) -> Constant:
    """A moment in days: a whole number where a day starts at it, else a fraction that lies inside the day."""
    if not start <= moment < end:
        raise UnsupportedError("clocks are put back over midnight there")
    return Constant(Type.TIMESTAMP, Decimal(day) if moment == start else Decimal(day) + Decimal("0.5"))


def _micros(text: str) -> int:
    """Microseconds since the epoch of a timestamp without zone as Spark shows it."""
    found = _NTZ_TEXT.fullmatch(text)
    if found is None:
        raise UnsupportedError(f"{text} is no timestamp")
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    # Python's calendar has the years 1..9999; all 400 years it repeats itself.
    cycles = (year - 1) // 400
    days = date(year - 400 * cycles, month, day).toordinal() - _EPOCH + cycles * 146_097
    hours, minutes, seconds = (int(found[part] or 0) for part in (4, 5, 6))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole * MICROSECONDS + int((found[7] or "0").ljust(6, "0"))
