"""Bloom filters contain every value that a writer added, and few others."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Sequence
from datetime import date, timedelta

import pyorc
import pytest
from orc_samples import Sample, SparkFile
from pyspark.sql import SparkSession

from pushdown_spark.expressions.types import Value
from pushdown_spark.formats.orc.bloom_filters import HashedValues, are_filters_reliable
from pushdown_spark.formats.orc.file_tail import OrcTypeKind
from pushdown_spark.formats.orc.metadata import parse_message
from pushdown_spark.formats.orc.orc_proto_pb2 import BloomFilterIndex, Footer

ROWS = 2000
STRIDE = 1000
EPOCH = date(1970, 1, 1)
TYPES = "tiny tinyint, short smallint, int int, long bigint, float float, double double, text string, day date"


def rows(rng: random.Random) -> list[tuple[object, ...]]:
    """Return values from the whole range of each type. Only the first row groups have 0.0 and -0.0."""
    sample_rows: list[tuple[object, ...]] = []
    for number in range(ROWS):
        text = "".join(rng.choice("abcé日😀 ") for _ in range(rng.randint(0, 40)))
        zero = rng.choice((0.0, -0.0)) if number % 5 == 0 and number < STRIDE else rng.choice((1.5, -2.25e10))
        small = float(rng.randint(-(2**20), 2**20)) / 8
        day = EPOCH + timedelta(days=rng.randint(-100_000, 100_000))
        sample_rows.append(
            (
                rng.randint(-128, -100),
                rng.randint(-(2**15), 2**15 - 1),
                rng.randint(-(2**31), 2**31 - 1),
                rng.choice((rng.randint(-(2**63), 2**63 - 1), 2**63 - 1)),
                small,
                zero if number % 2 else rng.random(),
                text,
                day,
            )
        )
    return sample_rows


def stored_value(value: object) -> Value:
    if isinstance(value, date):
        return (value - EPOCH).days
    assert isinstance(value, int | float | str)
    return value


def is_trusted(sample: Sample, column: int) -> bool:
    return are_filters_reliable(sample.tail.footer, OrcTypeKind(sample.tail.types[column].kind))


def check(sample: Sample, sample_rows: Sequence[tuple[object, ...]], stride: int) -> None:
    stripe = sample.stripe()
    rng = random.Random(2)
    for column in range(1, len(sample_rows[0]) + 1):
        index = stripe.bloom_filters(column)
        assert index is not None
        assert len(index.bloom_filter) == stripe.group_count
        kind = OrcTypeKind(sample.tail.types[column].kind)
        if not is_trusted(sample, column):
            assert kind is OrcTypeKind.BYTE
            continue
        for group, bloom in enumerate(index.bloom_filter):
            there = [stored_value(row[column - 1]) for row in sample_rows[group * stride : (group + 1) * stride]]
            distinct_values = list(dict.fromkeys(there))
            assert HashedValues(distinct_values, kind).possible_values(bloom) == frozenset(distinct_values), kind
            absent = [value for value in others(rng, kind) if value not in set(there)]
            assert len(HashedValues(absent, kind).possible_values(bloom)) < len(absent) * 0.2, kind


def others(rng: random.Random, kind: OrcTypeKind) -> list[Value]:
    """Return values of which most are not in the data."""
    if kind in (OrcTypeKind.STRING, OrcTypeKind.VARCHAR):
        return [f"other {rng.random()}" for _ in range(300)]
    if kind in (OrcTypeKind.FLOAT, OrcTypeKind.DOUBLE):
        return [rng.random() + 2e6 for _ in range(300)]
    if kind is OrcTypeKind.BYTE:
        return list(range(100))
    if kind is OrcTypeKind.DATE:
        return [rng.randint(200_000, 300_000) for _ in range(300)]
    return [rng.randint(-(2**15), 2**15 - 1) for _ in range(300)]


def test_filters_by_spark_contain_all_values(spark: SparkSession, by_spark: SparkFile) -> None:
    sample_rows = rows(random.Random(1))
    frame = spark.createDataFrame(sample_rows, TYPES)
    names = ",".join(frame.columns)
    sample = by_spark(frame, orc_bloom_filter_columns=names, orc_bloom_filter_fpp=0.01, orc_row_index_stride=STRIDE)
    assert all(are_filters_reliable(sample.tail.footer, kind) for kind in OrcTypeKind)
    check(sample, sample_rows, STRIDE)


def test_filters_by_pyorc_contain_all_values() -> None:
    sample_rows = rows(random.Random(3))
    out = io.BytesIO()
    schema = "struct<" + TYPES.replace(", ", ",").replace(" ", ":") + ">"
    names = [pair.split()[0] for pair in TYPES.split(", ")]
    with pyorc.Writer(out, schema, row_index_stride=500, bloom_filter_columns=names, bloom_filter_fpp=0.01) as writer:
        writer.writerows(sample_rows)
    sample = Sample(out.getvalue())
    assert bytes(sample.tail.footer.software_version).startswith(b"2.")
    check(sample, sample_rows, 500)


def test_both_zeros_are_looked_up(spark: SparkSession, by_spark: SparkFile) -> None:
    frame = spark.createDataFrame([(-0.0,), (-0.0,)], "x double")
    sample = by_spark(frame, orc_bloom_filter_columns="x")
    index = sample.stripe().bloom_filters(1)
    assert index is not None
    assert HashedValues([0.0, 7.0], OrcTypeKind.DOUBLE).possible_values(index.bloom_filter[0]) == {0.0}
    assert HashedValues([-0.0], OrcTypeKind.DOUBLE).possible_values(index.bloom_filter[0]) == {0.0}


@pytest.mark.parametrize(
    "kind", [OrcTypeKind.CHAR, OrcTypeKind.DECIMAL, OrcTypeKind.TIMESTAMP, OrcTypeKind.BINARY, OrcTypeKind.BOOLEAN]
)
def test_kinds_without_a_hash_are_rejected(kind: OrcTypeKind) -> None:
    with pytest.raises(ValueError, match="not used"):
        HashedValues([1], kind)


def test_values_of_another_kind_are_rejected() -> None:
    with pytest.raises(ValueError, match="not of kind"):
        HashedValues(["a", b"b"], OrcTypeKind.STRING)
    with pytest.raises((ValueError, OverflowError)):
        HashedValues([2**70], OrcTypeKind.LONG)


def test_julian_dates_are_rejected() -> None:
    assert HashedValues([-141_427], OrcTypeKind.DATE)
    with pytest.raises(ValueError, match="calendar"):
        HashedValues([0, -141_428], OrcTypeKind.DATE)


def test_an_empty_filter_excludes_nothing() -> None:
    (bloom,) = parse_message(BloomFilterIndex, b"\x0a\x02\x08\x04").bloom_filter
    assert HashedValues([1, 2], OrcTypeKind.LONG).possible_values(bloom) == {1, 2}
    assert math.isfinite(bloom.num_hash_functions)


@pytest.mark.parametrize(
    ("footer", "is_trusted"),
    [(b"", True), (b"\x48\x01", False), (b"\x48\x01\x62\x052.0.1", True), (b"\x48\x01\x62\x051.9.0", False)],
)
def test_only_filters_of_correct_writers_are_used(footer: bytes, is_trusted: bool) -> None:
    """Field 9 is the writer, field 12 its version."""
    assert are_filters_reliable(parse_message(Footer, footer), OrcTypeKind.LONG) is is_trusted
    assert are_filters_reliable(parse_message(Footer, footer), OrcTypeKind.BYTE) is (footer == b"")
