"""The Spark types of Avro schemas are those that Spark's own source infers."""

from __future__ import annotations

import json

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError
from pushdown_spark.formats.avro.avro_schema import parse_schema, spark_schema
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

_DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
_RECORD = {"type": "record", "name": "r", "namespace": "x.y", "fields": [{"name": "a", "type": ["int", "null"]}]}
TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
    "nothing": "null",
    "fixed": {"type": "fixed", "name": "f12", "size": 12, "logicalType": "duration"},
    "enum": {"type": "enum", "name": "e", "symbols": ["A", "B"]},
    "date": {"type": "int", "logicalType": "date"},
    "date_of_a_long": {"type": "long", "logicalType": "date"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "millis": {"type": "long", "logicalType": "timestamp-millis"},
    "micros": {"type": "long", "logicalType": "timestamp-micros"},
    "local_millis": {"type": "long", "logicalType": "local-timestamp-millis"},
    "local_micros": {"type": "long", "logicalType": "local-timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "decimal": {"type": "bytes", **_DECIMAL},
    "decimal_fixed": {"type": "fixed", "name": "f4", "size": 4, **_DECIMAL},
    "decimal_without_scale": {"type": "bytes", "logicalType": "decimal", "precision": 38},
    "too_large_for_its_fixed": {"type": "fixed", "name": "f3", "size": 3, **_DECIMAL},
    "scale_above_precision": {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
    "decimal_of_a_string": {"type": "string", **_DECIMAL},
    "record": _RECORD,
    "the_record_again": ["null", "x.y.r"],
    "array": {"type": "array", "items": ["null", {"type": "array", "items": "long"}]},
    "map": {"type": "map", "values": ["x.y.r", "null"]},
    "nullable": ["null", {"type": "int", "logicalType": "date"}],
    "alone": ["string"],
    "widened": ["long", "int"],
    "widened_or_null": ["float", "null", "double"],
    "either": ["int", "string", "null", "x.y.r"],
}


def infer_schema(spark: SparkSession, schema: str) -> t.StructType:
    """Return the schema that Spark's source infers from an Avro schema, without a file."""
    return spark.read.format(AVRO_CLASS).option("avroSchema", schema).load([]).schema


def test_every_type_is_the_one_that_spark_infers(spark: SparkSession) -> None:
    fields = [{"name": name, "type": kind} for name, kind in TYPES.items()]
    schema = json.dumps({"type": "record", "name": "t", "fields": fields})
    expected = infer_schema(spark, schema)
    actual = spark_schema(parse_schema(schema))
    assert {f.name: f.dataType for f in actual.fields} == {f.name: f.dataType for f in expected.fields}
    assert actual == expected


@pytest.mark.parametrize("schema", ['"int"', '{"type": "array", "items": "int"}'])
def test_files_without_records_have_no_columns(schema: str) -> None:
    with pytest.raises(BadSchemaError, match="not a record"):
        spark_schema(parse_schema(schema))


@pytest.mark.parametrize("logical", ["time-micros", "timestamp-nanos", "local-timestamp-nanos"])
def test_types_that_spark_rejects_are_rejected(spark: SparkSession, logical: str) -> None:
    field = {"name": "x", "type": {"type": "long", "logicalType": logical}}
    schema = json.dumps({"type": "record", "name": "t", "fields": [field]})
    with pytest.raises((PySparkException, Py4JJavaError)):
        infer_schema(spark, schema)
    with pytest.raises(BadSchemaError, match=logical):
        spark_schema(parse_schema(schema))


def test_the_error_names_a_decimal_with_too_many_digits() -> None:
    field = {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 39}}
    with pytest.raises(BadSchemaError, match="39 digits"):
        spark_schema(parse_schema(json.dumps({"type": "record", "name": "t", "fields": [field]})))
