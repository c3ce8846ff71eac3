"""The types that a nested type contains."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import types as t

from pushdown_spark.projection.type_widening import DATETIME_TYPES


def types_in(data_type: t.DataType) -> Iterator[t.DataType]:
    """Yield a type and all types in it, depth first."""
    yield data_type
    for part in _parts(data_type):
        yield from types_in(part)


def first_type(data_type: t.DataType, test: Callable[[t.DataType], bool]) -> t.DataType | None:
    """Return the first type that passes a test: the type itself, or a type in it, depth first."""
    return next(filter(test, types_in(data_type)), None)


def has_map(data_type: t.DataType) -> bool:
    """Return whether a type is or contains a map."""
    return first_type(data_type, lambda part: isinstance(part, t.MapType)) is not None


def has_datetime(data_type: t.DataType) -> bool:
    """Return whether a type is or contains a date or a timestamp."""
    return first_type(data_type, lambda part: isinstance(part, DATETIME_TYPES)) is not None


def has_timestamp(data_type: t.DataType) -> bool:
    """Return whether a type is or contains a timestamp, whose values depend on time zones."""
    return first_type(data_type, lambda part: isinstance(part, t.TimestampType)) is not None


def count_leaves(data_type: t.DataType) -> int:
    """Return the number of types in a type that contain no others."""
    parts = _parts(data_type)
    return sum(map(count_leaves, parts)) if parts else 1


def _parts(data_type: t.DataType) -> list[t.DataType]:
    """Return the types of the direct parts of a type."""
    if isinstance(data_type, t.StructType):
        return [field.dataType for field in data_type.fields]
    if isinstance(data_type, t.MapType):
        return [data_type.keyType, data_type.valueType]
    return [data_type.elementType] if isinstance(data_type, t.ArrayType) else []
