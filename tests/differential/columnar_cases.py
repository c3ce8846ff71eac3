"""What the tests of ORC, Avro and Parquet share: cases of random files, Spark's results, and comparisons with them.

A case is a directory of random files of one table, and many predicates, which Spark evaluates in one job. The reader's
tasks run in the process of the test, which takes milliseconds, and a few scans in a session.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic

import pyarrow as pa
from folder import Folder
from hypothesis import given, settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import leaves
from seeds import BATCHES, SEEDS
from session_settings import pushdown_off
from typed_rows import random_predicate

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.scan_task import FileScanTask, Metrics, sum_metrics
from pushdown_spark.relations.listing import InputFile, local_files
from pushdown_spark.relations.packing import Packing, pack
from pushdown_spark.session import PushdownSession

PREDICATES = 60
Row = tuple[str, ...]


@dataclass
class ScanTally(Generic[Metrics]):
    """The numbers of comparisons, so that the test notices if nothing is compared.

    - `scans`: scans of one predicate by tasks; `exact`: those with an exact filter; `kept`: their rows.
    - `given_up`: scans that our reader left to Spark's; `left_to_spark`: predicates that it does not evaluate.
    - `session_scans`: scans in a session; `pushdown_session_scans`: those that our reader ran.
    """

    counts: Metrics
    scans: int = 0
    exact: int = 0
    kept: int = 0
    given_up: int = 0
    left_to_spark: int = 0
    session_scans: int = 0
    pushdown_session_scans: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def assert_compared(self) -> None:
        """Fail unless the pushdown reader ran most scans, most filters were exact, and many rows passed."""
        assert self.scans > self.given_up + self.left_to_spark, self
        assert self.exact > self.scans * 0.7, self
        assert self.kept > 10 * self.scans, self
        assert self.pushdown_session_scans > 0, self


@dataclass(frozen=True)
class Case:
    """A directory of files and Spark's results.

    These are the values of each column as strings, and the result of each predicate.
    """

    spark: SparkSession
    directory: Path
    schema: t.StructType
    columns: dict[str, list[str]]
    results: dict[str, list[bool | None]]
    folder: Folder
    about: str

    def expected(self, predicate: str, names: Sequence[str]) -> Counter[Row]:
        """Return the rows that Spark keeps."""
        results = self.results[predicate]
        rows = list(zip(*(self.columns[name] for name in names), strict=True)) if names else [()] * len(results)
        return Counter(row for row, result in zip(rows, results, strict=True) if result)


def as_strings(table: pa.Table) -> dict[str, list[str]]:
    """Return a value as a string that distinguishes NaN, -0.0 and null."""
    return {name: [repr(_sort_maps(value)) for value in table[name].to_pylist()] for name in table.schema.names}


def _sort_maps(value: object) -> object:
    """Return maps, which are lists of pairs, in a fixed order, because Spark changes it when it gathers rows."""
    if isinstance(value, dict):
        return {name: _sort_maps(member) for name, member in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_sort_maps, value))
    if isinstance(value, list):
        items = list(map(_sort_maps, value))
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    return value


def count_rows(table: pa.Table) -> Counter[Row]:
    """Return the rows of a table as a multiset."""
    return Counter(zip(*as_strings(table).values(), strict=True))


def select_predicates(frame: DataFrame, names: list[str], predicates: list[str]) -> pa.Table | None:
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
    table = select_predicates(frame, names, predicates)
    if table is not None:
        return {text: table[text].to_pylist() for text in predicates}
    if not predicates:
        return None
    half = len(predicates) // 2
    if not half:
        return {} if select_predicates(frame, names, []) is not None else None
    halves = [evaluate_predicates(frame, names, part) for part in (predicates[:half], predicates[half:])]
    return None if None in halves else {text: found for part in halves for text, found in (part or {}).items()}


def predicates_over(rng: random.Random, table: t.StructType) -> list[str]:
    """Return predicates over all columns. Maps have only null tests."""
    columns = [(name, kind) for name, kind in leaves(table)]
    maps = [f"{name} IS {rng.choice(('', 'NOT '))}NULL" for name, kind in columns if isinstance(kind, t.MapType)]
    others = [(name, kind) for name, kind in columns if not isinstance(kind, t.MapType)]
    drawn = [random_predicate(rng, others, mixed=False) for _ in range(PREDICATES)]
    return list(dict.fromkeys([*maps, *drawn]))


def case_over(
    rng: random.Random,
    frame: DataFrame,
    schema: t.StructType,
    directory: Path,
    about: str,
    source_format: str,
) -> Case | None:
    """Return Spark's rows of a DataFrame and its results without pushdown, None if its own reader fails."""
    names, predicates = schema.fieldNames(), predicates_over(rng, schema)
    with pushdown_off(frame.sparkSession, source_format):
        # One query is usually enough. Several are needed if a predicate raises or the files cannot be read.
        rows = select_predicates(frame, names, predicates)
        results = None if rows is None else {text: rows[text].to_pylist() for text in predicates}
        if rows is None:
            rows = select_predicates(frame, names, [])
            results = None if rows is None else evaluate_predicates(frame, names, predicates)
    if rows is None or results is None:
        return None
    spark = frame.sparkSession
    return Case(spark, directory, schema, as_strings(rows.select(names)), results, Folder(spark), about)


