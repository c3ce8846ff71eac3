"""Bounds enclose the values, and statistics of writers with known bugs are not used."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyorc
import pytest
from orc_samples import Sample, SparkFile, write_sample
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pushdown_spark.expressions.statistics_evaluator import ColumnBounds
from pushdown_spark.formats.orc.file_tail import FileTail
from pushdown_spark.formats.orc.orc_proto_pb2 import ColumnStatistics
from pushdown_spark.formats.orc.statistics import are_consistent, column_bounds, has_correct_merges
from pushdown_spark.formats.orc.time_zones import UTC, Zone

Write = Callable[[pa.Table], Sample]
INSTANTS, CLOCKS = pa.timestamp("us", "UTC"), pa.timestamp("us")


def bounds(sample: Sample, column: int = 1, zone: Zone = UTC, *, nested: bool = False) -> ColumnBounds:
    """Return the bounds of a column in the whole file."""
    return column_bounds(sample.tail, column, sample.tail.statistics[column], zone, is_nested=nested)


@pytest.fixture(params=["pyarrow", "spark"])
def write(request: pytest.FixtureRequest, spark: SparkSession, by_spark: SparkFile) -> Write:
    if request.param == "pyarrow":
        return write_sample
    return lambda table: by_spark(spark.createDataFrame(table))


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array([3, -7, None], pa.int64()), -7, 3),
        (pa.array([3, -7, 2], pa.int8()), -7, 3),
        (pa.array([-(2**63), 2**63 - 1], pa.int64()), -(2**63), 2**63 - 1),
        (pa.array([1.5, -0.5, None]), -0.5, 1.5),
        (pa.array([1.5, math.inf, -3.0]), -3.0, math.inf),
        (pa.array([1.5, -0.5], pa.float32()), -0.5, 1.5),
        (pa.array(["b", "", "é", None]), "", "é"),
        (pa.array([Decimal("1.50"), Decimal("-70.25")], pa.decimal128(10, 2)), Decimal("-70.25"), Decimal("1.50")),
        (pa.array([Decimal(10) ** 29], pa.decimal128(38, 2)), Decimal(10) ** 29, Decimal(10) ** 29),
        (pa.array([True, False, None]), False, True),
        (pa.array([True, True]), True, True),
        (pa.array([False, False]), False, False),
        (pa.array([-141_427, 20_000], pa.int32()).cast(pa.date32()), -141_427, 20_000),
        (pa.array([None, None], pa.int64()), None, None),
    ],
    ids=str,
)
def test_bounds_are_those_of_the_values(write: Write, values: pa.Array, low: object, high: object) -> None:
    actual = bounds(write(pa.table({"x": values})))
    assert (actual.low, actual.high) == (low, high)
    assert actual.has_null is (values.null_count > 0)
    assert actual.values == len(values) - values.null_count


def test_bounds_of_times_are_widened_for_rounding(write: Write) -> None:
    micros = [-1_500_001, 86_400_000_000_123]
    actual = bounds(write(pa.table({"x": pa.array(micros, pa.timestamp("us", "UTC"))})))
    assert isinstance(actual.low, int)
    assert isinstance(actual.high, int)
    assert -1_510_000 < actual.low <= micros[0]
    assert micros[1] <= actual.high < micros[1] + 10_000


def test_bounds_of_local_times_are_widened_by_a_day() -> None:
    micros = [0, 86_400_000_000]
    instants, clocks = (write_sample(pa.table({"x": pa.array(micros, kind)})) for kind in (INSTANTS, CLOCKS))
    day = 86_400_000_000
    for sample in (instants, clocks):
        all_bounds = bounds(sample)
        actual = bounds(sample, zone=Zone("Asia/Tokyo", 1_420_038_000))
        wider = day if sample is clocks else 0
        assert isinstance(all_bounds.low, int)
        assert isinstance(all_bounds.high, int)
        assert (actual.low, actual.high) == (all_bounds.low - wider, all_bounds.high + wider)


@pytest.mark.parametrize("days", [[-141_428, 0], [-700_000, -141_428]])
def test_julian_dates_have_no_bounds(days: list[int]) -> None:
    actual = bounds(write_sample(pa.table({"x": pa.array(days, pa.int32()).cast(pa.date32())})))
    assert (actual.low, actual.high) == (None, None)


@pytest.mark.parametrize("values", [[1.0, math.nan, 5.0], [math.nan, 100.0], [5.0, math.nan], [math.inf, -math.inf]])
def test_columns_with_nan_have_no_bounds(write: Write, values: list[float]) -> None:
    actual = bounds(write(pa.table({"x": values})))
    assert (actual.low, actual.high) == (None, None)


def test_bounds_of_long_strings_are_truncated(spark: SparkSession, by_spark: SparkFile) -> None:
    low, high = "a" * 2000, "z" * 2000
    actual = bounds(by_spark(spark.createDataFrame([(low,), (high,)], "x string")))
    assert isinstance(actual.low, str)
    assert isinstance(actual.high, str)
    assert (len(actual.low), len(actual.high)) == (1024, 1024)
    assert actual.low < low
    assert actual.high > high


def test_invalid_utf8_has_no_bounds(spark: SparkSession, by_spark: SparkFile) -> None:
    """Java's writer replaces these bytes with U+FFFD, which sorts differently."""
    frame = spark.sql("SELECT CAST(X'FF61' AS STRING) AS x UNION ALL SELECT 'a'")
    actual = bounds(by_spark(frame))
    assert (actual.low, actual.high) == ("a", None)


