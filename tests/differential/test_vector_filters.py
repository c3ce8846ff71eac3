"""Arrow filters equal Spark's result for every row and predicate, and statistics never exclude a row that Spark keeps.

Spark evaluates all predicates of a case in one job, as columns of one table. Hypothesis draws only the seeds: a failure
names a predicate and a row, so there is nothing to shrink.
"""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from folder import Folder
from hypothesis import given, settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import Leaf, leaves
from seeds import BATCHES, SEEDS
from session_settings import session_settings
from tally import Tally
from typed_rows import ROW, random_predicate, random_rows, random_schema

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, BatchColumns
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, can_match, may_contain, probes
from pushdown_spark.expressions.types import Path, Value

ROWS = 120
PREDICATES = 120
COPIES = 160
"""Number of copies of the rows in a batch that is large enough for the code of large batches."""
SLICES = 6
NIGHTLY_CASES = 400
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo")
Answers = tuple[bool | None, ...]


@contextmanager
def settings_of(spark: SparkSession, **values: str) -> Iterator[None]:
    keys = {"zone": "spark.sql.session.timeZone", "ansi": "spark.sql.ansi.enabled"}
    with session_settings(spark, {keys[name]: value for name, value in values.items()}):
        yield


def answers(frame: DataFrame, predicates: list[str]) -> dict[str, Answers]:
    """Return Spark's result of each predicate for each row, without predicates that raise."""
    try:
        rows = frame.selectExpr(ROW, *(f"({text}) AS p{number}" for number, text in enumerate(predicates))).collect()
    except (PySparkException, Py4JJavaError):
        half = len(predicates) // 2
        return {**answers(frame, predicates[:half]), **answers(frame, predicates[half:])} if half else {}
    rows.sort(key=lambda row: row[0])
    return {text: tuple(row[number + 1] for row in rows) for number, text in enumerate(predicates)}


def check_case(spark: SparkSession, seed: int, tally: Tally) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    table = random_rows(rng, schema, ROWS)
    columns = list(leaves(t.StructType(schema.fields[1:])))
    ansi = rng.random() < 0.75
    with settings_of(spark, zone=rng.choice(ZONES), ansi=str(ansi).lower()):
        check_predicates(spark, rng, schema, table, columns, ansi, tally, f"seed {seed}")


def check_predicates(
    spark: SparkSession,
    rng: random.Random,
    schema: t.StructType,
    table: pa.Table,
    columns: list[Leaf],
    ansi: bool,
    tally: Tally,
    about: str,
) -> None:
    predicates = list(dict.fromkeys(random_predicate(rng, columns, mixed=not ansi) for _ in range(PREDICATES)))
    parsed = {text: parse_predicate(text) for text in predicates}
    folder = Folder(spark)
    folder.prepare([predicate for predicate in parsed.values() if predicate is not None], schema)
    batch = table.combine_chunks().to_batches()[0]
    large = pa.concat_tables([table] * COPIES).combine_chunks().to_batches()[0]
    frame = spark.createDataFrame(table)
    results = answers(frame, predicates)
    check_where(frame, rng.sample(sorted(results), min(2, len(results))), results)
    for text, expected in results.items():
        tally["predicates"] += 1
        predicate = parsed[text]
        assert predicate is not None, text
        bound = bind(predicate, Scope(schema, fold=folder, plain_strings="\\" not in text))
        if bound.artifact is None:
            assert bound.reason is not None
            tally[bound.reason] += 1
            continue
        compiled = ArrowFilter(bound.artifact)
        shown = f"{about}: {text} as {compiled.root}"
        compiled = pickle.loads(pickle.dumps(compiled))
        check_answers(compiled, bound.is_exact, batch, expected, tally, shown)
        check_ways(compiled, batch, large, shown)
        for _ in range(SLICES):
            check_slice(rng, compiled, batch, expected, tally, shown)


def check_where(frame: DataFrame, predicates: list[str], results: dict[str, Answers]) -> None:
    """Assert that a predicate in WHERE keeps the rows for which it is true as a column."""
    for text in predicates:
        kept = {row[0] for row in frame.where(text).select(ROW).collect()}
        assert kept == {number for number, answer in enumerate(results[text]) if answer}, text


def check_answers(
    compiled: ArrowFilter, is_exact: bool, batch: pa.RecordBatch, expected: Answers, tally: Tally, about: str
) -> None:
    found = compiled.mask(batch).to_pylist()
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        is_right = ours == theirs if is_exact else ours or not theirs
        assert is_right, f"{about} gives {ours}, Spark {theirs}, for {row_text(batch, compiled, number)}"
    tally["exact"] += is_exact
    tally["inexact"] += not is_exact
    tally["kept"] += sum(answer is True for answer in expected)
    tally["dropped"] += sum(answer is not True for answer in expected)


