"""Rows of a session with reader='pushdown' equal those of Spark's own reader without pushdown, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

import pytest
from constant_cache import ConstantCache
from oracle import TextCase, UnreadableBySparkError, apply_settings, byte_patterns
from pyspark.sql import SparkSession
from seeds import few_and_many, over_seeds
from spark_results import SPARK_ERRORS
from text_scans import Scans, compare_readers

from pushdown_spark.contract import SourceFormat

LINES = 60
SCANS = 7
NIGHTLY_PAIRS = 100_000
"""Pairs of a scan and a line, per format."""
ODDNESS = (0.0, 0.002, 0.02, 0.15)
"""How often a line is odd."""
FEW_ODD = (0.0, 0.0, 0.002, 0.02)
"""The same for a few batches: one odd value in a string column leaves the whole file to Spark."""
_ERRORS_OF_LINES = ("INCONSISTENT_BEHAVIOR_CROSS_VERSION", "MALFORMED_RECORD_IN_PARSING")
"""Errors of lines that a reader must raise, too, even if the lines do not satisfy the predicate."""
FORMATS = [SourceFormat.JSON, SourceFormat.CSV]


def check_batch(
    spark: SparkSession,
    source_format: SourceFormat,
    seed: int,
    directory: Path,
    tally: Counter[str],
    *,
    oddness: Sequence[float],
    refused: float,
) -> None:
    """Run a batch's predicates, alone and joined by OR, with the complete reader in one job."""
    case = TextCase.generate(source_format, seed, lines=LINES, predicates=60, oddness=oddness, refused=refused)
    rng = random.Random(seed)
    # Hypothesis runs a failing seed again, which needs a new directory.
    scans = Scans.write(case, Path(mkdtemp(prefix=f"{source_format}-{seed}-", dir=directory)), rng)
    try:
        outcomes = list(compare_readers(spark, scans, _choose_predicates(spark, case, rng)))
    except UnreadableBySparkError as problem:
        tally["Spark's own reader fails"] += 1
        if any(error in str(problem.__cause__) for error in _ERRORS_OF_LINES):
            with apply_settings(spark, case), pytest.raises(SPARK_ERRORS):
                scans.run_predicates(spark, case.predicates[:SCANS])
        return
    for predicate, expected, actual, report in outcomes:
        if case.options.get("header") == "true" and any("are read separately" in note for note in report.notes):
            # The first line of a file has the name of a column by chance, so its columns are matched by name.
            tally["columns by the names of a header"] += 1
            continue
        about = f"seed {seed}, {source_format}: {predicate}, columns {scans.columns}, options {case.options}, "
        about += f"settings {case.settings}, {report.reader}: {report.reason}"
        assert actual == expected, f"{about}\nmissing {expected - actual}\ntoo many {actual - expected}"
        if not tally["predicates"] % 5:
            limit = rng.choice((1, 3, 20))
            with apply_settings(spark, case):
                rows = scans.run_limited(spark, predicate, limit)
            assert rows <= expected, f"{about}, limit {limit}\ntoo many {rows - expected}"
            assert rows.total() == min(limit, expected.total()), f"{about}, limit {limit}"
        tally["predicates"] += 1
        tally["rows"] += sum(expected.values())
        if report.reader == "pushdown":
            tally["searched"] += 1
        elif "the pushdown reader failed" in report.reason:
            tally["given up"] += 1
        else:
            tally["refused"] += 1
            tally[report.reason] += 1


def _choose_predicates(spark: SparkSession, case: TextCase, rng: random.Random) -> list[str]:
    """Return predicates, mostly those with a pattern, and some combinations."""
    if case.unsafe:
        return case.predicates[:SCANS]
    fold = ConstantCache(spark)
    fold.prepare_for(lambda recorder: [byte_patterns(case, predicate, recorder) for predicate in case.predicates])
    searchable = [predicate for predicate in case.predicates if byte_patterns(case, predicate, fold)]
    others = [predicate for predicate in case.predicates if predicate not in searchable]
    disjunctions = []
    if len(searchable) > 2:
        disjunctions = [" OR ".join(f"({predicate})" for predicate in rng.sample(searchable, 3)) for _ in range(2)]
    return list(dict.fromkeys([*disjunctions, *searchable, *others[:4]]))[:SCANS]


def _require_enough_comparisons(tally: Counter[str], carrier: str) -> None:
    # One odd line among the candidates leaves the whole file to Spark. The filter of the JVM keeps more lines.
    accepted = 2 if carrier == "workers" else 8
    assert tally["searched"] * accepted > tally["given up"] + tally["refused"], tally
    assert tally["rows"] > tally["searched"], tally


@pytest.mark.parametrize(
    ("batches", "oddness", "refused"),
    few_and_many((2, FEW_ODD, 0.0), (NIGHTLY_PAIRS // (SCANS * LINES) + 1, ODDNESS, 0.1)),
)
@pytest.mark.parametrize("source_format", FORMATS)
def test_scans_of_text_return_sparks_rows(
    spark: SparkSession,
    source_format: SourceFormat,
    tmp_path: Path,
    carrier: str,
    batches: int,
    oddness: Sequence[float],
    refused: float,
) -> None:
    tally = Counter[str]()
    over_seeds(
        batches, lambda seed: check_batch(spark, source_format, seed, tmp_path, tally, oddness=oddness, refused=refused)
    )
    _require_enough_comparisons(tally, carrier)