CheckScan = Callable[[str, Pushdown[Node]], None]
"""Checks one predicate, given as text and as it is bound."""


def check_scans(case: Case, tally: ScanTally[Metrics], check_scan: CheckScan) -> None:
    """Check each predicate that can be evaluated over columns."""
    parsed = {text: parse_predicate(text) for text in case.results}
    case.folder.prepare([predicate for predicate in parsed.values() if predicate is not None], case.schema)
    for text, predicate in parsed.items():
        assert predicate is not None, text
        bound = bind(predicate, Scope(case.schema, fold=case.folder, plain_strings="\\" not in text))
        if bound.artifact is None:
            tally.left_to_spark += 1
        else:
            check_scan(text, bound)


def drawn_fields(
    rng: random.Random, schema: t.StructType, bound: Pushdown[Node]
) -> tuple[ArrowFilter, list[t.StructField]]:
    """Return the filter of a predicate, and the columns that it needs with random others."""
    assert bound.artifact is not None
    arrow_filter = ArrowFilter(bound.artifact)
    needed = {path[0] for path in arrow_filter.columns}
    share = rng.choice((0.0, 0.3, 1.0))
    return arrow_filter, [f for f in schema.fields if f.name in needed or rng.random() < share]


def check_rows(
    case: Case,
    text: str,
    bound: Pushdown[Node],
    names: list[str],
    about: str,
    read: Callable[[list[Metrics]], Counter[Row]],
    tally: ScanTally[Metrics],
) -> None:
    """Compare the rows that tasks in this process read with Spark's. `read` appends the counts of the tasks."""
    counts: list[Metrics] = []
    try:
        actual = read(counts)
    except UnsafeInputError as problem:
        tally.given_up += 1
        tally.reasons[str(problem).partition(": ")[2].split(" is stored")[0][:60]] += 1
        return
    expected = case.expected(text, names)
    missing, more = expected - actual, actual - expected
    assert not missing, f"{about}\nmissing {missing}\nmore {more}"
    assert not more or not bound.is_exact, f"{about}\nmore {more}"
    tally.scans += 1
    tally.exact += bound.is_exact
    tally.kept += expected.total()
    tally.counts = sum_metrics([tally.counts, *counts])


def data_files(directory: Path, suffix: str) -> tuple[InputFile, ...]:
    """Return the files of a directory whose names end so, ordered by name."""
    return local_files(sorted(map(str, directory.glob(f"*.{suffix}"))))


def run_tasks(
    scan_class: type[FileScanTask[Any, Metrics]],
    query: Any,
    files: Sequence[InputFile],
    split: int,
    counts: list[Metrics],
) -> Counter[Row]:
    """Run all tasks of a scan in this process, in splits of `split` bytes. Return the rows, and append the counts."""
    tasks = pack(files, Packing(split, 1_000, 2))
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(tasks)), pa.int64())})
    rows: Counter[Row] = Counter()
    for batch in scan_class(tasks, query, lambda _, metrics: counts.extend(metrics.values()))(iter([numbers])):
        assert batch.schema == query.schema
        batch.validate(full=True)
        columns = as_strings(pa.Table.from_batches([batch]))
        rows += Counter(zip(*columns.values(), strict=True)) if columns else Counter({(): batch.num_rows})
    return rows


