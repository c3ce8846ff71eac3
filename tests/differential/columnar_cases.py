"""What the tests of ORC, Avro and Parquet share: cases of random files, Spark's results, and comparisons with them.

A case is a directory of random files of one table, and many predicates, which Spark evaluates in one job. The reader's
tasks run in the process of the test, which takes milliseconds, and a few scans in a session.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic

import pyarrow as pa
from bisection import split_failures
from constant_cache import ConstantCache
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import leaves
from seeds import over_seeds
from session_settings import pushdown_off
from spark_results import SPARK_ERRORS
from typed_rows import random_predicate

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.scan_task import FileScanTask, Metrics, sum_metrics
from pushdown_spark.scan.packing import Packing, pack
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.stores.listing import InputFile, local_files

PREDICATES = 60
Row = tuple[str, ...]


@dataclass(frozen=True)
class ColumnarCase:
    """A directory of files and Spark's results.

    These are the values of each column as strings, and the result of each predicate.
    """

    spark: SparkSession
    directory: Path
    schema: t.StructType
    columns: dict[str, list[str]]
    results: dict[str, list[bool | None]]
    constants: ConstantCache
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


def select_predicates(frame: DataFrame, names: Sequence[str], predicates: Sequence[str]) -> pa.Table:
    return frame.selectExpr(*names, *(f"({text}) AS `{text.replace('`', '``')}`" for text in predicates)).toArrow()


def predicates_over(rng: random.Random, table: t.StructType) -> list[str]:
    """Return predicates over all columns. Arrays and maps have only null tests, because no elements are pushed."""
    nested, others = [], []
    for name, kind in leaves(table):
        if isinstance(kind, t.ArrayType | t.MapType):
            nested.append(f"{name} IS {rng.choice(('', 'NOT '))}NULL")
        else:
            others.append((name, kind))
    predicates = [random_predicate(rng, others, mixed=False) for _ in range(PREDICATES)]
    return list(dict.fromkeys([*nested, *predicates]))


def case_over(
    rng: random.Random,
    frame: DataFrame,
    schema: t.StructType,
    directory: Path,
    about: str,
    source_format: str,
) -> ColumnarCase | None:
    """Return Spark's rows of a DataFrame and its results without pushdown, or None if its own reader fails."""
    names, predicates = schema.fieldNames(), predicates_over(rng, schema)
    with pushdown_off(frame.sparkSession, source_format):
        try:
            tables, _ = split_failures(predicates, partial(select_predicates, frame, names), SPARK_ERRORS)
        except SPARK_ERRORS:
            return None
    columns = as_strings(tables[0].select(names))
    results = {text: table[text].to_pylist() for table in tables for text in table.column_names[len(names) :]}
    spark = frame.sparkSession
    return ColumnarCase(spark, directory, schema, columns, results, ConstantCache(spark), about)


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


def check_seeds(cases: int, check_case: Callable[[int, random.Random, Path], None]) -> None:
    """Check cases of random seeds, each in its own directory."""

    def check(seed: int) -> None:
        with TemporaryDirectory() as directory:
            check_case(seed, random.Random(seed + 1), Path(directory))

    over_seeds(cases, check)


