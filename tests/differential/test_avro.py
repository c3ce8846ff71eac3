"""Rows of our Avro reader equal those of Spark's own Avro source without pushdown, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from avro_files import AVRO, NO_CHANGE, SOME_CHANGE, Change, random_table, written
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
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.errors import UnsafeInputError, UnsupportedError
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.decoder import AvroQuery, check_schema
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.metrics import AvroMetrics, BlockOutcome
from pushdown_spark.formats.avro.planner import container_files
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.relations.listing import local_files
from pushdown_spark.relations.packing import Packing, pack
from pushdown_spark.relations.storage import LOCAL

NIGHTLY_CASES = 200
PUSHDOWN = "spark.sql.avro.filterPushdown.enabled"


def pushdown_off(spark: SparkSession) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's Avro source."""
    return session_settings(spark, {PUSHDOWN: "false"})


def case_of(
    spark: SparkSession, seed: int, directory: Path, tally: Tally[AvroMetrics], change: Change | None = None
) -> Case | None:
    """Return the case of a seed, None if Spark's own reader fails on the files."""
    rng = random.Random(seed)
    table = random_table(rng)
    written(spark, rng, directory, table, change or rng.choice((NO_CHANGE, SOME_CHANGE)))
    try:
        frame = spark.read.format(AVRO).load(str(directory))
    except PySparkException as problem:
        tally.reasons[f"Spark infers no schema: {problem}"[:90]] += 1
        return None
    return case_over(rng, frame, frame.schema, directory, f"seed {seed}", pushdown_off(spark))


def check_scan(
    rng: random.Random,
    case: Case,
    text: str,
    bound: Pushdown[Node],
    tally: Tally[AvroMetrics],
    reader_schema: str | None = None,
) -> None:
    """Check one predicate with random other columns and splits, mostly with byte search."""
    arrow_filter, fields = drawn_fields(rng, case.schema, bound)
    query = AvroQuery(arrow_schema(fields), arrow_filter, reader_schema, block_search=rng.random() < 0.8)
    split = rng.choice((700, 5_000, 1 << 27))
    names = [f.name for f in fields]
    about = f"{case.about}: {text} of {names}, as {bound.artifact}"
    check_rows(case, text, bound, names, about, lambda counts: rows_of(query, case.directory, split, counts), tally)


def rows_of(query: AvroQuery, directory: Path, split: int, counts: list[AvroMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    files = container_files(local_files(sorted(map(str, directory.glob("*.avro")))), any_extension=True)
    for file in files:
        try:
            check_schema(read_header(file.path, LOCAL).schema, query)
        except UnsupportedError as problem:
            raise UnsafeInputError(f"{file.path}: {problem}") from problem
    tasks = pack(files, Packing(split, 1_000, 2))
    return run_tasks(AvroScanTask(tasks, query, lambda _, files: counts.extend(files.values())), query.schema)


def check_case(
    spark: SparkSession, seed: int, rng: random.Random, directory: Path, scans: int, tally: Tally[AvroMetrics]
) -> None:
    case = case_of(spark, seed, directory, tally)
    if case is None:
        tally.reasons["Spark's own reader fails"] += 1
        return
    check_scans(case, tally, lambda text, bound: check_scan(rng, case, text, bound, tally))
    # Spark's own pushdown is not part of the comparison.
    with pushdown_off(spark):
        for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
            check_session(rng, case, text, tally, format="avro", reader=drawn_reader(rng))


def _run(spark: SparkSession, cases: int, scans: int) -> None:
    tally = Tally(AvroMetrics())
    check_seeds(cases, lambda seed, rng, directory: check_case(spark, seed, rng, directory, scans, tally))
    tally.assert_compared()
    for outcome in BlockOutcome:
        assert tally.counts.blocks[outcome] > 0, (outcome, tally)


def test_scans_of_avro_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 4, 2)


@pytest.mark.nightly
def test_scans_of_avro_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
