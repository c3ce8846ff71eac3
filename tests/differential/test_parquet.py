"""Rows of our Parquet reader equal those of Spark's own reader without pushdown, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AbstractContextManager
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
from orc_files import random_table
from parquet_files import NO_CHANGE, SOME_CHANGE, Files, written
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.parquet.column_mapping import datetime_calendar, int96_calendar
from pushdown_spark.formats.parquet.file_parts import parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask
from pushdown_spark.formats.parquet.metrics import ParquetMetrics, UnitOutcome
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.relations.listing import local_files
from pushdown_spark.relations.packing import Packing, pack

NIGHTLY_CASES = 150
CALENDARS = (datetime_calendar("CORRECTED"), int96_calendar("CORRECTED"))


def pushdown_off(spark: SparkSession) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's Parquet reader."""
    return session_settings(spark, {"spark.sql.parquet.filterPushdown": "false"})


def case_of(spark: SparkSession, seed: int, directory: Path) -> Case | None:
    """Return the case of a seed, None if Spark's own reader fails on the files."""
    rng = random.Random(seed)
    table = random_table(rng)
    change = rng.choice((NO_CHANGE, SOME_CHANGE))
    written(Files(spark, rng, directory), table, change, old=rng.random() < 0.1)
    frame = spark.read.schema(table).parquet(str(directory))
    return case_over(rng, frame, table, directory, f"seed {seed}", pushdown_off(spark))


def check_scan(rng: random.Random, case: Case, text: str, bound: Pushdown[Node], tally: Tally[ParquetMetrics]) -> None:
    """Check one predicate with random other columns and splits."""
    arrow_filter, fields = drawn_fields(rng, case.schema, bound)
    split = rng.choice((3_000, 100_000, 1 << 27))
    names = [f.name for f in fields]
    query = ParquetQuery(arrow_schema(fields), arrow_filter, CALENDARS, case_sensitive=False)
    about = f"{case.about}: {text} of {names}, splits of {split}, as {bound.artifact}"
    check_rows(case, text, bound, names, about, lambda counts: rows_of(query, case.directory, split, counts), tally)


def rows_of(query: ParquetQuery, directory: Path, split: int, counts: list[ParquetMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    files = parquet_inputs(local_files(sorted(map(str, directory.glob("*.parquet")))))
    tasks = pack(files, Packing(split // 4, 1_000, 2))
    return run_tasks(ParquetScanTask(tasks, query, lambda _, files: counts.extend(files.values())), query.schema)


def check_case(spark: SparkSession, seed: int, rng: random.Random, directory: Path, scans: int, tally: Tally) -> None:
    case = case_of(spark, seed, directory)
    if case is None:
        tally.reasons["Spark's own reader fails"] += 1
        return
    check_scans(case, tally, lambda text, bound: check_scan(rng, case, text, bound, tally))
    with pushdown_off(spark):
        for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
            reader, schema = drawn_reader(rng), case.schema.toDDL()
            check_session(rng, case, text, tally, format="parquet", schema=schema, reader=reader)


def _run(spark: SparkSession, cases: int, scans: int) -> None:
    tally = Tally(ParquetMetrics())
    check_seeds(cases, lambda seed, rng, directory: check_case(spark, seed, rng, directory, scans, tally))
    tally.assert_compared()
    for outcome in (UnitOutcome.TOTAL, UnitOutcome.BY_STATISTICS, UnitOutcome.READ):
        assert tally.counts.row_groups[outcome] > 0, (outcome, tally)
    assert tally.counts.pages[UnitOutcome.BY_PAGE_INDEX] > 0, tally


def test_scans_of_parquet_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 6, 1)


@pytest.mark.nightly
def test_scans_of_parquet_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
