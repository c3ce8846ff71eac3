"""Avro's encoding of single values, as expressions over bytes.

An integer v is encoded as the unsigned number u = 2v, or -2v - 1 if v is negative (zigzag), in groups of seven bits,
lowest first. All groups but the last have the eighth bit set. This module assumes that integers, lengths and union
branches have the minimal number of bytes, as all writers produce.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum

from pushdown_spark.expressions.types import Value

MICROS_PER_MILLI = 1_000
_EXACT = Context(prec=80)
"""Enough digits for any decimal. Python's default of 28 would round some decimals of 38 digits."""


class Encoding(StrEnum):
    """Encodings of column values."""

    NUMBER = "zigzag number"
    MILLIS = "zigzag milliseconds"
    FLOAT = "four bytes"
    DOUBLE = "eight bytes"
    STRING = "length and bytes"
    FIXED = "bytes"
    ENUM = "zigzag number of a symbol"
    DECIMAL = "length and unscaled value"
    FIXED_DECIMAL = "unscaled value"


@dataclass(frozen=True)
class EncodedColumn:
    """A column in encoded records.

    `before` and `after` match the bytes next to a value that is not null. They are empty where they are unknown. `size`
    is the number of bytes of fixed values; `scale` is that of decimals.
    """

    encoding: Encoding
    before: str = ""
    after: str = ""
    size: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()


