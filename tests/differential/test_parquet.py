"""Rows of our Parquet reader equal those of Spark's own reader without pushdown, as multisets.

A case is a directory of random files of one table, and many predicates. Spark evaluates them all in one job. The
reader's tasks run in this process, which takes milliseconds, and a few in a session. Hypothesis draws only the seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from folder import Folder
from hypothesis import given, settings
from orc_files import random_table
from parquet_files import NO_CHANGE, SOME_CHANGE, Files, written
from pyspark.sql import SparkSession
from session_settings import session_settings
from test_orc import Case, Row, counted, evaluate_predicates, judge, predicates_over, shown
from test_vector_filters import BATCHES, SEEDS

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.columnar import arrow_schema
from pushdown_spark.formats.parquet.column_mapping import datetime_calendar, int96_calendar
from pushdown_spark.formats.parquet.file_parts import parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask
from pushdown_spark.formats.parquet.metrics import ParquetMetrics, UnitOutcome
from pushdown_spark.formats.scan_task import sum_metrics
from pushdown_spark.relations.listing import Packing, local_files, pack
from pushdown_spark.session import PushdownSession

NIGHTLY_CASES = 150
CALENDARS = (datetime_calendar("CORRECTED"), int96_calendar("CORRECTED"))


@dataclass
class Tally:
    """The numbers of comparisons, so that the test notices if nothing is compared."""

    scans: int = 0
    exact: int = 0
    kept: int = 0
    given_up: int = 0
    left_to_spark: int = 0
    whole: int = 0
    whole_by_us: int = 0
    counts: ParquetMetrics = field(default_factory=ParquetMetrics)
    reasons: Counter[str] = field(default_factory=Counter)


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
    asked = predicates_over(rng, table)
    with pushdown_off(spark):
        whole = judge(frame, table.fieldNames(), [])
        answers = None if whole is None else evaluate_predicates(frame, table.fieldNames(), asked)
    if whole is None or answers is None:
        return None
    return Case(spark, directory, table, shown(whole), answers, Folder(spark), f"seed {seed}")


def check_scans(rng: random.Random, case: Case, tally: Tally) -> None:
    """Check each predicate with the reader's tasks in this process."""
    parsed = {text: parse_predicate(text) for text in case.answers}
    case.folder.prepare([predicate for predicate in parsed.values() if predicate is not None], case.schema)
    for text, predicate in parsed.items():
        assert predicate is not None, text
        bound = bind(predicate, Scope(case.schema, fold=case.folder, plain_strings="\\" not in text))
        if bound.artifact is None:
            tally.left_to_spark += 1
            continue
        check_scan(rng, case, text, bound, tally)


def check_scan(rng: random.Random, case: Case, text: str, bound: Pushdown[Node], tally: Tally) -> None:
    """Check one predicate with random other columns and splits, file by file."""
    assert bound.artifact is not None
    arrow_filter = ArrowFilter(bound.artifact)
    needed = {path[0] for path in arrow_filter.columns}
    share = rng.choice((0.0, 0.3, 1.0))
    fields = [f for f in case.schema.fields if f.name in needed or rng.random() < share]
    query = ParquetQuery(arrow_schema(fields), arrow_filter, CALENDARS, case_sensitive=False)
    names = [f.name for f in fields]
    split = rng.choice((3_000, 100_000, 1 << 27))
    about = f"{case.about}: {text} of {names}, splits of {split}, as {bound.artifact}"
    counts: list[ParquetMetrics] = []
    try:
        found = rows_of(query, sorted(case.directory.glob("*.parquet")), split, counts)
    except UnsafeInputError as problem:
        tally.given_up += 1
        tally.reasons[str(problem).partition(": ")[2][:60]] += 1
        return
    expected = case.expected(text, names)
    missing, more = expected - found, found - expected
    assert not missing, f"{about}\nmissing {missing}\nmore {more}"
    assert not more or not bound.is_exact, f"{about}\nmore {more}"
    tally.scans += 1
    tally.exact += bound.is_exact
    tally.kept += expected.total()
    tally.counts = sum_metrics([tally.counts, *counts])


def rows_of(query: ParquetQuery, paths: list[Path], split: int, counts: list[ParquetMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    files = parquet_inputs(local_files([str(path) for path in paths]))
    tasks = pack(files, Packing(split // 4, 1_000, 2))
    scan = ParquetScanTask(tasks, query, lambda _, files: counts.extend(files.values()))
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(tasks)), pa.int64())})
    rows: Counter[Row] = Counter()
    for batch in scan(iter([numbers])):
        assert batch.schema == query.schema
        batch.validate(full=True)
        columns = shown(pa.Table.from_batches([batch]))
        rows += Counter(zip(*columns.values(), strict=True)) if columns else Counter({(): batch.num_rows})
    return rows


def check_session(rng: random.Random, case: Case, text: str, tally: Tally) -> None:
    """Check one predicate in a session."""
    session = PushdownSession(case.spark)
    reader = rng.choice(("pushdown", "pushdown", "auto"))
    names = rng.sample(case.schema.fieldNames(), rng.randint(1, len(case.schema)))
    about = f"{case.about}: {text} of {names}, reader={reader}"
    session.add_source("t", path=str(case.directory), format="parquet", schema=case.schema.toDDL(), reader=reader)
    expected = case.expected(text, names)
    result = session.scan("t", columns=names, where=text)
    found = counted(result.run(lambda frame: frame.toArrow()))
    report = result.report()["t"]
    assert found == expected, f"{about}, {report.reason}\nmissing {expected - found}\nmore {found - expected}"
    assert report.rows_returned == found.total(), about
    some = session.scan("t", columns=names, where=text, limit=7).run(lambda frame: frame.toArrow())
    assert counted(some) <= expected, f"{about}\nmore {counted(some) - expected}"
    assert some.num_rows == min(7, expected.total()), about
    tally.whole += 1
    tally.whole_by_us += report.reader == "pushdown"


def check_case(spark: SparkSession, seed: int, scans: int, tally: Tally) -> None:
    rng = random.Random(seed + 1)
    with TemporaryDirectory() as directory:
        case = case_of(spark, seed, Path(directory))
        if case is None:
            tally.reasons["Spark's own reader fails"] += 1
            return
        check_scans(rng, case, tally)
        with pushdown_off(spark):
            for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
                check_session(rng, case, text, tally)


def _not_vacuous(tally: Tally) -> None:
    assert tally.scans > tally.given_up + tally.left_to_spark, tally
    assert tally.exact > tally.scans * 0.7, tally
    assert tally.kept > 10 * tally.scans, tally
    assert tally.whole_by_us > 0, tally
    for outcome in (UnitOutcome.TOTAL, UnitOutcome.BY_STATISTICS, UnitOutcome.READ):
        assert tally.counts.row_groups[outcome] > 0, (outcome, tally)
    assert tally.counts.pages[UnitOutcome.BY_PAGE_INDEX] > 0, tally


def _run(spark: SparkSession, cases: int, scans: int) -> Tally:
    tally = Tally()

    @settings(max_examples=cases, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_case(spark, seed, scans, tally)

    run()
    _not_vacuous(tally)
    return tally


def test_scans_of_parquet_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 6, 1)


@pytest.mark.nightly
def test_scans_of_parquet_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
