"""Damaged JSON and CSV files with and without compression: the pushdown reader returns Spark's rows, or both fail.

`PUSHDOWN_CORPUS_FLIPS` is the number of flipped bits for each codec in nightly runs (default 200).
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_results import SPARK_ERRORS
from spark_rows import sorted_rows

from pushdown_spark.errors import PushdownError
from pushdown_spark.session import PushdownSession

pytestmark = pytest.mark.usefixtures("carrier")

FLIPS = int(os.environ.get("PUSHDOWN_CORPUS_FLIPS", "200"))
CUTS = 20
SCHEMA = "id int, name string, x double"
WHERE = "name = 'name 7' AND id < 150"
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    ".members.gz": lambda content: gzip.compress(content[:3_000]) + gzip.compress(content[3_000:]),
}
FAILED = ("it fails",)


def _content(source_format: str) -> bytes:
    rows = [(number, f"name {number % 10}", number / 8) for number in range(200)]
    if source_format == "csv":
        return "".join(f"{number},{name},{x}\n" for number, name, x in rows).encode()
    return "".join(json.dumps({"id": n, "name": name, "x": x}) + "\n" for n, name, x in rows).encode()


def _damage(rng: random.Random, content: bytes, flips: int, cuts: int) -> list[bytes]:
    """Return files with one flipped bit, half of them near an end, and truncated files."""
    contents = []
    for number in range(flips):
        place = rng.randrange(len(content)) if number % 2 else rng.choice((1, -1)) * rng.randint(1, 20)
        damaged_content = bytearray(content)
        damaged_content[place] ^= 1 << rng.randrange(8)
        contents.append(bytes(damaged_content))
    return contents + [content[: rng.randrange(1, len(content))] for _ in range(cuts)]


def _answer(read: Callable[[], list[str]]) -> tuple[str, ...]:
    try:
        return tuple(read())
    except (*SPARK_ERRORS, PushdownError):
        return FAILED


def _check(
    spark: SparkSession, directory: Path, source_format: str, suffix: str, flips: int, cuts: int
) -> Counter[str]:
    rng = random.Random(f"{source_format}{suffix}")
    content = CODECS[suffix](_content(source_format))
    path = directory / f"damaged.{source_format}{suffix}"
    path.write_bytes(content)
    tally: Counter[str] = Counter()
    for damaged_content in _damage(rng, content, flips, cuts):
        path.write_bytes(damaged_content)
        session = PushdownSession(spark)
        session.add_source("t", path=str(path), format=source_format, schema=SCHEMA, reader="pushdown")
        result = session.scan("t", where=WHERE)
        actual = _answer(lambda result=result: result.run(sorted_rows))  # type: ignore[misc]
        spark_frame = spark.read.format(source_format).schema(SCHEMA).load(str(path)).where(WHERE)
        expected = _answer(lambda spark_frame=spark_frame: sorted_rows(spark_frame))  # type: ignore[misc]
        reader = result.report()["t"].reader
        about = f"{source_format}{suffix} by {reader}, {damaged_content[:40]!r}"
        assert actual == expected, f"{about}: {actual} instead of {expected}"
        tally["failed" if actual == FAILED else reader] += 1
    print(f"{source_format}{suffix}: {dict(tally)}", flush=True)
    return tally


@pytest.fixture(autouse=True)
def _pushdown_off(spark: SparkSession) -> Iterator[None]:
    with pushdown_off(spark, "json", "csv"):
        yield


@pytest.mark.parametrize("source_format", ["json", "csv"])
def test_damaged_files_fail_or_return_rows_as_in_spark(spark: SparkSession, tmp_path: Path, source_format: str) -> None:
    assert _check(spark, tmp_path, source_format, "", 4, 2)["pushdown"]
    assert _check(spark, tmp_path, source_format, ".gz", 6, 3)["failed"]


@pytest.mark.nightly
@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("source_format", ["json", "csv"])
def test_many_damaged_files_fail_or_return_rows_as_in_spark(
    spark: SparkSession, tmp_path: Path, source_format: str, suffix: str
) -> None:
    tally = _check(spark, tmp_path, source_format, suffix, FLIPS, CUTS)
    assert tally.total() == FLIPS + CUTS