def encodings(column: EncodedColumn, value: Value) -> list[str] | None:
    """Return the encodings of a value: an empty list if it has none, or None if they are unknown."""
    match column.encoding, value:
        case Encoding.NUMBER, int():
            return [exact_bytes(zigzag(value))]
        case Encoding.MILLIS, int():
            return [] if value % MICROS_PER_MILLI else [exact_bytes(zigzag(value // MICROS_PER_MILLI))]
        case Encoding.ENUM, str():
            return [exact_bytes(zigzag(column.symbols.index(value)))] if value in column.symbols else []
        case ((Encoding.FLOAT | Encoding.DOUBLE), float()):
            return _float(value, "<f" if column.encoding is Encoding.FLOAT else "<d")
        case ((Encoding.DECIMAL | Encoding.FIXED_DECIMAL), Decimal()):
            return _decimal(column, value)
        case Encoding.STRING, (str() | bytes()):
            data = encoded_string(value)
            return None if data is None else [exact_bytes(zigzag(len(data)) + data)]
        case Encoding.FIXED, bytes():
            return [exact_bytes(value)] if len(value) == column.size else []
    return None


def _float(value: float, form: str) -> list[str] | None:
    if math.isnan(value):
        return None
    members = [0.0, -0.0] if value == 0.0 else [value]
    return [exact_bytes(struct.pack(form, member)) for member in members]


def _decimal(column: EncodedColumn, value: Decimal) -> list[str]:
    """Encode the unscaled value. With a length, longer forms match as well: they repeat the sign."""
    integer = value.scaleb(column.scale, _EXACT)
    if integer != integer.to_integral_value():
        return []
    number = int(integer)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    if column.encoding is Encoding.FIXED_DECIMAL:
        return [exact_bytes(number.to_bytes(column.size, "big", signed=True))] if size <= column.size else []
    sign = 255 if number < 0 else 0
    head = byte_class(sorted({zigzag(size)[0], sign}))
    return [head + exact_bytes(number.to_bytes(size, "big", signed=True))]


def encoded_string(value: str | bytes) -> bytes | None:
    """Return the bytes of a string. Returns None for a string without UTF-8 form."""
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return None


def exact_bytes(data: bytes) -> str:
    """Return an expression that matches exactly these bytes."""
    return "".join(f"\\x{byte:02x}" for byte in data)


_BASE = 128


def zigzag(value: int) -> bytes:
    """Return the bytes of a number.

    >>> zigzag(-65).hex()
    '8101'
    """
    unsigned = 2 * value if value >= 0 else -2 * value - 1
    groups = []
    while unsigned >= _BASE:
        groups.append(unsigned % _BASE + _BASE)
        unsigned //= _BASE
    return bytes([*groups, unsigned])


def interval(low: int, high: int) -> tuple[str, ...]:
    """Return expressions that together match exactly the numbers low .. high.

    >>> print(*interval(-2, 1))
    [\\x00\\x02] [\\x01\\x03]
    """
    expressions: list[str] = []
    if high >= 0:
        expressions += _unsigned_regexes(2 * max(low, 0), 2 * high, 0)
    if low < 0:
        expressions += _unsigned_regexes(-2 * min(high, -1) - 1, -2 * low - 1, 1)
    return tuple(expressions)


def _unsigned_regexes(low: int, high: int, parity: int) -> Iterator[str]:
    """Yield expressions for the unsigned numbers low .. high whose lowest bit is `parity`."""
    length = 1
    while length == 1 or _BASE ** (length - 1) <= high:
        first = max(low, _BASE ** (length - 1) if length > 1 else 0)
        last = min(high, _BASE**length - 1)
        if first <= last:
            yield from _groups(_digits(first, length), _digits(last, length), parity, "", is_last=True)
        length += 1


def _digits(number: int, length: int) -> list[int]:
    """Return the groups of a number, lowest first."""
    return [number // _BASE**position % _BASE for position in range(length)]


def _groups(low: list[int], high: list[int], parity: int, suffix: str, *, is_last: bool) -> Iterator[str]:
    """Cover low .. high, with the same number of groups, from the highest group down. `suffix` has the groups above."""
    if not low:
        yield suffix
        return
    bottom, top = low[-1], high[-1]
    rest_low, rest_high = low[:-1], high[:-1]
    lowest, highest = [0] * len(rest_low), [_BASE - 1] * len(rest_low)

    def group(first: int, last: int) -> str:
        return _class(first, last, parity if not rest_low else None, is_last) + suffix

    if not rest_low or (_is_least(rest_low) and _is_most(rest_high)):
        any_rest = "".join(_class(0, _BASE - 1, None if number else parity, False) for number in range(len(rest_low)))
        yield any_rest + group(bottom, top)
    elif bottom == top:
        yield from _groups(rest_low, rest_high, parity, group(bottom, top), is_last=False)
    else:
        yield from _groups(rest_low, highest, parity, group(bottom, bottom), is_last=False)
        if bottom + 1 <= top - 1:
            yield from _groups(lowest, highest, parity, group(bottom + 1, top - 1), is_last=False)
        yield from _groups(lowest, rest_high, parity, group(top, top), is_last=False)


def _is_least(groups: list[int]) -> bool:
    return all(digit == 0 for digit in groups[1:]) and groups[0] <= 1


def _is_most(groups: list[int]) -> bool:
    return all(digit == _BASE - 1 for digit in groups[1:]) and groups[0] >= _BASE - 2


def _class(first: int, last: int, parity: int | None, is_last: bool) -> str:
    """Match one byte: a group of seven bits first .. last, with the eighth bit set unless it is the last group."""
    flag = 0 if is_last else _BASE
    return byte_class([byte + flag for byte in range(first, last + 1) if parity is None or byte % 2 == parity])


def byte_class(members: list[int]) -> str:
    """Return an expression for one byte, given its possible values in ascending order.

    >>> print(byte_class([1, 2, 3, 9]))
    [\\x01-\\x03\\x09]
    """
    if len(members) == 1:
        return f"\\x{members[0]:02x}"
    spans: list[list[int]] = []
    for byte in members:
        if spans and byte == spans[-1][1] + 1:
            spans[-1][1] = byte
        else:
            spans.append([byte, byte])
    return "[" + "".join(f"\\x{a:02x}" if a == b else f"\\x{a:02x}-\\x{b:02x}" for a, b in spans) + "]"
