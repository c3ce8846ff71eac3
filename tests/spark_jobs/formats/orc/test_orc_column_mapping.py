"""Columns are matched as in Spark, and values are converted without loss."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyorc
import pytest
from orc_samples import Sample, write_sample
from pyspark.sql.types import IntegerType, StructField, StructType

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.names import ANY_CASE, EXACT_NAMES
from pushdown_spark.formats.orc.column_mapping import (
    KEEPS_PADDING,
    ReadOptions,
    has_local_times,
    match_columns,
    to_requested_type,
)

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
ANY_CASE, EXACT = ReadOptions(name_rule=ANY_CASE), ReadOptions(name_rule=EXACT_NAMES)


def columns(
    sample: Sample, fields_by_name: dict[str, pa.DataType], options: ReadOptions = ANY_CASE
) -> list[int | None]:
    """Return the column ids of the required columns."""
    fields = [pa.field(name, kind) for name, kind in fields_by_name.items()]
    matches = match_columns(sample.tail, fields, range(len(fields)), options)
    return [column.column for column in matches]


def of(schema: str, rows: Sequence[tuple[object, ...]] = ()) -> Sample:
    """Return a file written by pyorc."""
    out = io.BytesIO()
    with pyorc.Writer(out, schema) as writer:
        writer.writerows(rows)
    return Sample(out.getvalue())


def test_columns_are_found_by_name() -> None:
    sample = of("struct<b:int,a:struct<x:int>,C:string>")
    assert columns(sample, {"a": pa.struct([("x", INT)]), "c": TEXT, "d": INT, "b": INT}) == [2, 4, None, 1]
    assert columns(sample, {"c": TEXT, "C": TEXT}, EXACT) == [None, 4]


def test_a_name_that_fits_two_columns_is_a_conflict() -> None:
    sample = of("struct<a:int,A:int>")
    with pytest.raises(SchemaConflictError, match="'a' fits 2 columns"):
        columns(sample, {"a": INT})
    assert columns(sample, {"a": INT, "A": INT}, EXACT) == [1, 2]


def test_hive_files_are_read_by_position() -> None:
    sample = of("struct<_col0:int,_col1:struct<p:int>,_col2:string>")
    fields = [pa.field("third", TEXT), pa.field("first", INT), pa.field("fourth", INT)]
    actual = match_columns(sample.tail, fields, (2, 0, 3), ANY_CASE)
    assert [column.column for column in actual] == [4, 1, None]


def test_hive_files_with_more_columns_than_the_schema_use_spark() -> None:
    sample = of("struct<_col0:int,_col1:int>")
    field = pa.field("first", INT)
    first, second = (StructField(name, IntegerType()) for name in ("first", "second"))
    with pytest.raises(UnsafeInputError, match="2 columns without real names and the schema has 1"):
        match_columns(sample.tail, [field], (0,), ANY_CASE, table=StructType([first]))
    actual = match_columns(sample.tail, [field], (0,), ANY_CASE, table=StructType([first, second]))
    assert [column.column for column in actual] == [1]


@pytest.mark.parametrize("schema", ["struct<_color:int>", "struct<_col0:int,_col1x:int>"])
def test_names_that_may_be_positions_use_spark(schema: str) -> None:
    with pytest.raises(UnsafeInputError, match="_col"):
        columns(of(schema), {"a": INT})


def test_hive_names_among_other_names_are_names() -> None:
    assert columns(of("struct<_col0:int,b:int>"), {"b": INT, "_col0": INT}) == [2, 1]


def test_a_file_without_columns_uses_spark() -> None:
    with pytest.raises(UnsafeInputError, match="no columns"):
        columns(of("struct<>"), {"a": INT})


@pytest.mark.parametrize(
    ("orc_type", "target"),
    [
        ("tinyint", pa.int8()),
        ("tinyint", LONG),
        ("smallint", INT),
        ("int", LONG),
        ("bigint", pa.timestamp("us")),
        ("float", pa.float64()),
        ("double", pa.float64()),
        ("decimal(5,2)", pa.decimal128(20, 2)),
        ("varchar(3)", TEXT),
        ("binary", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp with local time zone", pa.timestamp("us", "UTC")),
        ("array<int>", pa.list_(LONG)),
        ("map<int,float>", pa.map_(LONG, pa.float64())),
        ("struct<X:int,z:int>", pa.struct([("y", TEXT), ("x", LONG)])),
    ],
)
def test_lossless_conversions_are_accepted(orc_type: str, target: pa.DataType) -> None:
    assert columns(of(f"struct<a:{orc_type}>"), {"a": target}) == [1]


@pytest.mark.parametrize(
    ("orc_type", "target"),
    [
        ("bigint", INT),
        ("int", pa.float64()),
        ("int", TEXT),
        ("int", pa.timestamp("us")),
        ("boolean", pa.int8()),
        ("double", pa.float32()),
        ("decimal(5,2)", pa.decimal128(20, 3)),
        ("decimal(20,2)", pa.decimal128(5, 2)),
        ("string", pa.binary()),
        ("string", INT),
        ("binary", TEXT),
        ("date", pa.timestamp("us", "UTC")),
        ("timestamp", pa.timestamp("us")),
        ("array<string>", pa.list_(LONG)),
        ("array<int>", INT),
        ("map<string,int>", pa.map_(TEXT, TEXT)),
        ("struct<x:struct<y:string>>", pa.struct([("x", pa.struct([("y", INT)]))])),
        ("struct<x:int,X:int>", pa.struct([("x", INT)])),
        ("uniontype<int,string>", INT),
    ],
)
def test_other_conversions_use_spark(orc_type: str, target: pa.DataType) -> None:
    with pytest.raises(UnsafeInputError):
        columns(of(f"struct<a:{orc_type}>"), {"a": target})


def test_padded_strings_are_read_only_if_spark_pads_them() -> None:
    sample = of("struct<c:char(3),a:array<char(3)>>")
    metadata = {KEEPS_PADDING: b""}
    fields = [pa.field("c", TEXT, metadata=metadata), pa.field("a", pa.list_(TEXT), metadata=metadata)]
    assert [column.column for column in match_columns(sample.tail, fields, (0, 1), ANY_CASE)] == [1, 2]
    for name, kind in (("c", TEXT), ("a", pa.list_(TEXT))):
        with pytest.raises(UnsafeInputError, match="stored as char"):
            columns(sample, {name: kind})


def test_nested_timestamps_are_detected() -> None:
    types = of("struct<a:array<struct<t:timestamp>>,b:timestamp with local time zone>").tail.types
    assert has_local_times(types, range(len(types)))
    assert not has_local_times(types, [0, 4])


def test_nested_members_are_filled_in_and_reordered() -> None:
    values = pa.array([{"B": 1, "x": [{"p": "q"}]}, None, {"B": None, "x": None}])
    target = pa.struct([("new", TEXT), ("x", pa.list_(pa.struct([("p", TEXT), ("r", INT)]))), ("b", LONG)])
    assert to_requested_type(values, target, ANY_CASE).to_pylist() == [
        {"new": None, "x": [{"p": "q", "r": None}], "b": 1},
        None,
        {"new": None, "x": None, "b": None},
    ]


def test_members_are_matched_by_case_if_case_sensitive() -> None:
    values = pa.array([{"a": 1, "A": 2}])
    target = pa.struct([("A", LONG), ("a", LONG)])
    assert to_requested_type(values, target, EXACT).to_pylist() == [{"A": 2, "a": 1}]
    assert to_requested_type(values, pa.struct([("b", LONG)]), EXACT).to_pylist() == [{"b": None}]
    with pytest.raises(UnsafeInputError, match="fits 2 members"):
        to_requested_type(values, target, ANY_CASE)


def test_null_lists_and_maps_stay_null() -> None:
    lists = pa.array([[1], None, []], pa.list_(INT))
    assert to_requested_type(lists, pa.list_(LONG), ANY_CASE).to_pylist() == [[1], None, []]
    maps = pa.array([[("a", 1)], None, []], pa.map_(TEXT, INT))
    assert to_requested_type(maps, pa.map_(TEXT, LONG), ANY_CASE).to_pylist() == [[("a", 1)], None, []]


def test_times_are_rounded_down_to_microseconds() -> None:
    values = pa.array([1_999, -1, -1_000, None], pa.timestamp("ns", "UTC"))
    actual = to_requested_type(values, pa.timestamp("us", "UTC"), ANY_CASE)
    assert actual.cast(LONG).to_pylist() == [1, -1, -1, None]


@pytest.mark.parametrize("wrap", [lambda days: days, lambda days: pa.array([days.to_pylist()])])
def test_julian_dates_use_spark(wrap: object) -> None:
    assert callable(wrap)
    good = wrap(pa.array([-141_427, None], INT).cast(pa.date32()))
    assert to_requested_type(good, good.type, ANY_CASE).equals(good)
    bad = wrap(pa.array([0, -141_428], INT).cast(pa.date32()))
    with pytest.raises(UnsafeInputError, match="1582"):
        to_requested_type(bad, bad.type, ANY_CASE)


def test_columns_of_a_file_by_pyarrow_are_found_in_the_requested_order() -> None:
    assert columns(write_sample(pa.table({"a": [1], "b": ["x"]})), {"b": TEXT, "a": LONG}) == [2, 1]
