"""Says which Arrow type each single Avro value becomes, as Spark's conversion of schemas has it."""

from __future__ import annotations

import pyarrow as pa

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.readers.avro.schema import Kind, Type
from pushdown_spark.readers.avro.shapes import Leaf, Make

_SIZES = {Kind.NULL: 0, Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}
_PARTS = frozenset({Kind.RECORD, Kind.UNION, Kind.ARRAY, Kind.MAP, Kind.NULL})
_PROMOTIONS: dict[Kind, frozenset[Kind]] = {
    Kind.INT: frozenset({Kind.LONG, Kind.FLOAT, Kind.DOUBLE}),
    Kind.LONG: frozenset({Kind.FLOAT, Kind.DOUBLE}),
    Kind.FLOAT: frozenset({Kind.DOUBLE}),
    Kind.STRING: frozenset({Kind.BYTES}),
    Kind.BYTES: frozenset({Kind.STRING}),
}
_MAKE = {
    Kind.BOOLEAN: Make.BOOLEAN,
    Kind.FLOAT: Make.FLOAT,
    Kind.DOUBLE: Make.DOUBLE,
    Kind.BYTES: Make.BYTES,
    Kind.STRING: Make.BYTES,
    Kind.FIXED: Make.BYTES,
    Kind.ENUM: Make.SYMBOL,
}
_PLAIN = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.FIXED: pa.binary(),
    Kind.STRING: pa.string(),
    Kind.ENUM: pa.string(),
}
_UTC = pa.timestamp("us", "UTC")
_TIMES = {
    (Kind.INT, "date"): pa.date32(),
    (Kind.LONG, "timestamp-millis"): _UTC,
    (Kind.LONG, "timestamp-micros"): _UTC,
    (Kind.LONG, "local-timestamp-millis"): pa.timestamp("us"),
    (Kind.LONG, "local-timestamp-micros"): pa.timestamp("us"),
}
_DECIMAL = "decimal"


def is_leaf(writer: Type) -> bool:
    """Whether values of a type have no parts; null, which has not even bytes, is none."""
    return writer.kind not in _PARTS


def least_size(writer: Type) -> int:
    """How many bytes a value of a type takes at least."""
    if writer.kind is Kind.FIXED:
        return writer.size
    if writer.kind is Kind.RECORD:
        return sum(least_size(field.type) for field in writer.fields)
    return _SIZES.get(writer.kind, 1)


def leaf(writer: Type, reader: Type, wanted: pa.DataType, slot: int, at: str) -> Leaf:
    """How a value of the writer's type, read as the reader's, becomes the wanted one.

    Raises SchemaConflictError where Avro's rules do not promote the one to the other, and UnsafeInputError where only
    Spark's reader makes such a value of it.
    """
    _check_promotion(writer, reader, at)
    if not _fits(reader, wanted):
        raise UnsafeInputError(
            f"{at} is stored as {reader}, which only Spark may turn into {wanted}; read it with reader='spark'"
        )
    if pa.types.is_decimal128(wanted):
        return Leaf(wanted, slot, Make.DECIMAL)
    if reader.logical.endswith("timestamp-millis") and pa.types.is_timestamp(wanted):
        return Leaf(wanted, slot, Make.MILLIS)
    return Leaf(wanted, slot, _MAKE.get(writer.kind, Make.NUMBER), writer.symbols)


def _check_promotion(writer: Type, reader: Type, at: str) -> None:
    is_same = writer.kind is reader.kind and writer.size == reader.size
    if not is_same and reader.kind not in _PROMOTIONS.get(writer.kind, ()):
        raise SchemaConflictError(f"{at} is {writer} in the file and {reader} in the reader's schema")
    if writer.name != reader.name or not set(writer.symbols) <= set(reader.symbols):
        raise UnsafeInputError(f"{at} is another {writer.kind} in the reader's schema; read it with reader='spark'")


def _fits(reader: Type, wanted: pa.DataType) -> bool:
    """Whether the wanted type is the one that Spark gives a column of that Avro type by itself, or a wider integer."""
    if reader.logical == _DECIMAL and pa.types.is_decimal128(wanted):
        is_text = reader.kind in (Kind.BYTES, Kind.FIXED)
        return bool(is_text and (wanted.precision, wanted.scale) == (reader.precision, reader.scale))
    if reader.kind is Kind.INT and not reader.logical and pa.types.is_int64(wanted):
        # Stored in the same way: where tables have files of both, no file needs a schema of its own for this.
        return True
    time = _TIMES.get((reader.kind, reader.logical))
    return bool(wanted == (time if time is not None else _PLAIN[reader.kind]))