def check_session(rng: random.Random, case: Case, text: str, tally: ScanTally[Metrics], **source: Any) -> None:
    """Check one predicate in a session, over a source with these parameters, with and without a limit."""
    session = PushdownSession(case.spark)
    names = rng.sample(case.schema.fieldNames(), rng.randint(1, len(case.schema)))
    session.add_source("t", path=str(case.directory), **source)
    about = f"{case.about}: {text} of {names}, {source}"
    expected = case.expected(text, names)
    result = session.scan("t", columns=names, where=text)
    actual = count_rows(result.run(lambda frame: frame.toArrow()))
    report = result.report()["t"]
    assert actual == expected, f"{about}, {report.reason}\nmissing {expected - actual}\nmore {actual - expected}"
    assert report.rows_returned == actual.total(), about
    some = session.scan("t", columns=names, where=text, limit=7).run(lambda frame: frame.toArrow())
    assert count_rows(some) <= expected, f"{about}\nmore {count_rows(some) - expected}"
    assert some.num_rows == min(7, expected.total()), about
    tally.session_scans += 1
    tally.pushdown_session_scans += report.reader == "pushdown"
    tally.reasons[f"{source['reader']}: {report.reader}: {report.reason}"[:150]] += 1


def check_seeds(cases: int, check_case: Callable[[int, random.Random, Path], None]) -> None:
    """Check cases of random seeds, each in a directory of its own."""

    @settings(max_examples=cases, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        with TemporaryDirectory() as directory:
            check_case(seed, random.Random(seed + 1), Path(directory))

    run()


class ReaderComparison(ABC, Generic[Metrics]):
    """Compares the rows of a pushdown reader with those of Spark's, over random files."""

    source_format: ClassVar[str]
    splits: ClassVar[tuple[int, ...]]
    """Sizes of splits to draw from."""

    def __init__(self, spark: SparkSession, no_counts: Metrics) -> None:
        self.spark = spark
        self.tally = ScanTally(no_counts)

    @abstractmethod
    def draw_case(self, seed: int, directory: Path) -> Case | None:
        """Write the files of a seed. Return Spark's results, None if its own reader fails on the files."""

    @abstractmethod
    def draw_query(
        self, rng: random.Random, schema: t.StructType, fields: list[t.StructField], kept: ArrowFilter
    ) -> Any:
        """Return the query of these columns and rows, with random settings of the reader."""

    @abstractmethod
    def read(self, query: Any, directory: Path, split: int, counts: list[Metrics]) -> Counter[Row]:
        """Return the rows of all tasks, which run in this process. Append the counts of the tasks."""

    def session_options(self, rng: random.Random, case: Case, reader: str) -> dict[str, Any]:
        """Return random parameters of the source of a session."""
        return {"schema": case.schema.toDDL()}

    def filters_in_sessions(self, case: Case) -> bool:
        """Whether Spark's own reader may filter in sessions."""
        return False

    def check_scan(self, rng: random.Random, case: Case, text: str, bound: Pushdown[Node]) -> None:
        """Check one predicate with random other columns and settings of the reader."""
        arrow_filter, fields = drawn_fields(rng, case.schema, bound)
        query = self.draw_query(rng, case.schema, fields, arrow_filter)
        split = rng.choice(self.splits)
        about = f"{case.about}: {text}, splits of {split}, {query}"

        def read(counts: list[Metrics]) -> Counter[Row]:
            return self.read(query, case.directory, split, counts)

        check_rows(case, text, bound, [field.name for field in fields], about, read, self.tally)

    def check_case(self, seed: int, rng: random.Random, directory: Path, scans: int) -> None:
        """Check all predicates of a seed in this process, and this many in a session."""
        case = self.draw_case(seed, directory)
        if case is None:
            self.tally.reasons["Spark's own reader fails"] += 1
            return
        check_scans(case, self.tally, lambda text, bound: self.check_scan(rng, case, text, bound))
        with nullcontext() if self.filters_in_sessions(case) else pushdown_off(self.spark, self.source_format):
            for text in rng.sample(sorted(case.results), min(scans, len(case.results))):
                reader = rng.choice(("pushdown", "pushdown", "auto"))
                options = self.session_options(rng, case, reader)
                check_session(rng, case, text, self.tally, format=self.source_format, reader=reader, **options)

    def run(self, cases: int, scans: int) -> Metrics:
        """Check cases of random seeds. Return the counts of the reader."""
        check_seeds(cases, lambda seed, rng, directory: self.check_case(seed, rng, directory, scans))
        self.tally.assert_compared()
        return self.tally.counts
