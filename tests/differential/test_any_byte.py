"""Lines with any byte in any position: if Spark keeps the line, its pattern matches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from constant_cache import ConstantCache
from oracle import TextCase, byte_patterns, evaluate, matches
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter

JSON_LINES = (b'{"key":"abc","i":5}', b'{"key":"a?c"}')
CSV_LINES = (b"abc,5,1995-01-05", b'"a?c","5","1995-01-05"')
SCHEMA = "key string, i int, d date"
PREDICATES = (
    "key = 'abc'",
    "key LIKE '%abc%'",
    "key LIKE 'a?%'",
    "key = 'a?c'",
    "i = 5",
    "d BETWEEN '1995-01-05' AND '1995-02-01'",
)


def with_any_byte(line: bytes) -> Iterator[bytes]:
    """Return the line with each byte inserted or replaced at each position, except NUL and line ends."""
    for place in range(len(line) + 1):
        for byte in sorted(set(range(1, 256)) - {10, 13}):
            yield line[:place] + bytes([byte]) + line[place:]
            yield line[:place] + bytes([byte]) + line[place + 1 :]


def with_any_two_bytes(line: bytes) -> Iterator[bytes]:
    """Return the line with two non-ASCII bytes in place of each of its bytes."""
    for place in range(len(line)):
        for first in range(0x80, 0x100):
            yield from (line[:place] + bytes([first, second]) + line[place + 1 :] for second in range(0x80, 0x100))


def check(spark: SparkSession, source_format: SourceFormat, lines: list[bytes], path: Path) -> None:
    case = TextCase(
        source_format, StructType.fromDDL(SCHEMA), {}, tuple(lines), tuple(b"\n" for _ in lines), PREDICATES, ansi=False
    )
    evaluation = evaluate(spark, case, path)
    assert not evaluation.raised
    fold = ConstantCache(spark)
    for predicate in PREDICATES:
        numbers = {evaluation.origins[row] for row in evaluation.kept[predicate] if evaluation.origins[row] >= 0}
        assert numbers or predicate.startswith("d ")
        for pattern in byte_patterns(case, predicate, fold):
            lost_lines = [lines[number] for number in numbers if not matches(pattern, lines[number], b"\n")]
            assert not lost_lines, (predicate, pattern.label, lost_lines[:5])
            strings = StringFilter.of(pattern)
            lost_lines = [
                lines[number] for number in numbers if strings is not None and not strings.matches(lines[number])
            ]
            assert not lost_lines, (predicate, strings, lost_lines[:5])


@pytest.mark.parametrize(
    ("source_format", "bases"), [(SourceFormat.JSON, JSON_LINES), (SourceFormat.CSV, CSV_LINES)], ids=str
)
def test_lines_with_any_byte_in_any_position_return_sparks_rows(
    spark: SparkSession, source_format: SourceFormat, bases: tuple[bytes, ...], tmp_path: Path
) -> None:
    check(spark, source_format, sorted({line for base in bases for line in with_any_byte(base)}), tmp_path / "data")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("source_format", "base"), [(SourceFormat.JSON, b'{"key":"abc"}'), (SourceFormat.CSV, b"abc,5")], ids=str
)
def test_lines_with_any_two_bytes_return_sparks_rows(
    spark: SparkSession, source_format: SourceFormat, base: bytes, tmp_path: Path
) -> None:
    lines = [b'{"i":5,"key":"a?c"}' if source_format is SourceFormat.JSON else b"a?c,5"]
    check(spark, source_format, [*lines, *with_any_two_bytes(base)], tmp_path / "data")
