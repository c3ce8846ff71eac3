"""Every line that Spark keeps matches all patterns of the predicate, and the search of the file finds it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from constant_cache import ConstantCache
from oracle import TextCase, UnreadableBySparkError, apply_settings, byte_patterns, candidates, evaluate, matches
from pyspark.sql import SparkSession
from seeds import few_and_many, over_seeds

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
from pushdown_spark.expressions.byte_patterns.text import BytePattern

LINES = 60
PREDICATES = 60
NIGHTLY_PAIRS = 500_000
"""Pairs of a predicate and a line, per format."""
_BOM = b"\xef\xbb\xbf"


def check_batch(
    spark: SparkSession, source_format: SourceFormat, seed: int, directory: Path, tally: Counter[str]
) -> None:
    """Evaluate a batch in Spark, then compare all patterns of all predicates with the lines that Spark keeps."""
    case = TextCase.generate(source_format, seed, lines=LINES, predicates=PREDICATES)
    path = directory / f"data.{source_format.value}"
    try:
        evaluation = evaluate(spark, case, path)
    except UnreadableBySparkError:
        tally["Spark's own reader fails"] += 1
        return
    tally["predicates"] += len(evaluation.kept)
    tally["raised"] += len(evaluation.raised)
    if case.unsafe:
        tally[case.unsafe] += 1
        return
    with apply_settings(spark, case):
        fold = ConstantCache(spark)
        fold.prepare_for(lambda recorder: [byte_patterns(case, predicate, recorder) for predicate in evaluation.kept])
        derived = {predicate: byte_patterns(case, predicate, fold) for predicate in evaluation.kept}
    for predicate, patterns in derived.items():
        kept_lines = sorted(
            {evaluation.origins[row] for row in evaluation.kept[predicate] if evaluation.origins[row] >= 0}
        )
        tally["with pattern"] += bool(patterns)
        for pattern in patterns:
            about = f"seed {seed}, {source_format}: {predicate} as {pattern.label!r}, options {case.options}, "
            about += f"settings {case.settings}"
            _check_lines(case, pattern, kept_lines, about)
            _check_file(case, pattern, kept_lines, path, 1 + seed % 4, about)
            tally["kept lines"] += len(kept_lines)
            tally["dropped lines"] += len(case.lines) - len(kept_lines)


def _check_lines(case: TextCase, pattern: BytePattern, kept_lines: list[int], about: str) -> None:
    strings = StringFilter.of(pattern)
    for number in kept_lines:
        assert strings is None or strings.matches(case.lines[number]), f"{about}: no string in {case.lines[number]!r}"
        assert matches(pattern, case.lines[number], case.terminators[number]), f"{about} misses {case.lines[number]!r}"


def _check_file(
    case: TextCase, pattern: BytePattern, kept_lines: list[int], path: Path, parts: int, about: str
) -> None:
    """Assert that the search of splits finds every kept line, and no line more often than the file has it."""
    if b"\x00" in case.content:
        return
    actual = candidates(case, pattern, path, path.stat().st_size // parts + 1)
    in_file = Counter(case.lines)
    for line, count in Counter(
        case.lines[number] for number in kept_lines if _is_found_unchanged(case, number)
    ).items():
        assert actual[line] >= count, f"{about} does not find {line!r}"
    for line, count in in_file.items():
        assert actual[line] <= max(count, 1), f"{about} finds {line!r} too often"


def _is_found_unchanged(case: TextCase, number: int) -> bool:
    """Return whether the search returns the bytes of a line as they are."""
    return b"\r" not in case.lines[number] and not (number == 0 and case.lines[0].startswith(_BOM))


def _require_enough_comparisons(tally: Counter[str]) -> None:
    assert tally["with pattern"] > tally["predicates"] * 0.15, tally
    assert tally["kept lines"] > tally["with pattern"], tally
    assert tally["dropped lines"] > tally["kept lines"], tally
    assert tally["raised"] < tally["predicates"] * 0.2, tally


@pytest.mark.parametrize("batches", few_and_many(2, NIGHTLY_PAIRS // (PREDICATES * LINES) + 1))
@pytest.mark.parametrize("source_format", [SourceFormat.JSON, SourceFormat.CSV])
def test_patterns_match_every_line_that_spark_keeps(
    spark: SparkSession, source_format: SourceFormat, tmp_path: Path, batches: int
) -> None:
    tally = Counter[str]()
    over_seeds(batches, lambda seed: check_batch(spark, source_format, seed, tmp_path, tally))
    _require_enough_comparisons(tally)


def test_rows_have_the_numbers_of_their_lines(spark: SparkSession, tmp_path: Path) -> None:
    case = TextCase.generate(SourceFormat.JSON, 1, lines=5, predicates=3)
    evaluation = evaluate(spark, case, tmp_path / "data.json")
    assert len([origin for origin in evaluation.origins if origin < 0]) == 5
