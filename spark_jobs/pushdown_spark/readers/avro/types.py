"""Spark's types for Avro schemas, as Spark's own Avro source infers them."""

from __future__ import annotations

from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError
from pushdown_spark.readers.avro.schema import Kind, Type

_SIMPLE: dict[Kind, t.DataType] = {
    Kind.NULL: t.NullType(),
    Kind.BOOLEAN: t.BooleanType(),
    Kind.INT: t.IntegerType(),
    Kind.LONG: t.LongType(),
    Kind.FLOAT: t.FloatType(),
    Kind.DOUBLE: t.DoubleType(),
    Kind.BYTES: t.BinaryType(),
    Kind.FIXED: t.BinaryType(),
    Kind.STRING: t.StringType(),
    Kind.ENUM: t.StringType(),
}
_LOGICAL: dict[tuple[Kind, str], t.DataType] = {
    (Kind.INT, "date"): t.DateType(),
    (Kind.LONG, "timestamp-millis"): t.TimestampType(),
    (Kind.LONG, "timestamp-micros"): t.TimestampType(),
    (Kind.LONG, "local-timestamp-millis"): t.TimestampNTZType(),
    (Kind.LONG, "local-timestamp-micros"): t.TimestampNTZType(),
}
"""Logical types that Spark knows besides decimals; values of all others are those of the plain type."""
_WIDER: dict[frozenset[Kind], t.DataType] = {
    frozenset({Kind.INT, Kind.LONG}): t.LongType(),
    frozenset({Kind.FLOAT, Kind.DOUBLE}): t.DoubleType(),
}
"""Unions of two types that Spark reads as the wider of them."""
_UNSUPPORTED = frozenset({"time-micros", "timestamp-nanos", "local-timestamp-nanos"})
"""Logical types of longs that Spark 4.3 knows and refuses to read unless features of it are switched on."""
_MAX_PRECISION = 38


def spark_schema(schema: Type) -> t.StructType:
    """The columns of a file. Raises BadSchemaError where it holds no records, or a type that Spark does not read."""
    found = spark_type(schema)
    if not isinstance(found, t.StructType):
        raise BadSchemaError(f"the schema's top is no record but {schema}; such files have no columns")
    return found


def spark_type(schema: Type) -> t.DataType:
    """The type of a column or member; everything may be null, as in any file source of Spark's."""
    if schema.kind is Kind.RECORD:
        return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in schema.fields])
    if schema.kind is Kind.ARRAY:
        return t.ArrayType(spark_type(schema.content))
    if schema.kind is Kind.MAP:
        return t.MapType(t.StringType(), spark_type(schema.content))
    if schema.kind is Kind.UNION:
        return _union(schema)
    if schema.logical == "decimal":
        if schema.precision > _MAX_PRECISION:
            raise BadSchemaError(f"a decimal of {schema.precision} digits: Spark has at most {_MAX_PRECISION}")
        return t.DecimalType(schema.precision, schema.scale)
    if schema.kind is Kind.LONG and schema.logical in _UNSUPPORTED:
        raise BadSchemaError(f"a column of {schema}: Spark does not read this type; leave the column out by a schema")
    return _LOGICAL.get((schema.kind, schema.logical), _SIMPLE[schema.kind])


def _union(schema: Type) -> t.DataType:
    branches = [branch for branch in schema.branches if branch.kind is not Kind.NULL]
    if len(branches) == 1:
        return spark_type(branches[0])
    kinds = frozenset(branch.kind for branch in branches)
    if len(branches) == 2 and kinds in _WIDER:
        return _WIDER[kinds]
    return t.StructType([t.StructField(f"member{place}", spark_type(each)) for place, each in enumerate(branches)])
