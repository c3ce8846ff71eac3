"""Common types of several types: without loss of values, or by Spark's coercion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import types as t

from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

INTEGER_TYPES: tuple[type[t.DataType], ...] = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_DIGITS: Mapping[type[t.DataType], int] = {t.ByteType: 3, t.ShortType: 5, t.IntegerType: 10, t.LongType: 20}
"""Decimal digits that Spark assigns to integer types."""
_FLOAT_EXACT = (t.ByteType, t.ShortType)
_DOUBLE_EXACT = (t.ByteType, t.ShortType, t.IntegerType, t.FloatType)
DATETIME_TYPES = (t.DateType, t.TimestampType, t.TimestampNTZType)


def lossless_type(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the smallest atomic type that holds every value of both, or None if there is none.

    The operation is symmetric and associative, so that the order of files does not matter.
    """
    if left == right:
        return left
    for one, other in ((left, right), (right, left)):
        if isinstance(one, t.NullType):
            return other
        if wider := _wider(one, other):
            return wider
    return _decimals(left, right)


def _wider(small: t.DataType, large: t.DataType) -> t.DataType | None:
    if isinstance(small, INTEGER_TYPES) and isinstance(large, INTEGER_TYPES):
        return large if INTEGER_TYPES.index(type(small)) < INTEGER_TYPES.index(type(large)) else None
    if isinstance(large, t.DoubleType) and isinstance(small, _DOUBLE_EXACT):
        return large
    if isinstance(large, t.FloatType) and isinstance(small, _FLOAT_EXACT):
        return large
    if isinstance(large, t.FloatType) and isinstance(small, t.IntegerType):
        return t.DoubleType()
    if isinstance(small, t.DateType) and isinstance(large, t.TimestampType | t.TimestampNTZType):
        return large
    return None


def _decimals(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return a decimal with all digits before and after the point of both."""
    one, other = _as_decimal(left), _as_decimal(right)
    if one is None or other is None or not isinstance(left, t.DecimalType) | isinstance(right, t.DecimalType):
        return None
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return t.DecimalType(digits, scale) if digits <= MAX_DECIMAL_DIGITS else None


def _as_decimal(kind: t.DataType) -> t.DecimalType | None:
    if isinstance(kind, t.DecimalType):
        return kind
    digits = _DIGITS.get(type(kind))
    return None if digits is None else t.DecimalType(digits, 0)


def coerced_type(kinds: Sequence[t.DataType]) -> t.DataType | None:
    """Return the atomic type that Spark coerces several types to: numbers to double, anything with a string to string.

    Returns None if Spark has none, as for bytes and strings, numbers and dates, booleans and numbers.
    """
    if any(type(kind) is t.StringType for kind in kinds):
        binary = any(isinstance(kind, t.BinaryType) for kind in kinds)
        return None if binary else t.StringType()
    if all(isinstance(kind, t.NumericType) for kind in kinds):
        return t.DoubleType()
    if all(isinstance(kind, DATETIME_TYPES) for kind in kinds):
        return t.TimestampType()
    return None
