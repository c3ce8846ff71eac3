"""Columns of Parquet files are matched by name and type, and anything that Spark may decode otherwise is rejected."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.formats.calendars import DATETIMES
from pushdown_spark.formats.parquet.file_columns import FileColumns, has_sound_statistics, match_schema


def match(path: Path, table: pa.Table, schema: pa.Schema, mode: str = "CORRECTED", **options: object) -> FileColumns:
    pq.write_table(table, path / "t.parquet", **options)
    footer = pq.read_metadata(path / "t.parquet")
    is_corrected = mode == "CORRECTED"
    return match_schema(
        footer, schema, has_corrected_dates=is_corrected, has_corrected_int96=is_corrected, name_rule=ANY_CASE
    )


def test_columns_are_matched_by_name_in_any_case_with_their_leaves(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a.b": [1],
            "S": pa.array([{"x": 1, "y": [{"z": "t"}]}]),
            "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        }
    )
    schema = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.float64())),
            ("s", pa.struct([("y", pa.list_(pa.struct([("z", pa.string())])))])),
            ("A.B", pa.int64()),
            ("gone", pa.date32()),
        ]
    )
    actual = match(tmp_path, table, schema)
    assert actual.names == {"m": "m", "s": "S", "A.B": "a.b", "gone": None}
    assert actual.leaves == {"m": (3, 4), "s": (2,), "A.B": (0,)}


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array([1], pa.uint16()), pa.int32()),
        (pa.array([1], pa.int32()), pa.int64()),
        (pa.array([1], pa.int8()), pa.int32()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([1], pa.time64("us")), pa.int64()),
        (pa.array([b"abcd"], pa.binary(4)), pa.binary()),
        (pa.array(["x"]), pa.binary()),
        (pa.array([b"x"]), pa.string()),
        (pa.array([1.0], pa.float32()), pa.float64()),
        (pa.array([1], pa.int64()).cast(pa.decimal128(20, 0)), pa.decimal128(22, 0)),
        (pa.array([[1]]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([{"list": {"element": 1}}]), pa.list_(pa.int64())),
        (pa.array([[1]]), pa.struct([("list", pa.struct([("element", pa.int64())]))])),
        (pa.array([{"x": 1}]), pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        (pa.array([{"x": 1}]), pa.struct([("X", pa.int64())])),
        (
            pa.array([{"x": 1}], pa.struct([("x", pa.timestamp("ms", "UTC"))])),
            pa.struct([("x", pa.timestamp("us", "UTC"))]),
        ),
        (pa.array([None], pa.null()), pa.int32()),
    ],
)
def test_other_types_are_rejected(tmp_path: Path, values: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(UnsafeInputError, match="column a"):
        match(tmp_path, pa.table({"a": values}), pa.schema([("a", target)]))


def test_columns_stored_in_milliseconds_are_recognized(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1], pa.timestamp("ms", "UTC")), "b": pa.array([1], pa.timestamp("us", "UTC"))})
    actual = match(tmp_path, table, pa.schema([("a", pa.timestamp("us", "UTC")), ("b", pa.timestamp("us", "UTC"))]))
    assert actual.in_milliseconds == {"a"}


def test_codecs_that_spark_lacks_are_rejected(tmp_path: Path) -> None:
    table, schema = pa.table({"a": [1], "b": [2]}), pa.schema([("a", pa.int64())])
    with pytest.raises(UnsafeInputError, match="column a is compressed with BROTLI"):
        match(tmp_path, table, schema, compression="brotli")
    assert match(tmp_path, table, schema, compression={"a": "zstd", "b": "brotli"}).leaves == {"a": (0,)}


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_dates_of_unknown_calendars_are_rejected(tmp_path: Path, mode: str) -> None:
    table = pa.table({"d": pa.array([1], pa.date32()), "t": pa.array([1], pa.timestamp("us", "UTC")), "n": [1]})
    for name in ("d", "t"):
        schema = pa.schema([table.schema.field(name)])
        with pytest.raises(UnsafeInputError, match="old calendar"):
            match(tmp_path, table, schema, mode)
    match(tmp_path, table, pa.schema([table.schema.field("n")]), mode)


@pytest.mark.parametrize(
    ("metadata", "is_corrected"),
    [
        ({}, True),
        ({"org.apache.spark.version": b"2.4.8"}, False),
        ({"org.apache.spark.version": b"3.0.0"}, True),
        ({"org.apache.spark.version": b"4.3.0", "org.apache.spark.legacyDateTime": b""}, False),
    ],
)
def test_files_of_spark_name_the_calendar_of_their_dates(metadata: dict[str, bytes], is_corrected: bool) -> None:
    assert DATETIMES.are_as_stored(metadata, by_option=True) is is_corrected
    assert DATETIMES.are_as_stored(metadata, by_option=False) is (is_corrected and bool(metadata))


def test_names_that_differ_in_case_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnsafeInputError, match="differ only in case"):
        match(tmp_path, pa.table({"a": [1], "A": [2]}), pa.schema([("a", pa.int64())]))


@pytest.mark.parametrize(
    ("created_by", "sound"),
    [
        ("parquet-mr version 1.17.0 (build fac0c7)", True),
        ("parquet-mr version 1.8.3 (build aef7230e)", False),
        ("parquet-mr", False),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False),
        ("parquet-cpp-arrow version 26.0.1", True),
        ("parquet-rs version 58.0.0", True),
        ("datafusion version 55.2.0", True),
        ("DuckDB version v1.5.5 (build 8a5851971f)", True),
        ("Polars", True),
        ("impala version 2.9.0", False),
        ("", False),
        (None, False),
    ],
)
def test_statistics_of_writers_with_known_bugs_are_not_used(created_by: str | None, sound: bool) -> None:
    assert has_sound_statistics(created_by) is sound
