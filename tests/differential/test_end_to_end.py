"""Rows of a session with reader='pushdown' equal the rows of Spark's own reader with its pushdown off, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from oracle import Case, SparkGivesUpError, Verdicts, byte_patterns, judge, pushed
from pyspark.sql import SparkSession
from tally import Tally
from test_soundness import BATCHES, SEEDS

from spark_jobs.contract import SourceFormat


def check_batch(
    spark: SparkSession, source_format: SourceFormat, seed: int, folder: Path, tally: Tally, scans: int
) -> None:
    """Run a few of a batch's predicates, alone and joined by OR, through the whole reader."""
    case = Case.generate(source_format, seed, lines=60, predicates=40, oddness=(0.0, 0.002, 0.02, 0.15))
    path = folder / f"data.{source_format.value}"
    try:
        verdicts = judge(spark, case, path)
    except SparkGivesUpError:
        tally.because("Spark's own reader fails")
        return
    for asked, kept in _chosen(case, verdicts, random.Random(seed), scans):
        expected = Counter(verdicts.rows[row] for row in kept)
        rows, report = pushed(spark, case, path, asked)
        about = f"seed {seed}, {source_format}: {asked}, options {case.options}, {report.reader}: {report.reason}"
        assert rows == expected, f"{about}\nmissing {expected - rows}\ntoo many {rows - expected}"
        assert report.rows_returned == sum(expected.values()), about
        tally.rows += len(kept)
        if report.reader == "pushdown":
            tally.searched += 1
            # Spark reads nothing where its optimizer finds that the predicate contradicts itself.
            never_ran = not report.bytes_read and not expected
            assert never_ran or report.bytes_read == path.stat().st_size, about
        elif report.reason.startswith("byte search gave up"):
            tally.given_up += 1
        else:
            tally.refused += 1
        if report.reader != "pushdown":
            tally.because(report.reason)


def _chosen(case: Case, verdicts: Verdicts, rng: random.Random, scans: int) -> list[tuple[str, frozenset[int]]]:
    """Predicates with a pattern, those that keep rows first, and one that joins several."""
    searchable = [asked for asked in verdicts.kept if byte_patterns(case, asked)]
    rng.shuffle(searchable)
    searchable.sort(key=lambda asked: not verdicts.kept[asked])
    joined = searchable[:4]
    picked = [(asked, verdicts.kept[asked]) for asked in searchable[: scans - 1]]
    if len(joined) > 1:
        either = " OR ".join(f"({asked})" for asked in joined)
        picked.append((either, frozenset().union(*(verdicts.kept[asked] for asked in joined))))
    return picked


def _not_vacuous(tally: Tally) -> None:
    assert tally.searched > tally.given_up + tally.refused, tally
    assert tally.rows > tally.searched, tally


@pytest.mark.parametrize("source_format", [SourceFormat.JSON, SourceFormat.CSV])
def test_rows_are_those_of_spark(spark: SparkSession, source_format: SourceFormat, tmp_path: Path) -> None:
    tally = Tally()

    @settings(max_examples=8, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_batch(spark, source_format, seed, tmp_path, tally, scans=2)

    run()
    _not_vacuous(tally)


@pytest.mark.nightly
@pytest.mark.parametrize("source_format", [SourceFormat.JSON, SourceFormat.CSV])
def test_rows_are_those_of_spark_in_many_cases(
    spark: SparkSession, source_format: SourceFormat, tmp_path: Path
) -> None:
    tally = Tally()

    @settings(max_examples=300, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_batch(spark, source_format, seed, tmp_path, tally, scans=4)

    run()
    _not_vacuous(tally)