class ReaderComparison(ABC, Generic[Metrics]):
    """Compares the rows of a pushdown reader with those of Spark's, over random files.

    Counts in the tally: `scans` by tasks of one predicate, `exact` those with an exact filter, and `kept` their rows;
    `given up` scans that the reader leaves to Spark's, and `left to Spark` predicates that it does not evaluate;
    `scans in sessions`, and `by pushdown in sessions` those that the pushdown reader ran; and reasons.
    """

    source_format: ClassVar[str]
    metrics_class: ClassVar[Callable[[], Any]]
    splits: ClassVar[tuple[int, ...]]
    """Sizes of splits to draw from."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.tally = Counter[str]()
        self.metrics: Metrics = self.metrics_class()

    @abstractmethod
    def draw_case(self, seed: int, directory: Path) -> ColumnarCase | None:
        """Write the files of a seed. Return Spark's results, or None if its own reader fails on the files."""

    @abstractmethod
    def draw_query(
        self, rng: random.Random, schema: t.StructType, fields: list[t.StructField], kept: ArrowFilter
    ) -> Any:
        """Return the query of these columns and rows, with random settings of the reader."""

    @abstractmethod
    def read(self, query: Any, directory: Path, split: int, counts: list[Metrics]) -> Counter[Row]:
        """Return the rows of all tasks, which run in this process. Append the counts of the tasks."""

    @abstractmethod
    def outcomes(self) -> Mapping[str, int]:
        """Return the counts of the reader, none of which may be 0."""

    def session_options(self, rng: random.Random, case: ColumnarCase, reader: str) -> dict[str, Any]:
        """Return random parameters of the source of a session."""
        return {"schema": case.schema.toDDL()}

    def filters_in_sessions(self, case: ColumnarCase) -> bool:
        """Whether Spark's own reader may filter in sessions."""
        return False

    def check_scans(self, rng: random.Random, case: ColumnarCase) -> None:
        """Compare the rows of each predicate that can be evaluated over columns."""
        trees = {text: parse_predicate(text) for text in case.results}
        case.constants.prepare([predicate for predicate in trees.values() if predicate is not None], case.schema)
        for text, predicate in trees.items():
            assert predicate is not None, text
            outcome = bind(predicate, Scope(case.schema, fold=case.constants, has_plain_strings="\\" not in text))
            if outcome.artifact is None:
                self.tally["left to Spark"] += 1
            else:
                self._check_scan(rng, case, text, ArrowFilter(outcome.artifact), is_exact=outcome.is_exact)

    def _check_scan(
        self, rng: random.Random, case: ColumnarCase, text: str, arrow_filter: ArrowFilter, *, is_exact: bool
    ) -> None:
        """Compare the rows of one predicate, with random other columns and settings of the reader."""
        names = {path[0] for path in arrow_filter.columns}
        share = rng.choice((0.0, 0.3, 1.0))
        fields = [field for field in case.schema.fields if field.name in names or rng.random() < share]
        query = self.draw_query(rng, case.schema, fields, arrow_filter)
        split = rng.choice(self.splits)
        about = f"{case.about}: {text}, splits of {split}, {query}"
        counts: list[Metrics] = []
        try:
            actual = self.read(query, case.directory, split, counts)
        except UnsafeInputError as problem:
            self.tally["given up"] += 1
            self.tally[str(problem).partition(": ")[2].split(" is stored")[0][:60]] += 1
            return
        expected = case.expected(text, [field.name for field in fields])
        missing, more = expected - actual, actual - expected
        assert not missing, f"{about}\nmissing {missing}\nmore {more}"
        assert not more or not is_exact, f"{about}\nmore {more}"
        self.tally.update({"scans": 1, "exact": is_exact, "kept": expected.total()})
        self.metrics = sum_metrics([self.metrics, *counts])

    def _check_session(self, rng: random.Random, case: ColumnarCase, text: str, reader: str) -> None:
        """Compare the rows of one predicate in a session, with and without a limit."""
        session = PushdownSession(case.spark)
        source = {"format": self.source_format, "reader": reader, **self.session_options(rng, case, reader)}
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
        self.tally["scans in sessions"] += 1
        self.tally["by pushdown in sessions"] += report.reader == "pushdown"
        self.tally[f"{reader}: {report.reader}: {report.reason}"[:150]] += 1

    def check_case(self, seed: int, rng: random.Random, directory: Path, scans: int) -> None:
        """Check all predicates of a seed in this process, and this many in a session."""
        case = self.draw_case(seed, directory)
        self.tally["cases"] += 1
        if case is None:
            self.tally["Spark's own reader fails"] += 1
            return
        self.check_scans(rng, case)
        with nullcontext() if self.filters_in_sessions(case) else pushdown_off(self.spark, self.source_format):
            for text in rng.sample(sorted(case.results), min(scans, len(case.results))):
                self._check_session(rng, case, text, rng.choice(("pushdown", "pushdown", "auto")))

    def check_compared(self) -> None:
        """Fail unless the pushdown reader ran most scans, most filters were exact, and many rows passed."""
        tally = self.tally
        assert tally["scans"] > tally["given up"], tally
        assert tally["exact"] > tally["scans"] * 0.7, tally
        assert tally["kept"] > 10 * tally["scans"], tally
