"""Rows of our ORC reader equal those of Spark's own reader without pushdown, as multisets.

A case is a directory of random files of one table, and many predicates. Spark evaluates them all in one job. The
reader's tasks run in this process, which takes milliseconds, and a few in a session. Hypothesis draws only the seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from folder import Folder
from hypothesis import given, settings
from orc_files import NO_CHANGE, SOME_CHANGE, Files, random_table, written
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import leaves
from session_settings import session_settings
from test_vector_filters import BATCHES, SEEDS
from typed_rows import random_predicate

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome
from pushdown_spark.formats.orc.planner import arrow_schema
from pushdown_spark.formats.scan_task import sum_metrics
from pushdown_spark.relations.listing import Packing, local_files, pack
from pushdown_spark.session import PushdownSession

PREDICATES = 60
NIGHTLY_CASES = 150
PARTIAL_READS = (None, 0, 1, 2)
Row = tuple[str, ...]


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
    counts: OrcMetrics = field(default_factory=OrcMetrics)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Case:
    """A directory of files and Spark's results.

    These are the values of each column as strings, and the result of each predicate.
    """

    spark: SparkSession
    directory: Path
    schema: t.StructType
    columns: dict[str, list[str]]
    answers: dict[str, list[bool | None]]
    folder: Folder
    about: str

    def expected(self, predicate: str, names: Sequence[str]) -> Counter[Row]:
        """Return the rows that Spark keeps."""
        answers = self.answers[predicate]
        rows = list(zip(*(self.columns[name] for name in names), strict=True)) if names else [()] * len(answers)
        return Counter(row for row, answer in zip(rows, answers, strict=True) if answer)


def pushdown_off(spark: SparkSession) -> AbstractContextManager[None]:
    """Turn off all filters in Spark's ORC reader."""
    return session_settings(spark, {"spark.sql.orc.filterPushdown": "false"})


def shown(table: pa.Table) -> dict[str, list[str]]:
    """Return a value as a string that distinguishes NaN, -0.0 and null."""
    return {name: [repr(_ordered(value)) for value in table[name].to_pylist()] for name in table.schema.names}


def _ordered(value: object) -> object:
    """Return maps, which are lists of pairs, in a fixed order, because Spark changes it when it gathers rows."""
    if isinstance(value, dict):
        return {name: _ordered(member) for name, member in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_ordered, value))
    if isinstance(value, list):
        items = list(map(_ordered, value))
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    return value


def judge(frame: DataFrame, names: list[str], predicates: list[str]) -> pa.Table | None:
    """Return columns, and predicates as columns. None if Spark fails."""
    items = [*names, *(f"({text}) AS `{text.replace('`', '``')}`" for text in predicates)]
    try:
        return frame.selectExpr(*items).toArrow()
    except (PySparkException, Py4JJavaError):
        return None


def evaluate_predicates(
    frame: DataFrame, names: list[str], predicates: list[str]
) -> dict[str, list[bool | None]] | None:
    """Return Spark's results without the predicates that raise. None if the columns cannot be read."""
    table = judge(frame, names, predicates)
    if table is not None:
        return {text: table[text].to_pylist() for text in predicates}
    if not predicates:
        return None
    half = len(predicates) // 2
    if not half:
        return {} if judge(frame, names, []) is not None else None
    halves = [evaluate_predicates(frame, names, part) for part in (predicates[:half], predicates[half:])]
    return None if None in halves else {text: found for part in halves for text, found in (part or {}).items()}


def predicates_over(rng: random.Random, table: t.StructType) -> list[str]:
    """Return predicates over all columns. Maps have only null tests."""
    columns = [(name, kind) for name, kind in leaves(table)]
    maps = [f"{name} IS {rng.choice(('', 'NOT '))}NULL" for name, kind in columns if isinstance(kind, t.MapType)]
    others = [(name, kind) for name, kind in columns if not isinstance(kind, t.MapType)]
    asked = [random_predicate(rng, others, mixed=False) for _ in range(PREDICATES)]
    return list(dict.fromkeys([*maps, *asked]))


def case_of(spark: SparkSession, seed: int, directory: Path) -> Case | None:
    """Return the case of a seed, None if Spark's own reader fails on the files."""
    rng = random.Random(seed)
    table = random_table(rng)
    change = rng.choice((NO_CHANGE, SOME_CHANGE))
    old = rng.random() < 0.1
    written(Files(spark, rng, directory), table, change, old=old)
    frame = spark.read.schema(table).orc(str(directory))
    names = table.fieldNames()
    asked = predicates_over(rng, table)
    with pushdown_off(spark):
        whole = judge(frame, names, [])
        answers = None if whole is None else evaluate_predicates(frame, names, asked)
    if whole is None or answers is None:
        return None
    return Case(spark, directory, table, shown(whole), answers, Folder(spark), f"seed {seed}")


