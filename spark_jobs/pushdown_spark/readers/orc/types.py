"""The Spark schema of an ORC file, for readers that have no Spark session to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError
from pushdown_spark.expressions.scope import DECLARED_TYPE
from pushdown_spark.readers.orc.messages import Type
from pushdown_spark.readers.orc.tail import Kind

_ATOMS: dict[Kind, Callable[[], t.DataType]] = {
    Kind.BOOLEAN: t.BooleanType,
    Kind.BYTE: t.ByteType,
    Kind.SHORT: t.ShortType,
    Kind.INT: t.IntegerType,
    Kind.LONG: t.LongType,
    Kind.FLOAT: t.FloatType,
    Kind.DOUBLE: t.DoubleType,
    Kind.STRING: t.StringType,
    Kind.BINARY: t.BinaryType,
    Kind.DATE: t.DateType,
    Kind.TIMESTAMP: t.TimestampType,
    Kind.TIMESTAMP_INSTANT: t.TimestampType,
}
_CATALYST_TYPE = b"spark.sql.catalyst.type"


def spark_schema(types: Sequence[Type]) -> t.StructType:
    """The schema Spark would infer. Raises BadSchemaError for types that only Spark knows."""
    found = _spark_type(types, 0)
    assert isinstance(found, t.StructType)
    return found


def _spark_type(types: Sequence[Type], column: int) -> t.DataType:
    node = types[column]
    kind = Kind(node.kind)
    if kind is Kind.STRUCT:
        names = [name.decode() for name in node.field_names]
        return t.StructType([_field(types, c, name) for name, c in zip(names, node.subtypes, strict=True)])
    if kind is Kind.LIST:
        return t.ArrayType(_spark_type(types, node.subtypes[0]))
    if kind is Kind.MAP:
        key, value = node.subtypes
        return t.MapType(_spark_type(types, key), _spark_type(types, value))
    if kind is Kind.DECIMAL:
        return t.DecimalType(node.precision, node.scale)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        return t.StringType()
    declared = next((item.value.decode() for item in node.attributes if item.key == _CATALYST_TYPE), "")
    if declared == "timestamp_ntz":
        return t.TimestampNTZType()
    if kind not in _ATOMS or declared.startswith("interval"):
        raise BadSchemaError(
            f"column {column} has type {declared or kind.name.lower()}, which only Spark's reader knows"
        )
    return _ATOMS[kind]()


def _field(types: Sequence[Type], column: int, name: str) -> t.StructField:
    kind, length = Kind(types[column].kind), types[column].maximum_length
    metadata = {DECLARED_TYPE: f"{kind.name.lower()}({length})"} if kind in (Kind.CHAR, Kind.VARCHAR) else None
    return t.StructField(name, _spark_type(types, column), metadata=metadata)
