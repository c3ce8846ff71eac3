"""Every reader returns Spark's rows for every file of a corpus: a given one, and one generated from seeds.

`PUSHDOWN_CORPUS` is a directory of ORC, Avro, Parquet, JSON and CSV files of any origin, with subdirectories.
`PUSHDOWN_CORPUS_COMPARISONS` is the number of comparisons with the pushdown reader for each format (default 10,000).
`PUSHDOWN_CORPUS_SEED` is the first seed of the generated files, the settings and the predicates.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from corpus import Comparison, CorpusFile, Setting, corpus_files
from corpus_files import write_corpus
from pyspark.sql import SparkSession
from session_settings import searched_by, session_settings

from pushdown_spark.contract import SourceFormat

_WITHOUT_COMPILER = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Every plan is new and has few rows: compiling it takes longer than running it. Every tenth file has the defaults."""
FORMATS = (SourceFormat.ORC, SourceFormat.AVRO, SourceFormat.PARQUET, SourceFormat.JSON, SourceFormat.CSV)
READINGS = [*((source_format, "") for source_format in FORMATS), (SourceFormat.JSON, "jvm"), (SourceFormat.CSV, "jvm")]
"""The formats, and where lines of JSON and CSV are searched if not where the planner chooses."""
COMPARED = "compared with pushdown"
PREDICATES = 40
"""Predicates of a file under one setting."""
WANTED = int(os.environ.get("PUSHDOWN_CORPUS_COMPARISONS", "10000"))
CORPUS = os.environ.get("PUSHDOWN_CORPUS")
SEED = int(os.environ.get("PUSHDOWN_CORPUS_SEED", "0"))
SECONDS = float(os.environ.get("PUSHDOWN_CORPUS_SECONDS", "inf"))
"""A run ends after that time, short of comparisons; its counts are printed all the same."""


def _generate_files(spark: SparkSession, source_format: SourceFormat, first: int) -> Iterator[CorpusFile]:
    """Yield generated files of a format endlessly. Each directory has the next seed."""
    seed = first
    while True:
        with TemporaryDirectory() as directory:
            write_corpus(spark, Path(directory), seed, source_format)
            yield from corpus_files(Path(directory))
        seed += 1


def _files_in_turn(directory: Path, source_format: SourceFormat) -> Iterator[CorpusFile]:
    """Yield the files of a format in a directory repeatedly. Yield nothing if there are none."""
    files_of_format = [file for file in corpus_files(directory) if file.source_format is source_format]
    while files_of_format:
        yield from files_of_format


def _compare(
    spark: SparkSession, files: Iterator[CorpusFile], source_format: SourceFormat, comparisons: int
) -> Counter[str]:
    """Compare files until this number of comparisons is reached. Raises AssertionError for differences."""
    rng = random.Random(f"{source_format.value} {comparisons} {SEED}")
    tally, differences, began = Counter[str](), list[str](), time.monotonic()
    for count, file in enumerate(files, 1):
        with session_settings(spark, _WITHOUT_COMPILER if count % 10 else {}):
            Comparison(spark, file, Setting.draw(rng, file), tally, differences).check(rng, PREDICATES)
        # A corpus of files that only Spark reads ends as well.
        is_idle = count * PREDICATES > 20 * comparisons
        if tally[COMPARED] >= comparisons or time.monotonic() - began > SECONDS or is_idle:
            break
    assert not differences, "\n".join([*differences, str(tally)])
    return tally


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[Counter[str]], None]:
    """Print the counts of a run, even if the test passes."""

    def shown(tally: Counter[str]) -> None:
        with capsys.disabled():
            print("", *(f"{count:9,} {name}" for name, count in tally.most_common(40)), sep="\n", flush=True)

    return shown


@pytest.mark.nightly
@pytest.mark.parametrize("source_format", FORMATS)
def test_the_external_corpus_returns_sparks_rows(
    spark: SparkSession, show: Callable[[Counter[str]], None], source_format: SourceFormat
) -> None:
    if CORPUS is None:
        pytest.skip("set PUSHDOWN_CORPUS to a directory of files; another test of this module generates files")
    files = _files_in_turn(Path(CORPUS), source_format)
    tally = _compare(spark, files, source_format, WANTED)
    show(tally)


@pytest.mark.nightly
@pytest.mark.parametrize(("source_format", "carrier"), READINGS)
def test_a_generated_corpus_returns_sparks_rows(
    spark: SparkSession, show: Callable[[Counter[str]], None], source_format: SourceFormat, carrier: str
) -> None:
    if CORPUS is not None:
        pytest.skip("PUSHDOWN_CORPUS is set: its files are compared")
    with searched_by(carrier):
        tally = _compare(spark, _generate_files(spark, source_format, SEED), source_format, WANTED)
    show(tally)
    assert tally[COMPARED] >= WANTED or math.isfinite(SECONDS), tally


@pytest.mark.parametrize(("source_format", "carrier"), READINGS)
def test_a_small_corpus_returns_sparks_rows(spark: SparkSession, source_format: SourceFormat, carrier: str) -> None:
    with searched_by(carrier):
        tally = _compare(spark, _generate_files(spark, source_format, 1_000), source_format, 12)
    assert tally[COMPARED] >= 12, tally
