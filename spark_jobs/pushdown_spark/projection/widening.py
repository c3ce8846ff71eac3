"""Types that hold all values of two others: without any loss, or as Spark's coercion would have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import types as t

_WHOLE: tuple[type[t.DataType], ...] = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_DIGITS: Mapping[type[t.DataType], int] = {t.ByteType: 3, t.ShortType: 5, t.IntegerType: 10, t.LongType: 20}
"""Decimal digits that Spark gives to whole numbers."""
_FLOAT_EXACT = (t.ByteType, t.ShortType)
_DOUBLE_EXACT = (t.ByteType, t.ShortType, t.IntegerType, t.FloatType)
_MOST_DIGITS = 38
_TIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)


def lossless(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """The smallest atomic type that holds every value of both; None where there is none. Symmetric and associative."""
    if left == right:
        return left
    for one, other in ((left, right), (right, left)):
        if isinstance(one, t.NullType):
            return other
        if found := _wider(one, other):
            return found
    return _decimals(left, right)


def _wider(small: t.DataType, large: t.DataType) -> t.DataType | None:
    if isinstance(small, _WHOLE) and isinstance(large, _WHOLE):
        return large if _WHOLE.index(type(small)) < _WHOLE.index(type(large)) else None
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
    """A decimal with room for the whole and the fraction of both."""
    one, other = _as_decimal(left), _as_decimal(right)
    if one is None or other is None or not isinstance(left, t.DecimalType) | isinstance(right, t.DecimalType):
        return None
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return t.DecimalType(digits, scale) if digits <= _MOST_DIGITS else None


def _as_decimal(kind: t.DataType) -> t.DecimalType | None:
    if isinstance(kind, t.DecimalType):
        return kind
    digits = _DIGITS.get(type(kind))
    return None if digits is None else t.DecimalType(digits, 0)


def coerced(kinds: Sequence[t.DataType]) -> t.DataType | None:
    """The atomic type that Spark's coercion finds for values of several: numbers to double, anything to text.

    None where Spark finds none either (bytes and text, numbers and dates, truth values and numbers).
    """
    if any(type(kind) is t.StringType for kind in kinds):
        binary = any(isinstance(kind, t.BinaryType) for kind in kinds)
        return None if binary else t.StringType()
    if all(isinstance(kind, t.NumericType) for kind in kinds):
        return t.DoubleType()
    if all(isinstance(kind, _TIMES) for kind in kinds):
        return t.TimestampType()
    return None