def test_padded_strings_have_no_bounds() -> None:
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<x:char(5)>") as writer:
        writer.writerows([("a",), ("b",)])
    assert bounds(Sample(out.getvalue())).low is None


def test_nulls_of_members_are_unknown() -> None:
    sample = write_sample(pa.table({"s": pa.array([{"x": 1}, None])}))
    assert bounds(sample, 2, nested=True) == ColumnBounds(1, 1, None, 1)
    assert bounds(sample, 1) == ColumnBounds(None, None, True, 1)


def old_tail(tail: FileTail, version: int, writer: int = 0) -> FileTail:
    tail.post_script.writer_version = version
    tail.footer.writer = writer
    return tail


def test_merged_statistics_of_the_first_writer_are_not_used() -> None:
    tail = write_sample(pa.table({"x": [1]})).tail
    assert [has_correct_merges(old_tail(tail, version)) for version in (0, 1, 9)] == [False, True, True]
    assert has_correct_merges(old_tail(tail, 0, writer=1))


@pytest.mark.parametrize(("precision", "version", "is_known"), [(18, 6, False), (18, 7, True), (19, 6, True)])
def test_short_decimals_of_older_writers_have_no_bounds(precision: int, version: int, is_known: bool) -> None:
    tail = old_tail(
        write_sample(pa.table({"x": pa.array([Decimal("1.5")], pa.decimal128(precision, 2))})).tail, version
    )
    assert (column_bounds(tail, 1, tail.statistics[1], UTC, is_nested=False).low == Decimal("1.50")) is is_known


def test_statistics_without_row_indexes_are_inconsistent(spark: SparkSession, by_spark: SparkFile) -> None:
    frame = spark.range(10).withColumn("s", f.expr("if(id > 5, 'a', null)"))
    sample = by_spark(frame, orc_create_index="false", orc_row_index_stride=0)
    assert not any(are_consistent(statistics, 10) for statistics in sample.tail.statistics)


def test_statistics_are_consistent_with_rows_and_nulls() -> None:
    sample = write_sample(pa.table({"x": [1, 2, 3], "y": [1, None, None]}))
    x, y = sample.tail.statistics[1], sample.tail.statistics[2]
    assert [are_consistent(x, rows) for rows in (2, 3, 4)] == [False, True, False]
    assert [are_consistent(y, rows) for rows in (1, 2, 3)] == [False, True, True]
    without = _without(y, "has_null")
    assert [are_consistent(without, rows) for rows in (0, 1, 3)] == [False, True, True]
    assert not are_consistent(_without(x, "number_of_values"), 3)


def _without(statistics: ColumnStatistics, field: str) -> ColumnStatistics:
    statistics.ClearField(field)  # type: ignore[attr-defined]
    return statistics
