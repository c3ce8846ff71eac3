"""Arrow filters equal Spark's result for every row and predicate, and statistics never exclude a row that Spark keeps.

Spark evaluates all predicates of a case in one job, as columns of one table. Hypothesis draws only the seeds: a failure
names a predicate and a row, so there is nothing to shrink.
"""

from __future__ import annotations

import math
import pickle
import random
from collections import ChainMap, Counter
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pytest
from bisection import split_failures
from constant_cache import ConstantCache
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import leaves
from seeds import few_and_many, over_seeds
from session_settings import session_settings
from spark_results import SPARK_ERRORS
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
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo")
Results = tuple[bool | None, ...]


def spark_results(frame: DataFrame, predicates: Sequence[str]) -> dict[str, Results]:
    """Return Spark's result of each predicate for each row."""
    rows = frame.selectExpr(ROW, *(f"({text}) AS p{number}" for number, text in enumerate(predicates))).collect()
    rows.sort(key=lambda row: row[0])
    return {text: tuple(row[number + 1] for row in rows) for number, text in enumerate(predicates)}


class FilterCase:
    """The random rows of a seed, and checks of filters over them."""

    def __init__(self, spark: SparkSession, seed: int, tally: Counter[str]) -> None:
        self._spark = spark
        self._seed = seed
        self._tally = tally
        self._rng = random.Random(seed)
        self._schema = random_schema(self._rng)
        self._table = random_rows(self._rng, self._schema, ROWS)
        self._batch = self._table.combine_chunks().to_batches()[0]
        self._large = pa.concat_tables([self._table] * COPIES).combine_chunks().to_batches()[0]

    def check(self) -> None:
        """Compare random predicates in a random time zone, with or without ANSI mode."""
        rng, columns = self._rng, list(leaves(t.StructType(self._schema.fields[1:])))
        ansi = rng.random() < 0.75
        conf = {"spark.sql.session.timeZone": rng.choice(ZONES), "spark.sql.ansi.enabled": str(ansi).lower()}
        predicates = list(dict.fromkeys(random_predicate(rng, columns, mixed=not ansi) for _ in range(PREDICATES)))
        with session_settings(self._spark, conf):
            self._check_predicates(predicates)

    def _check_predicates(self, predicates: list[str]) -> None:
        trees = {text: parse_predicate(text) for text in predicates}
        constants = ConstantCache(self._spark)
        constants.prepare([predicate for predicate in trees.values() if predicate is not None], self._schema)
        frame = self._spark.createDataFrame(self._table)
        batches, _ = split_failures(predicates, partial(spark_results, frame), SPARK_ERRORS)
        results = dict(ChainMap(*batches))
        check_where(frame, self._rng.sample(sorted(results), min(2, len(results))), results)
        for text, expected in results.items():
            self._tally["predicates"] += 1
            predicate = trees[text]
            assert predicate is not None, text
            outcome = bind(predicate, Scope(self._schema, fold=constants, has_plain_strings="\\" not in text))
            if outcome.artifact is None:
                assert outcome.reason is not None
                self._tally[outcome.reason] += 1
                continue
            arrow_filter = ArrowFilter(outcome.artifact)
            about = f"seed {self._seed}: {text} as {arrow_filter.root}"
            # Workers get filters pickled.
            arrow_filter = pickle.loads(pickle.dumps(arrow_filter))
            self._check_results(arrow_filter, expected, outcome.is_exact, about)
            self._check_layouts(arrow_filter, about)
            for _ in range(SLICES):
                self._check_statistics(arrow_filter, expected, about)

    def _check_results(self, arrow_filter: ArrowFilter, expected_results: Results, is_exact: bool, about: str) -> None:
        actual_results = arrow_filter.mask(self._batch).to_pylist()
        for number, (actual, expected) in enumerate(zip(actual_results, expected_results, strict=True)):
            is_right = actual == expected if is_exact else actual or not expected
            row = row_text(self._batch, arrow_filter, number)
            assert is_right, f"{about} gives {actual}, Spark {expected}, for {row}"
        self._tally["exact"] += is_exact
        self._tally["inexact"] += not is_exact
        self._tally["kept"] += sum(result is True for result in expected_results)
        self._tally["dropped"] += sum(result is not True for result in expected_results)

    def _check_layouts(self, arrow_filter: ArrowFilter, about: str) -> None:
        """Assert that the results do not depend on the Arrow layout of the rows."""
        batch, large = self._batch, self._large
        mask = arrow_filter.mask(batch).to_pylist()
        passing_rows = [result is True for result in mask]
        assert arrow_filter.keep(batch).to_pylist() == passing_rows, about
        assert arrow_filter.mask(batch.slice(7, 50)).to_pylist() == mask[7:57], about
        assert arrow_filter.keep(large).to_pylist() == passing_rows * COPIES, about
        assert arrow_filter.mask(large).to_pylist() == mask * COPIES, about
        assert arrow_filter.mask(encode_dictionaries(batch)).to_pylist() == mask, about
        assert arrow_filter.mask(batch.slice(0, 0)).to_pylist() == [], about

    def _check_statistics(self, arrow_filter: ArrowFilter, expected: Results, about: str) -> None:
        """Assert that statistics and value sets of some rows do not exclude a row that Spark keeps."""
        start, length = self._rng.randrange(ROWS), self._rng.choice((1, 2, 5, 30))
        rows = self._batch.slice(start, length)
        is_kept = any(result is True for result in expected[start : start + length])
        values = {path: stored_values(rows, path) for path in arrow_filter.columns}
        bounds = {path: bounds_of(self._rng, column_values) for path, column_values in values.items()}
        can_be_kept = can_match(arrow_filter.root, bounds.get)
        assert can_be_kept or not is_kept, f"{about}: {bounds}"
        is_contained = may_contain(arrow_filter.root, contains(values))
        assert is_contained or not is_kept, f"{about}: {values}"
        assert is_contained or probes(arrow_filter.root) or not arrow_filter.columns, about
        self._tally["slices"] += 1
        self._tally["ruled out"] += not can_be_kept
        self._tally["ruled out by values"] += not is_contained