def row_text(batch: pa.RecordBatch, compiled: ArrowFilter, number: int) -> str:
    names = dict.fromkeys(path[0] for path in compiled.columns)
    return ", ".join(f"{name}={batch.column(name)[number]!r}" for name in names)


def check_ways(compiled: ArrowFilter, batch: pa.RecordBatch, large: pa.RecordBatch, about: str) -> None:
    """Assert that the results do not depend on the Arrow layout of the rows."""
    mask = compiled.mask(batch).to_pylist()
    kept = [answer is True for answer in mask]
    assert compiled.keep(batch).to_pylist() == kept, about
    assert compiled.mask(batch.slice(7, 50)).to_pylist() == mask[7:57], about
    assert compiled.keep(large).to_pylist() == kept * COPIES, about
    assert compiled.mask(large).to_pylist() == mask * COPIES, about
    assert compiled.mask(encoded(batch)).to_pylist() == mask, about
    assert compiled.mask(batch.slice(0, 0)).to_pylist() == [], about


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return strings as dictionaries."""
    arrays = [array.dictionary_encode() if array.type == pa.string() else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def check_slice(
    rng: random.Random, compiled: ArrowFilter, batch: pa.RecordBatch, expected: Answers, tally: Tally, about: str
) -> None:
    """Assert that statistics and value sets of some rows do not exclude a row that Spark keeps."""
    start, length = rng.randrange(ROWS), rng.choice((1, 2, 5, 30))
    part = batch.slice(start, length)
    is_kept = any(answer is True for answer in expected[start : start + length])
    values = {path: stored(part, path) for path in compiled.columns}
    bounds = {path: bounds_of(rng, found) for path, found in values.items()}
    may = can_match(compiled.root, bounds.get)
    assert may or not is_kept, f"{about}: {bounds}"
    contained = may_contain(compiled.root, contains(values))
    assert contained or not is_kept, f"{about}: {values}"
    asked = {probe.path for probe in probes(compiled.root)}
    assert contained or asked or not compiled.columns, about
    tally["slices"] += 1
    tally["ruled out"] += not may
    tally["ruled out by values"] += not contained


def stored(batch: pa.RecordBatch, path: Path) -> list[object]:
    """Return the values as filters store them: days, microseconds."""
    array = BatchColumns(batch).array(path)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return array.to_pylist()


def bounds_of(rng: random.Random, found: list[object]) -> ColumnBounds | None:
    """Return correct bounds. Some are missing, and some strings are truncated."""
    if rng.random() < 0.05:
        return None
    values = [value for value in found if value is not None]
    has_null = len(values) < len(found)
    if any(isinstance(value, dict) for value in values):
        return ColumnBounds(has_null=has_null, values=len(values))
    ordered = sorted(value for value in values if value == value)
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    if isinstance(low, str) and isinstance(high, str) and rng.random() < 0.3:
        low, high = low[:1], high[:1] + "\U0010ffff"
    if any(value != value for value in values) and rng.random() < 0.3:
        low = high = math.nan
    return ColumnBounds(
        low if rng.random() < 0.9 else None,
        high if rng.random() < 0.9 else None,
        has_null if rng.random() < 0.9 else None,
        len(values) if rng.random() < 0.9 else None,
    )


def contains(values: dict[Path, list[object]]) -> Callable[[Path, Value], bool]:
    """Return whether an exact set has a value, like a bloom filter. Bit patterns count, so 0.0 is not -0.0."""
    known = {path: {repr(value) for value in found} for path, found in values.items()}
    return lambda path, value: repr(value) in known[path]


def _not_vacuous(tally: Tally) -> None:
    assert tally["exact"] > tally["predicates"] * 0.5, tally
    assert tally["inexact"] > 10, tally
    assert tally["kept"] > tally["predicates"] * ROWS * 0.1, tally
    assert tally["dropped"] > tally["predicates"] * ROWS * 0.3, tally
    assert tally["ruled out"] > tally["slices"] * 0.1, tally
    assert tally["ruled out by values"] > tally["slices"] * 0.05, tally


def _run(spark: SparkSession, cases: int) -> Tally:
    tally = Tally()

    @settings(max_examples=cases, **BATCHES)
    @given(seed=SEEDS)
    def run(seed: int) -> None:
        check_case(spark, seed, tally)

    run()
    _not_vacuous(tally)
    return tally


def test_arrow_filters_return_sparks_rows(spark: SparkSession) -> None:
    _run(spark, 3)


@pytest.mark.nightly
def test_arrow_filters_return_sparks_rows_in_many_cases(spark: SparkSession) -> None:
    _run(spark, NIGHTLY_CASES)
