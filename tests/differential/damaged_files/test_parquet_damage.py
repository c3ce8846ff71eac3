"""Damaged Parquet files raise an error, or yield rows that Spark yields as well. No damage ends the process."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import parquet_damage
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import FILTER, DamagedFormat, count_outcome, expected_rows, plain
from parquet_damage import regions
from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_results import SPARK_ERRORS

from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.formats.parquet.file_reader import ParquetQuery

CODECS = ("none", "snappy", "gzip", "zstd", "lz4")
ERRORS = frozenset({"UnreadableFileError", "UnsafeInputError"})
ROWS = 200
SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("a", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("x", pa.decimal128(12, 2)),
        ("l", pa.list_(pa.int32())),
        ("r", pa.struct([("u", pa.string()), ("v", pa.float64())])),
    ]
)


def queries() -> dict[str, ParquetQuery]:
    """Return a scan of all rows, and one with a filter."""
    return {
        name: ParquetQuery(SCHEMA, row_filter, has_corrected_dates=True, has_corrected_int96=True, name_rule=ANY_CASE)
        for name, row_filter in (("all", None), ("filter", FILTER))
    }


def intact_file(rng: random.Random, codec: str, path: Path) -> bytes:
    """Write a sound file with small pages, several row groups and all indexes."""
    rows = range(ROWS)
    table = pa.table(
        [
            list(rows),
            [n % 11 if n % 7 else None for n in rows],
            [f"text {n * n % 31}" if n % 5 else None for n in rows],
            [date.fromordinal(730_000 + n) for n in rows],
            [Decimal(n) for n in rows],
            [[n, None] if n % 3 else [] for n in rows],
            [{"u": f"u{n % 4}", "v": n / 8} if n % 9 else None for n in rows],
        ],
        schema=SCHEMA,
    )
    pq.write_table(table, path, compression=codec, row_group_size=80, data_page_size=200, write_page_index=True)
    return path.read_bytes()


FORMAT = DamagedFormat(parquet_damage.__file__, ".parquet", intact_file, regions, queries(), ERRORS)


def spark_rows(spark: SparkSession, path: Path) -> list[dict[str, object]] | None:
    """Return the rows of Spark's reader without pushdown, or None if it fails."""
    with pushdown_off(spark, "parquet"):
        try:
            frame = spark.read.schema(spark.createDataFrame(SCHEMA.empty_table()).schema).parquet(str(path))
            return plain(frame.toArrow().cast(SCHEMA)).to_pylist()
        except (*SPARK_ERRORS, pa.ArrowInvalid):
            return None


@pytest.mark.nightly
@pytest.mark.parametrize("codec", CODECS)
def test_files_with_flipped_bits_return_sparks_rows_or_raise(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    tally = Counter[str]()
    actual = FORMAT.flip(random.Random(codec), codec, 40, tmp_path)
    whole = spark_rows(spark, tmp_path / "sound.parquet")
    assert whole is not None
    for name, outcomes in actual.items():
        rows = None if all(each.error for each in outcomes.values()) else spark_rows(spark, tmp_path / name)
        for query, outcome in outcomes.items():
            kind = outcome.error or "rows where Spark fails"
            if not outcome.error and rows is not None:
                kind = _kind(name, outcome.rows, expected_rows(rows, query), expected_rows(whole, query))
            count_outcome(tally, name, kind)
    assert tally["sound: the same rows"] == len(FORMAT.queries)
    assert tally["data: the same rows"] > 10, tally


def _kind(name: str, actual: tuple[str, ...], expected: tuple[str, ...], undamaged: tuple[str, ...]) -> str:
    if actual == expected:
        return "the same rows"
    if actual == undamaged:
        # The damage is in pages that no matching row needs, or in parts that only Spark reads.
        return "the rows of the sound file"
    # Statistics, page headers and lengths have no checksums, so that damage there can hide rows from either reader.
    assert len(actual) <= max(len(expected), len(undamaged)), name
    return "other rows"


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_files_raise(tmp_path: Path, codec: str) -> None:
    FORMAT.check_truncated(codec, tmp_path)


@pytest.mark.parametrize("codec", CODECS)
def test_overwritten_bytes_do_not_crash_the_reader(tmp_path: Path, codec: str) -> None:
    """This test overwrites ranges in every region with zeros, ones and noise. It checks the decoders, not the rows."""
    FORMAT.check_overwritten(codec, tmp_path)
