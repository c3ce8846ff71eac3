"""Types of columns and constants, distinguished by how their values compare."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum

Path = tuple[str, ...]
"""The name of a column, followed by the names of nested struct members."""
Value = bool | int | float | Decimal | str | bytes
"""A constant. Dates are days and timestamps are microseconds since 1970-01-01 (UTC, or without a time zone)."""
MAX_DECIMAL_DIGITS = 38
"""The most digits of a decimal in Spark."""
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MICROSECONDS_PER_DAY = 86_400_000_000
GREGORIAN_DAY = -141_427
"""1582-10-15 in days since 1970-01-01. Spark may read earlier dates in the Julian calendar."""
GREGORIAN_MICROS = -2_208_988_800_000_000
"""1900-01-01 in microseconds since 1970-01-01. Spark may read earlier times in local mean time, or as Julian."""
DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key in a field's metadata under which Spark stores a declared char(n) or varchar(n); the field is a string."""


class LogicalType(StrEnum):
    """Types of columns and constants. Integers of all widths are one type."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    OTHER = "other"


FLOATING = frozenset({LogicalType.FLOAT, LogicalType.DOUBLE})
NUMERIC = FLOATING | {LogicalType.INTEGER, LogicalType.DECIMAL}
TEMPORAL = frozenset({LogicalType.DATE, LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ})