def check_where(frame: DataFrame, predicates: list[str], results: dict[str, Results]) -> None:
    """Assert that a predicate in WHERE keeps the rows for which it is true as a column."""
    for text in predicates:
        passing_rows = {row[0] for row in frame.where(text).select(ROW).collect()}
        assert passing_rows == {number for number, result in enumerate(results[text]) if result}, text


def row_text(batch: pa.RecordBatch, arrow_filter: ArrowFilter, number: int) -> str:
    names = dict.fromkeys(path[0] for path in arrow_filter.columns)
    return ", ".join(f"{name}={batch.column(name)[number]!r}" for name in names)


def encode_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [array.dictionary_encode() if array.type == pa.string() else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def stored_values(batch: pa.RecordBatch, path: Path) -> list[object]:
    """Return the values as filters store them: days, microseconds."""
    array = BatchColumns(batch).array(path)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return array.to_pylist()


def bounds_of(rng: random.Random, actual: list[object]) -> ColumnBounds | None:
    """Return correct bounds. Some are missing, and some strings are truncated."""
    if rng.random() < 0.05:
        return None
    values = [value for value in actual if value is not None]
    has_null = len(values) < len(actual)
    if any(isinstance(value, dict) for value in values):
        return ColumnBounds(has_null=has_null, values=len(values))
    numbers = sorted(value for value in values if value == value)
    low, high = (numbers[0], numbers[-1]) if numbers else (None, None)
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
    """Return whether a column has an equal value, like a bloom filter without errors."""
    return lambda path, value: value in values[path]


def _require_enough_comparisons(tally: Counter[str]) -> None:
    assert tally["exact"] > tally["predicates"] * 0.5, tally
    assert tally["inexact"] > 10, tally
    assert tally["kept"] > tally["predicates"] * ROWS * 0.1, tally
    assert tally["dropped"] > tally["predicates"] * ROWS * 0.3, tally
    assert tally["ruled out"] > tally["slices"] * 0.1, tally
    assert tally["ruled out by values"] > tally["slices"] * 0.05, tally


@pytest.mark.parametrize("cases", few_and_many(2, 400))
def test_arrow_filters_return_sparks_rows(spark: SparkSession, cases: int) -> None:
    tally = Counter[str]()
    over_seeds(cases, lambda seed: FilterCase(spark, seed, tally).check())
    _require_enough_comparisons(tally)
