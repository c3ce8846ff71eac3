"""Rows of our ORC reader equal those of Spark's own reader without pushdown, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from columnar_cases import (
    Case,
    Row,
    Tally,
    case_over,
    check_rows,
    check_scans,
    check_seeds,
    check_session,
    drawn_fields,
    drawn_reader,
    run_tasks,
)
from orc_files import NO_CHANGE, SOME_CHANGE, Files, random_table, written
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome
from pushdown_spark.formats.orc.planner import arrow_schema
from pushdown_spark.relations.listing import local_files
from pushdown_spark.relations.packing import Packing, pack

NIGHTLY_CASES = 150
PARTIAL_READS = (None, 0, 1, 2)


def pushdown_off(spark: SparkSession) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's ORC reader."""
    return session_settings(spark, {"spark.sql.orc.filterPushdown": "false"})


def case_of(spark: SparkSession, seed: int, directory: Path) -> Case | None:
    """Return the case of a seed, None if Spark's own reader fails on the files."""
    rng = random.Random(seed)
    table = random_table(rng)
    change = rng.choice((NO_CHANGE, SOME_CHANGE))
    written(Files(spark, rng, directory), table, change, old=rng.random() < 0.1)
    frame = spark.read.schema(table).orc(str(directory))
    return case_over(rng, frame, table, directory, f"seed {seed}", pushdown_off(spark))


def check_scan(rng: random.Random, case: Case, text: str, bound: Pushdown[Node], tally: Tally[OrcMetrics]) -> None:
    """Check one predicate with random other columns, reads and splits."""
    arrow_filter, fields = drawn_fields(rng, case.schema, bound)
    partial, seek, split = rng.choice(PARTIAL_READS), rng.choice((0, 100, 16_384)), rng.choice((3_000, 1 << 27))
    names = [f.name for f in fields]
    places = tuple(map(case.schema.fieldNames().index, names))
    query = OrcQuery(arrow_schema(fields), places, arrow_filter, partial, seek, case_sensitive=False)
    about = f"{case.about}: {text} of {names}, partial_reads={partial}, min_seek={seek}, as {bound.artifact}"
    check_rows(case, text, bound, names, about, lambda counts: rows_of(query, case.directory, split, counts), tally)


def rows_of(query: OrcQuery, directory: Path, split: int, counts: list[OrcMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    tasks = pack(local_files(sorted(map(str, directory.glob("*.orc")))), Packing(split, 1_000, 2))
    return run_tasks(OrcScanTask(tasks, query, lambda _, files: counts.extend(files.values())), query.schema)


def check_case(spark: SparkSession, seed: int, rng: random.Random, directory: Path, scans: int, tally: Tally) -> None:
    case = case_of(spark, seed, directory)
    if case is None:
        tally.reasons["Spark's own reader fails"] += 1
        return
    check_scans(case, tally, lambda text, bound: check_scan(rng, case, text, bound, tally))
    # Spark's ORC reader fails if a predicate over a timestamp without time zone is pushed alone.
    with pushdown_off(spark) if "timestamp_ntz" in case.schema.simpleString() else nullcontext():
        for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
            reader = drawn_reader(rng)
            options = {
                "partial_reads": rng.choice(PARTIAL_READS),
                "min_seek_size": rng.choice((0, 4_096, 1 << 20)),
                "use_selected": reader == "pushdown" and rng.random() < 0.5,
            }
            schema = case.schema.toDDL()
            check_session(rng, case, text, tally, format="orc", schema=schema, reader=reader, orc=options)


def _run(spark: SparkSession, cases: int, scans: int) -> None:
    tally = Tally(OrcMetrics())
    check_seeds(cases, lambda seed, rng, directory: check_case(spark, seed, rng, directory, scans, tally))
    tally.assert_compared()
    for outcome in OrcOutcome:
        assert tally.counts.groups[outcome] > 0, (outcome, tally)


def test_scans_of_orc_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 6, 1)


@pytest.mark.nightly
def test_scans_of_orc_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
