"""TPC-H's and TPC-DS's queries, published and with permuted FROM lists, have plain Spark's rows in whatever order."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from benchmarks.workloads import TPCDS, TPCH, Generator, Workload, most_relations, permuted, without_limit
from spark_jobs.contract import JoinOptions
from spark_jobs.session import PushdownSession

pytestmark = pytest.mark.nightly

Loaded = Callable[[Generator, float], tuple[PushdownSession, Workload]]


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A workload's tables as sources, and as views of the session."""
    root = tmp_path_factory.mktemp("workloads")

    @cache
    def load(generator: Generator, scale: float) -> tuple[PushdownSession, Workload]:
        workload = generator.workload(scale, Path(root))
        session = PushdownSession(spark)
        for table in workload.tables:
            path = str(workload.data / f"{table}.parquet")
            session.add_source(table, path=path, format="parquet", reader="spark")
            spark.read.parquet(path).createOrReplaceTempView(table)
        return session, workload

    return load


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """The rows in an order of their own; of floating point numbers nine digits, the others depend on the order."""
    return sorted((tuple(map(_told, row)) for row in frame.collect()), key=str)


def _told(value: object) -> object:
    if isinstance(value, float):
        return str(value) if math.isnan(value) else f"{value:.9g}"
    return value.normalize() if isinstance(value, Decimal) else value


def check(spark: SparkSession, session: PushdownSession, text: str) -> bool:
    """Whether a join was reordered; skips what Spark itself refuses."""
    try:
        frame = spark.sql(text)
        expected = rows(frame)
    except PySparkException as problem:
        pytest.skip(f"Spark does not run it: {str(problem).splitlines()[0]}")
    result = session.sql(text, JoinOptions(min_bytes=0))
    assert result.df.dtypes == frame.dtypes
    assert rows(result.df) == expected
    return any(join.reordered for join in result.joins())


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, spark: SparkSession, loaded: Loaded) -> None:
    session, workload = loaded(TPCH, 0.01)
    text = without_limit(workload.queries[number])
    check(spark, session, text)
    if number in (7, 8, 9):
        # Spark's own order moves three times the rows that another does, and more, in tables as small as these.
        assert check(spark, session, permuted(text, number))
    elif most_relations(text) > 2:
        check(spark, session, permuted(text, number))


@pytest.mark.parametrize("number", range(1, 100))
def test_tpcds(number: int, spark: SparkSession, loaded: Loaded) -> None:
    session, workload = loaded(TPCDS, 0.01)
    text = without_limit(workload.queries[number])
    if most_relations(text) < 4:
        pytest.skip("fewer than four relations")
    check(spark, session, text)
    check(spark, session, permuted(text, number))
