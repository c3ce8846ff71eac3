"""The schemas of many files become one, in any order of the files, and values are converted to it."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import OnSchemaConflict
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.projection.schema_alignment import (
    aligned_columns,
    ddl,
    groups_by_name,
    groups_by_position,
    missing_column,
)
from pushdown_spark.projection.schema_merge import FileSchema, MergeRules, merge_schemas
from pushdown_spark.projection.type_widening import coerced_type, lossless_type

ERROR = MergeRules(OnSchemaConflict.ERROR, name_rule=ANY_CASE)
WIDEN = MergeRules(OnSchemaConflict.WIDEN, name_rule=ANY_CASE)
NULL = MergeRules(OnSchemaConflict.NULL, name_rule=ANY_CASE)

ATOMS: list[t.DataType] = [
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.FloatType(),
    t.DoubleType(),
    t.DecimalType(5, 2),
    t.DecimalType(38, 0),
    t.StringType(),
    t.BinaryType(),
    t.BooleanType(),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
    t.NullType(),
]


def files(*schemas: str) -> list[FileSchema]:
    return [FileSchema(f"/{number}", t.StructType.fromDDL(schema)) for number, schema in enumerate(schemas)]


@pytest.mark.parametrize(("left", "right"), list(itertools.combinations(ATOMS, 2)))
def test_lossless_type_is_symmetric(left: t.DataType, right: t.DataType) -> None:
    assert lossless_type(left, right) == lossless_type(right, left)


@given(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5), st.randoms())
def test_common_types_do_not_depend_on_the_order(kinds: list[t.DataType], rng: random.Random) -> None:
    def common_type(order: list[t.DataType]) -> t.DataType | None:
        common: t.DataType | None = order[0]
        for kind in order[1:]:
            common = None if common is None else lossless_type(common, kind)
        return common

    shuffled = rng.sample(kinds, len(kinds))
    assert common_type(kinds) == common_type(shuffled)
    assert coerced_type(kinds) == coerced_type(shuffled)


@pytest.mark.parametrize(
    ("schemas", "table"),
    [
        (["a int", "a int"], "a int"),
        (["a int", "a bigint"], "a bigint"),
        (["a tinyint", "a smallint", "a int"], "a int"),
        (["a float", "a double"], "a double"),
        (["a int", "a double"], "a double"),
        (["a int", "a float"], "a double"),
        (["a decimal(5,2)", "a decimal(10,4)"], "a decimal(10,4)"),
        (["a decimal(5,0)", "a decimal(4,4)"], "a decimal(9,4)"),
        (["a int", "a decimal(3,1)"], "a decimal(11,1)"),
        (["a date", "a timestamp"], "a timestamp"),
        (["a date", "a timestamp_ntz"], "a timestamp_ntz"),
        (["a void", "a date"], "a date"),
        (["a void", "a void"], "a string"),
        (["a int, b string", "a int"], "a int, b string"),
        (["a int", "b int, c int"], "b int, c int, a int"),
        (["b int, a int", "a int, b int"], "a int, b int"),
        (["Id int", "id bigint"], "Id bigint"),
        (["s struct<x:int>", "s struct<x:bigint,y:string>"], "s struct<x:bigint,y:string>"),
        (["s array<struct<x:int>>", "s array<struct<y:int>>"], "s array<struct<x:int,y:int>>"),
        (["m map<string,int>", "m map<string,bigint>"], "m map<string,bigint>"),
        (["m map<string,struct<x:int>>", "m map<string,struct<y:date>>"], "m map<string,struct<x:int,y:date>>"),
        (["a array<void>", "a array<int>"], "a array<int>"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_schemas_merge_to_one_table_in_any_order(schemas: list[str], table: str) -> None:
    expected = t.StructType.fromDDL(table).simpleString()
    for order in itertools.permutations(schemas):
        assert merge_schemas(files(*order), ERROR).simpleString() == expected


@pytest.mark.parametrize(
    ("schemas", "column", "kinds"),
    [
        (["a int", "a string"], "a", {"int", "string"}),
        (["a bigint", "a double"], "a", {"bigint", "double"}),
        (["a timestamp", "a timestamp_ntz"], "a", {"timestamp", "timestamp_ntz"}),
        (["a decimal(38,0)", "a decimal(10,10)"], "a", {"decimal(38,0)", "decimal(10,10)"}),
        (["a struct<x:int>", "a int"], "a", {"struct<x:int>", "int"}),
        (["a array<int>", "a map<string,int>"], "a", {"array<int>", "map<string,int>"}),
        (["a int", "s struct<x:struct<y:int>>", "s struct<x:struct<y:boolean>>"], "s.x.y", {"int", "boolean"}),
        (["a array<struct<x:int>>", "a array<struct<x:date>>"], "a.element.x", {"int", "date"}),
        (["m map<string,int>", "m map<string,date>"], "m.value", {"int", "date"}),
    ],
)
@pytest.mark.usefixtures("spark")
def test_conflict_names_both_files_and_types(schemas: list[str], column: str, kinds: set[str]) -> None:
    messages = set()
    for order in itertools.permutations(enumerate(schemas)):
        given_files = [FileSchema(f"/{n}", t.StructType.fromDDL(schema)) for n, schema in order]
        with pytest.raises(SchemaConflictError) as error:
            merge_schemas(given_files, ERROR)
        messages.add(str(error.value))
    (message,) = messages
    assert message.startswith(f"column {column} is ")
    assert all(f" {kind} in /" in message for kind in kinds)


@pytest.mark.parametrize(
    ("schemas", "table"),
    [
        (["a int", "a string"], "a string"),
        (["a bigint", "a double"], "a double"),
        (["a decimal(38,0)", "a decimal(10,10)"], "a double"),
        (["a timestamp", "a timestamp_ntz", "a date"], "a timestamp"),
        (["a boolean", "a int", "a string"], "a string"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_widen_uses_spark_coercion(schemas: list[str], table: str) -> None:
    for order in itertools.permutations(schemas):
        assert merge_schemas(files(*order), WIDEN).simpleString() == t.StructType.fromDDL(table).simpleString()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("schemas", [("a boolean", "a int"), ("a binary", "a string"), ("a struct<x:int>", "a string")])
def test_widen_raises_without_spark_coercion(schemas: tuple[str, str]) -> None:
    with pytest.raises(SchemaConflictError, match="column a is"):
        merge_schemas(files(*schemas), WIDEN)


@pytest.mark.parametrize(
    ("schemas", "table"),
    [
        (["a int", "a int", "a string"], "a int"),
        (["a int", "a string"], "a int"),
        (["a int", "a bigint", "a string", "a string"], "a bigint"),
        (["a struct<x:int>", "a struct<y:int>", "a string"], "a struct<x:int,y:int>"),
        (["a struct<x:int>", "a string", "a string"], "a string"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_null_takes_the_type_of_the_most_files(schemas: list[str], table: str) -> None:
    for order in itertools.permutations(schemas):
        assert merge_schemas(files(*order), NULL).simpleString() == t.StructType.fromDDL(table).simpleString()


@pytest.mark.usefixtures("spark")
def test_inferred_numbers_become_double() -> None:
    rules = MergeRules(OnSchemaConflict.ERROR, name_rule=ANY_CASE, is_inferred=True)
    assert merge_schemas(files("a bigint", "a double"), rules).simpleString() == "struct<a:double>"


def converts_nothing(file: t.DataType, table: t.DataType) -> bool:
    return file == table


@pytest.mark.usefixtures("spark")
def test_files_keep_types_that_must_be_cast() -> None:
    table = t.StructType.fromDDL("a bigint, s struct<x:int,y:string>, n date")
    given_files = files("a bigint, s struct<x:int>", "a int", "n date, a int, more int")
    assert [
        (group.files, group.schema.simpleString())
        for group in groups_by_name(given_files, table, ERROR, converts_nothing)
    ] == [
        (("/0",), table.simpleString()),
        (("/1", "/2"), "struct<a:int,s:struct<x:int,y:string>,n:date>"),
    ]


@pytest.mark.usefixtures("spark")
def test_columns_that_become_null_are_not_read() -> None:
    table = t.StructType.fromDDL("a int, s struct<x:int,y:int>")
    (group,) = groups_by_name(files("a string, s struct<x:date,y:int>"), table, NULL, converts_nothing)
    assert group.schema.simpleString() == "struct<s:struct<y:int>>"
    with pytest.raises(SchemaConflictError, match=r"column a is string in /0 and int in the declared schema"):
        groups_by_name(files("a string"), table, WIDEN, converts_nothing)


@pytest.mark.usefixtures("spark")
def test_text_columns_keep_the_order_of_the_header() -> None:
    table = t.StructType.fromDDL("a int, b string, c date")
    given_files = files("c string, x string, A string", "a string, b string", "a string, b string, c string")
    groups = groups_by_position(given_files, table, ERROR)
    assert [(group.files, group.schema.simpleString()) for group in groups] == [
        (("/0",), "struct<c:date,_unread_1:string,a:int>"),
        (("/1", "/2"), table.simpleString()),
    ]


@pytest.mark.parametrize(
    ("file", "required_schema", "missing_path"),
    [
        ("a int", "a int", None),
        ("A int", "a int", None),
        ("a int", "b int", "b"),
        ("s struct<x:int>", "s struct<x:int,y:int>", "s.y"),
        ("s array<struct<x:int>>", "s array<struct<y:int>>", "s.y"),
        ("m map<string,struct<x:int>>", "m map<string,struct<x:int,y:int>>", "m.y"),
        ("a int", "a string", None),
    ],
)
@pytest.mark.usefixtures("spark")
def test_missing_column_names_the_first_missing_member(
    file: str, required_schema: str, missing_path: str | None
) -> None:
    schemas = (t.StructType.fromDDL(file), t.StructType.fromDDL(required_schema))
    assert missing_column(*schemas, name_rule=ANY_CASE) == missing_path


@pytest.mark.parametrize(
    ("read", "table", "value", "expected"),
    [
        ("a int", "a bigint", (1,), (1,)),
        ("a int", "a int, b struct<x:int>", (1,), (1, None)),
        ("s struct<x:int>", "s struct<y:string,x:bigint>", ((1,),), ((None, 1),)),
        ("s struct<x:int>", "s struct<y:string,x:bigint>", (None,), (None,)),
        ("l array<struct<x:int>>", "l array<struct<x:double,`odd y`:date>>", ([(1,), None],), ([(1.0, None), None],)),
        ("l array<array<int>>", "l array<array<bigint>>", ([[1, None], None],), ([[1, None], None],)),
        ("m map<int,struct<x:int>>", "m map<bigint,struct<x:int,y:int>>", ({1: (2,)},), ({1: (2, None)},)),
        ("a date", "a timestamp", (None,), (None,)),
        ("`a.b` int", "`a.b` decimal(12,1)", (3,), (3,)),
    ],
)
def test_aligned_columns_convert_values(
    spark: SparkSession, read: str, table: str, value: tuple[object, ...], expected: tuple[object, ...]
) -> None:
    table_schema = t.StructType.fromDDL(table)
    assert t.StructType.fromDDL(ddl(table_schema)) == table_schema
    frame = spark.createDataFrame([value], read)
    actual = frame.selectExpr(*aligned_columns(frame.schema, table_schema, name_rule=ANY_CASE))
    assert actual.schema.simpleString() == table_schema.simpleString()
    assert tuple(actual.collect()[0]) == expected


@pytest.mark.parametrize("rules", [ERROR, WIDEN, NULL])
@pytest.mark.parametrize("kind", ["int", "string"])
def test_two_spellings_in_one_file_raise(spark: SparkSession, rules: MergeRules, kind: str) -> None:
    with pytest.raises(SchemaConflictError, match=r"/1 has s\.a and s\.A, whose names differ only in case"):
        merge_schemas(files("id int", f"s struct<a: int, A: {kind}>"), rules)
