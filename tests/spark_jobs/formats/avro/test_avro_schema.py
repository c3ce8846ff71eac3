"""The parser accepts no schema that Avro's Java library rejects, and reads annotations as the library does."""

from __future__ import annotations

import json

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSchemaError
from pushdown_spark.formats.avro.avro_schema import parse_schema

SYMBOLS = {"type": "enum", "name": "e", "symbols": ["p", "q"]}
PAIR = {"type": "fixed", "name": "f", "size": 2}
INNER = {"type": "record", "name": "n", "fields": [{"name": "u", "type": "int"}]}

REFUSED: dict[str, list[object]] = {
    "a symbol twice": [{**SYMBOLS, "symbols": ["p", "q", "p"]}],
    "a default that is not a symbol": [{**SYMBOLS, "default": "z"}],
    "a branch twice": [["int", "int"]],
    "two arrays in a union": [[{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]],
    "bytes and decimals in a union": [["bytes", {"type": "bytes", "logicalType": "decimal", "precision": 4}]],
    "a union in a union": [["null", ["int", "null"]]],
    "the name of the record around": [{**PAIR, "name": "top"}],
    "a record within itself": [{**INNER, "name": "top"}],
    "two records of one name": [INNER, {**INNER, "fields": [{"name": "v", "type": "int"}]}],
    "two enums of one name": [SYMBOLS, {**SYMBOLS, "symbols": ["q", "p"]}],
    "two sizes of one name": [PAIR, {**PAIR, "size": 1}],
    "a simple type's name": [{**SYMBOLS, "name": "int"}],
    "a number for a name": [{**SYMBOLS, "name": 5}],
    "a size in quotes": [{**PAIR, "size": "2"}],
    "a negative size": [{**PAIR, "size": -1}],
    "no such type": ["lonf"],
    "a type in a type": [{"type": {"type": "array", "items": "int"}}],
    "a record without fields": [{"type": "record", "name": "n"}],
}
TAKEN: dict[str, list[object]] = {
    "a simple type's name in a namespace": [{**SYMBOLS, "name": "a.int"}],
    "two enums in a union": [[SYMBOLS, {**SYMBOLS, "name": "other"}]],
    "a default that is a symbol": [{**SYMBOLS, "default": "q"}],
    "a namespace of null": [{**SYMBOLS, "namespace": None}],
}
LEFT_TO_SPARK: dict[str, list[object]] = {
    "a record twice": [INNER, INNER],
    "an enum twice": [SYMBOLS, SYMBOLS],
    "a symbol that is not ASCII": [{**SYMBOLS, "symbols": ["größe"]}],
}
ANNOTATED = [
    {"type": "bytes", "precision": 4},
    {"type": "bytes", "precision": 4, "scale": 4},
    {"type": "bytes", "precision": 2, "scale": 4},
    {"type": "bytes", "precision": 0},
    {"type": "bytes", "precision": -2},
    {"type": "bytes", "precision": 4, "scale": -1},
    {"type": "bytes", "precision": "4"},
    {"type": "bytes"},
    {"type": "string", "precision": 4},
    {**PAIR, "precision": 4},
    {**PAIR, "precision": 5},
    {**PAIR, "size": 0, "precision": 1},
    {**PAIR, "size": 16, "precision": 38},
]


def schema_of(types: list[object]) -> str:
    fields = [{"name": f"c{place}", "type": each} for place, each in enumerate(types)]
    return json.dumps({"type": "record", "name": "top", "fields": fields})


def takes(spark: SparkSession, schema: str) -> bool:
    """Return whether Avro's library accepts a schema."""
    try:
        spark.sparkContext._jvm.org.apache.avro.Schema.Parser().parse(schema)
    except Py4JJavaError:
        return False
    return True


@pytest.mark.parametrize("types", REFUSED.values(), ids=REFUSED)
def test_schemas_that_java_rejects_are_rejected(spark: SparkSession, types: list[object]) -> None:
    schema = schema_of(types)
    assert not takes(spark, schema)
    with pytest.raises(BadSchemaError):
        parse_schema(schema)


@pytest.mark.parametrize("types", TAKEN.values(), ids=TAKEN)
def test_schemas_that_java_accepts_are_accepted(spark: SparkSession, types: list[object]) -> None:
    schema = schema_of(types)
    assert takes(spark, schema)
    assert len(parse_schema(schema).fields) == len(types)


@pytest.mark.parametrize("types", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_schemas_that_only_java_accepts_are_left_to_spark(spark: SparkSession, types: list[object]) -> None:
    schema = schema_of(types)
    assert takes(spark, schema)
    with pytest.raises(BadSchemaError):
        parse_schema(schema)


def test_repeated_fields_are_rejected(spark: SparkSession) -> None:
    field = {"name": "x", "type": "int"}
    schema = json.dumps({"type": "record", "name": "top", "fields": [field, field]})
    assert not takes(spark, schema)
    with pytest.raises(BadSchemaError, match="the field 'x' is there twice"):
        parse_schema(schema)


@pytest.mark.parametrize("type_", ANNOTATED, ids=json.dumps)
def test_invalid_decimal_annotations_are_ignored(spark: SparkSession, type_: dict[str, object]) -> None:
    schema = json.dumps({**type_, "logicalType": "decimal"})
    theirs = spark.sparkContext._jvm.org.apache.avro.Schema.Parser().parse(schema).getLogicalType()
    actual = parse_schema(schema)
    if theirs is None:
        assert (actual.logical, actual.precision, actual.scale) == ("", 0, 0)
    else:
        assert (actual.logical, actual.precision, actual.scale) == ("decimal", theirs.getPrecision(), theirs.getScale())
