"""How Avro writes single values, as expressions over bytes.

Numbers, lengths and branches are taken to be written in as few bytes as they need, as all writers do.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum

from pushdown_spark.predicates.varint import byte_class, zigzag
from pushdown_spark.predicates.vector import Value

MICROS = 1_000
"""Microseconds of a millisecond."""
GREGORIAN_DAY = -141_427
"""1582-10-15 in days since 1970: Spark may take earlier dates for Julian ones."""
GREGORIAN_MICROS = -2_208_988_800_000_000
"""1900-01-01 in microseconds: Spark may take earlier times for local mean time, and for Julian ones."""
_EXACT = Context(prec=80)
"""Digits enough for any decimal; the usual 28 would round those of up to 38."""


class Encoding(StrEnum):
    """How a column's values are written."""

    NUMBER = "zigzag number"
    MILLIS = "zigzag milliseconds"
    FLOAT = "four bytes"
    DOUBLE = "eight bytes"
    TEXT = "length and bytes"
    FIXED = "bytes"
    SYMBOL = "zigzag number of a symbol"
    DECIMAL = "length and unscaled value"
    FIXED_DECIMAL = "unscaled value"


@dataclass(frozen=True)
class Place:
    """Where a column's values are in encoded records.

    `before` and `after` match what stands beside a value that is not null, a byte or the block's edge; they are empty
    where that may be anything. `size` is that of fixed values, `scale` that of decimals.
    """

    encoding: Encoding
    before: str = ""
    after: str = ""
    size: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()


def spellings(place: Place, value: Value) -> list[str] | None:
    """How a value is written: nothing where it cannot be, None where that is not known."""
    match place.encoding, value:
        case Encoding.NUMBER, int():
            return [plain(zigzag(value))]
        case Encoding.MILLIS, int():
            return [] if value % MICROS else [plain(zigzag(value // MICROS))]
        case Encoding.SYMBOL, str():
            return [plain(zigzag(place.symbols.index(value)))] if value in place.symbols else []
        case ((Encoding.FLOAT | Encoding.DOUBLE), float()):
            return _floating(value, "<f" if place.encoding is Encoding.FLOAT else "<d")
        case ((Encoding.DECIMAL | Encoding.FIXED_DECIMAL), Decimal()):
            return _decimal(place, value)
        case Encoding.TEXT, (str() | bytes()):
            encoded = encoded_text(value)
            return None if encoded is None else [plain(zigzag(len(encoded)) + encoded)]
        case Encoding.FIXED, bytes():
            return [plain(value)] if len(value) == place.size else []
    return None


def _floating(value: float, form: str) -> list[str] | None:
    if math.isnan(value):
        return None
    zeros = [0.0, -0.0] if value == 0.0 else [value]
    return [plain(struct.pack(form, each)) for each in zeros]


def _decimal(place: Place, value: Decimal) -> list[str]:
    """The unscaled value; where it has a length, longer forms of it as well, which repeat its sign."""
    unscaled = value.scaleb(place.scale, _EXACT)
    if unscaled != unscaled.to_integral_value():
        return []
    number = int(unscaled)
    least = (number if number >= 0 else ~number).bit_length() // 8 + 1
    if place.encoding is Encoding.FIXED_DECIMAL:
        return [plain(number.to_bytes(place.size, "big", signed=True))] if least <= place.size else []
    sign = 255 if number < 0 else 0
    head = byte_class(sorted({zigzag(least)[0], sign}))
    return [head + plain(number.to_bytes(least, "big", signed=True))]


def encoded_text(value: str | bytes) -> bytes | None:
    """The bytes of a text; None for one that has no UTF-8 form."""
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return None


def plain(data: bytes) -> str:
    """An expression for just these bytes."""
    return "".join(f"\\x{byte:02x}" for byte in data)