def check_scans(rng: random.Random, case: Case, tally: Tally) -> None:
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
        check_scan(rng, case, text, bound, tally)


def check_scan(rng: random.Random, case: Case, text: str, bound: Pushdown[Node], tally: Tally) -> None:
    """Check one predicate with random other columns, reads and splits."""
    assert bound.artifact is not None
    arrow_filter = ArrowFilter(bound.artifact)
    needed = {path[0] for path in arrow_filter.columns}
    share = rng.choice((0.0, 0.3, 1.0))
    places = [n for n, f in enumerate(case.schema.fields) if f.name in needed or rng.random() < share]
    fields = [case.schema.fields[place] for place in places]
    partial, seek = rng.choice(PARTIAL_READS), rng.choice((0, 100, 16_384))
    query = OrcQuery(arrow_schema(fields), tuple(places), arrow_filter, partial, seek, case_sensitive=False)
    names = [f.name for f in fields]
    about = f"{case.about}: {text} of {names}, partial_reads={partial}, min_seek={seek}, as {bound.artifact}"
    counts: list[OrcMetrics] = []
    try:
        found = rows_of(query, case.directory, rng.choice((3_000, 1 << 27)), counts)
    except UnsafeInputError as problem:
        tally.given_up += 1
        tally.reasons[str(problem).partition(": ")[2].split(" is stored")[0][:60]] += 1
        return
    expected = case.expected(text, names)
    missing, more = expected - found, found - expected
    assert not missing, f"{about}\nmissing {missing}\nmore {more}"
    assert not more or not bound.is_exact, f"{about}\nmore {more}"
    tally.scans += 1
    tally.exact += bound.is_exact
    tally.kept += expected.total()
    tally.counts = sum_metrics([tally.counts, *counts])


def rows_of(query: OrcQuery, directory: Path, split: int, counts: list[OrcMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    files = local_files(sorted(str(path) for path in directory.glob("*.orc")))
    tasks = pack(files, Packing(split, 1_000, 2))
    scan = OrcScanTask(tasks, query, lambda _, files: counts.extend(files.values()))
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
    options = {
        "partial_reads": rng.choice(PARTIAL_READS),
        "min_seek_size": rng.choice((0, 4_096, 1 << 20)),
        "use_selected": reader == "pushdown" and rng.random() < 0.5,
    }
    about = f"{case.about}: {text} of {names}, reader={reader}, {options}"
    session.add_source("t", path=str(case.directory), format="orc", schema=ddl(case.schema), reader=reader, orc=options)
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


def ddl(schema: t.StructType) -> str:
    return schema.toDDL()


def counted(table: pa.Table) -> Counter[Row]:
    return Counter(zip(*shown(table).values(), strict=True))


def check_case(spark: SparkSession, seed: int, scans: int, tally: Tally) -> None:
    rng = random.Random(seed + 1)
    with TemporaryDirectory() as directory:
        case = case_of(spark, seed, Path(directory))
        if case is None:
            tally.reasons["Spark's own reader fails"] += 1
            return
        check_scans(rng, case, tally)
        # Spark's ORC reader fails if a predicate over a timestamp without time zone is pushed alone.
        with pushdown_off(spark) if "timestamp_ntz" in case.schema.simpleString() else nullcontext():
            for text in rng.sample(sorted(case.answers), min(scans, len(case.answers))):
                check_session(rng, case, text, tally)


def _not_vacuous(tally: Tally) -> None:
    assert tally.scans > tally.given_up + tally.left_to_spark, tally
    assert tally.exact > tally.scans * 0.7, tally
    assert tally.kept > 10 * tally.scans, tally
    assert tally.whole_by_us > 0, tally
    for fate in OrcOutcome:
        assert tally.counts.groups[fate] > 0, (fate, tally)


def _run(spark: SparkSession, cases: int, scans: int) -> Tally:
    tally = Tally()

    @settings(max_examples=cases, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_case(spark, seed, scans, tally)

    run()
    _not_vacuous(tally)
    return tally


def test_scans_of_orc_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 6, 1)


@pytest.mark.nightly
def test_scans_of_orc_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES, 3)
