"""Rows of our Avro reader equal those of Spark's own Avro source without pushdown, as multisets.

A case is a directory of random files of one table, and many predicates. Spark evaluates them all in one job. The
reader's tasks run in this process, and a few in a session. Hypothesis draws only the seeds.
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
from avro_files import AVRO, NO_CHANGE, SOME_CHANGE, Change, random_table, written
from folder import Folder
from hypothesis import given, settings
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from session_settings import session_settings
from test_orc import Case, Row, counted, evaluate_predicates, judge, predicates_over, shown
from test_vector_filters import BATCHES, SEEDS

from pushdown_spark.errors import UnsafeInputError, UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.decoder import AvroQuery, check_schema
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.metrics import AvroMetrics, BlockOutcome
from pushdown_spark.formats.avro.planner import container_files
from pushdown_spark.formats.columnar import arrow_schema
from pushdown_spark.formats.scan_task import sum_metrics
from pushdown_spark.relations.listing import Packing, local_files, pack
from pushdown_spark.relations.storage import LOCAL
from pushdown_spark.session import PushdownSession

NIGHTLY_CASES = 200
PUSHDOWN = "spark.sql.avro.filterPushdown.enabled"


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
    counts: AvroMetrics = field(default_factory=AvroMetrics)
    reasons: Counter[str] = field(default_factory=Counter)


def pushdown_off(spark: SparkSession) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's Avro source."""
    return session_settings(spark, {PUSHDOWN: "false"})


def case_of(spark: SparkSession, seed: int, directory: Path, tally: Tally, change: Change | None = None) -> Case | None:
    """Return the case of a seed, None if Spark's own reader fails on the files."""
    rng = random.Random(seed)
    table = random_table(rng)
    written(spark, rng, directory, table, change or rng.choice((NO_CHANGE, SOME_CHANGE)))
    try:
        frame = spark.read.format(AVRO).load(str(directory))
    except PySparkException as problem:
        tally.reasons[f"Spark infers no schema: {problem}"[:90]] += 1
        return None
    return case_over(rng, frame, directory, tally, f"seed {seed}")


def case_over(rng: random.Random, frame: DataFrame, directory: Path, tally: Tally, about: str) -> Case | None:
    """Return Spark's rows of a frame and its results, None if its own reader fails."""
    spark = frame.sparkSession
    asked = predicates_over(rng, frame.schema)
    with pushdown_off(spark):
        # One query is usually enough. Several are needed if a predicate raises or the files cannot be read.
        whole = judge(frame, frame.columns, asked)
        answers = None if whole is None else {text: whole[text].to_pylist() for text in asked}
        if whole is None:
            whole = judge(frame, frame.columns, [])
            answers = None if whole is None else evaluate_predicates(frame, frame.columns, asked)
    if whole is None or answers is None:
        tally.reasons["Spark's own reader fails"] += 1
        return None
    return Case(spark, directory, frame.schema, shown(whole.select(frame.columns)), answers, Folder(spark), about)


def check_scans(rng: random.Random, case: Case, tally: Tally, reader_schema: str | None = None) -> None:
    """Check each predicate with the reader's tasks in this process."""
    parsed = {text: parse_predicate(text) for text in case.answers}
    case.folder.prepare([predicate for predicate in parsed.values() if predicate is not None], case.schema)
    for text, predicate in parsed.items():
        assert predicate is not None, text
        scope = Scope(case.schema, fold=case.folder, plain_strings="\\" not in text)
        bound = bind(predicate, scope)
        if bound.artifact is None:
            tally.left_to_spark += 1
            continue
        check_scan(rng, case, text, bound, tally, reader_schema)


def check_scan(
    rng: random.Random, case: Case, text: str, bound: Pushdown[Node], tally: Tally, reader_schema: str | None = None
) -> None:
    """Check one predicate with random other columns and splits, mostly with byte search."""
    assert bound.artifact is not None
    arrow_filter = ArrowFilter(bound.artifact)
    needed = {path[0] for path in arrow_filter.columns}
    share = rng.choice((0.0, 0.3, 1.0))
    fields = [f for f in case.schema.fields if f.name in needed or rng.random() < share]
    query = AvroQuery(arrow_schema(fields), arrow_filter, reader_schema, block_search=rng.random() < 0.8)
    names = [f.name for f in fields]
    about = f"{case.about}: {text} of {names}, as {bound.artifact}"
    counts: list[AvroMetrics] = []
    try:
        found = rows_of(query, case.directory, rng.choice((700, 5_000, 1 << 27)), counts)
    except UnsafeInputError as problem:
        tally.given_up += 1
        tally.reasons[str(problem).partition(": ")[2][:80]] += 1
        return
    expected = case.expected(text, names)
    missing, more = expected - found, found - expected
    assert not missing, f"{about}\nmissing {missing}\nmore {more}"
    assert not more or not bound.is_exact, f"{about}\nmore {more}"
    tally.scans += 1
    tally.exact += bound.is_exact
    tally.kept += expected.total()
    tally.counts = sum_metrics([tally.counts, *counts])


def rows_of(query: AvroQuery, directory: Path, split: int, counts: list[AvroMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    found = local_files(sorted(str(path) for path in directory.glob("*.avro")))
    files = container_files(found, any_extension=True)
    for file in files:
        try:
            check_schema(read_header(file.path, LOCAL).schema, query)
        except UnsupportedError as problem:
            raise UnsafeInputError(f"{file.path}: {problem}") from problem
    tasks = pack(files, Packing(split, 1_000, 2))
    scan = AvroScanTask(tasks, query, lambda _, files: counts.extend(files.values()))
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
    session.add_source("t", path=str(case.directory), format="avro", reader=reader)
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
    tally.reasons[f"{reader}: {report.reader}: {report.reason}"[:150]] += 1


def check_case(spark: SparkSession, seed: int, scans: int, tally: Tally) -> None:
    rng = random.Random(seed + 1)
    with TemporaryDirectory() as directory:
        case = case_of(spark, seed, Path(directory), tally)
        if case is None:
            return
        check_scans(rng, case, tally)
        # Spark's own pushdown is not part of the comparison.
        with pushdown_off(spark):
            for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
                check_session(rng, case, text, tally)


def _not_vacuous(tally: Tally) -> None:
    assert tally.scans > tally.given_up + tally.left_to_spark, tally
    assert tally.exact > tally.scans * 0.7, tally
    assert tally.kept > 10 * tally.scans, tally
    assert tally.whole_by_us > 0, tally
    for fate in BlockOutcome:
        assert tally.counts.blocks[fate] > 0, (fate, tally)


def _run(spark: SparkSession, cases: int, scans: int) -> Tally:
    tally = Tally()

    @settings(max_examples=cases, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_case(spark, seed, scans, tally)

    run()
    _not_vacuous(tally)
    return tally


def test_scans_of_avro_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 4, 2)


@pytest.mark.nightly
def test_scans_of_avro_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
