"""Queries of four benchmarks, published and with permuted FROM lists, return the rows of plain Spark."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from benchmarks.movies import movies
from benchmarks.ssb import QUERIES, ssb
from benchmarks.workloads import TPCDS, TPCH, Workload, most_relations, permute, without_limit
from pushdown_spark.contract import JoinOptions
from pushdown_spark.session import PushdownSession

pytestmark = pytest.mark.nightly

MakeWorkload = Callable[[Path], Workload]
LoadWorkload = Callable[[MakeWorkload], tuple[PushdownSession, Workload]]
SMALL_TPCH: MakeWorkload = partial(TPCH.workload, 0.01)
SMALL_TPCDS: MakeWorkload = partial(TPCDS.workload, 0.01)
SMALL_MOVIES: MakeWorkload = partial(movies, 0.01)


def small_ssb(cache: Path) -> Workload:
    """Return the Star Schema Benchmark's tables at scale 0.01."""
    return ssb(SMALL_TPCH(cache).data, 0.01, cache)


@pytest.fixture(scope="module")
def load_workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LoadWorkload:
    """Load a workload's tables as sources and as views of the session."""
    root = tmp_path_factory.mktemp("workloads")
    prepared: dict[MakeWorkload, tuple[PushdownSession, Workload]] = {}

    def load(make: MakeWorkload) -> tuple[PushdownSession, Workload]:
        if make not in prepared:
            workload = make(root)
            session = PushdownSession(spark)
            for table in workload.tables:
                path = str(workload.data / f"{table}.parquet")
                session.add_source(table, path=path, format="parquet", reader="spark")
            prepared[make] = session, workload
        session, workload = prepared[make]
        # Different workloads have tables of the same name.
        for table in workload.tables:
            spark.read.parquet(str(workload.data / f"{table}.parquet")).createOrReplaceTempView(table)
        return session, workload

    return load


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """Return sorted rows. Floats keep nine digits, because the others depend on the join order."""
    return sorted((tuple(map(_normalize, row)) for row in frame.collect()), key=str)


def _normalize(value: object) -> object:
    if isinstance(value, float):
        return str(value) if math.isnan(value) else f"{value:.9g}"
    return value.normalize() if isinstance(value, Decimal) else value


def check(spark: SparkSession, session: PushdownSession, text: str) -> bool:
    """Compare the rows and return whether a join was reordered. Skip queries that Spark rejects."""
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
def test_tpch_queries_return_sparks_rows(number: int, spark: SparkSession, load_workload: LoadWorkload) -> None:
    session, workload = load_workload(SMALL_TPCH)
    text = without_limit(workload.queries[str(number)])
    check(spark, session, text)
    if number in (7, 8, 9):
        # Even with these small tables, Spark's own order moves at least three times the rows.
        assert check(spark, session, permute(text, number))
    elif most_relations(text) > 2:
        check(spark, session, permute(text, number))


@pytest.mark.parametrize("number", range(1, 100))
def test_tpcds_queries_return_sparks_rows(number: int, spark: SparkSession, load_workload: LoadWorkload) -> None:
    session, workload = load_workload(SMALL_TPCDS)
    text = without_limit(workload.queries[str(number)])
    if most_relations(text) < 4:
        pytest.skip("fewer than four relations")
    check(spark, session, text)
    check(spark, session, permute(text, number))


@pytest.mark.parametrize("name", QUERIES)
def test_joins_of_the_star_schema_benchmark_return_sparks_rows(
    name: str, spark: SparkSession, load_workload: LoadWorkload
) -> None:
    session, workload = load_workload(small_ssb)
    check(spark, session, workload.queries[name])
    check(spark, session, permute(workload.queries[name], 1))


@pytest.mark.parametrize("form", range(1, 34))
def test_queries_of_the_join_order_benchmark_return_sparks_rows(
    form: int, spark: SparkSession, load_workload: LoadWorkload
) -> None:
    session, workload = load_workload(SMALL_MOVIES)
    of_form = [text for name, text in workload.queries.items() if name.rstrip("abcdef") == str(form)]
    assert of_form
    for number, text in enumerate(of_form):
        check(spark, session, permute(text, number) if number else text)
