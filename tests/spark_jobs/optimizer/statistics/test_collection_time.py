"""Statistics are collected only if that is cheap compared with the query, and only once for the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as t

from pushdown_spark.contract import JoinOptions, SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.optimizer.statistics.collection_time import (
    AnalysisCosts,
    check_analysis_time,
    check_statistics_time,
    estimated_query_seconds,
)
from pushdown_spark.optimizer.statistics.source_statistics import SampleCache
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import InputFile, local_files

TABLE = Source(name="t", format=SourceFormat.PARQUET)
SCHEMA = t.StructType([t.StructField("k", t.LongType()), t.StructField("v", t.LongType())])
BOTH = frozenset({"k", "v"})


def test_statistics_may_take_a_twentieth_of_the_query() -> None:
    check_analysis_time(0.05, 1.0)
    with pytest.raises(UnsupportedError) as problem:
        check_analysis_time(0.06, 1.0)
    assert str(problem.value) == (
        "collecting statistics would take about 0.06 s, more than 5% of the estimated 1.0 s of the query"
    )


def test_a_query_is_estimated_by_bytes_formats_and_processors() -> None:
    parquet = estimated_query_seconds([(SourceFormat.PARQUET, 64 << 20), (SourceFormat.ORC, 64 << 20)], 2)
    assert parquet == pytest.approx(2.2)
    assert estimated_query_seconds([(SourceFormat.PARQUET, 128 << 20)], 1) == pytest.approx(4.1)
    assert estimated_query_seconds([(SourceFormat.JSON, 128 << 20)], 2) < parquet, "a row has more bytes in a text file"


def test_sampled_files_are_cheaper_to_analyze_than_new_ones() -> None:
    costs = AnalysisCosts()
    query = 1.01 * costs.expected_seconds(4, 0) / 0.05
    check_analysis_time(costs.expected_seconds(4, 0), query)
    with pytest.raises(UnsupportedError):
        check_analysis_time(costs.expected_seconds(4, 4), query)


def test_the_first_query_of_a_session_may_sample_a_few_new_files() -> None:
    costs = AnalysisCosts()
    check_analysis_time(costs.expected_seconds(3, 3), costs.warmup)
    with pytest.raises(UnsupportedError):
        check_analysis_time(costs.expected_seconds(30, 30), costs.warmup)


def test_small_queries_need_statistics_only_in_a_cold_session_or_on_request() -> None:
    warm, sizes = AnalysisCosts(warmup=0.0), [(SourceFormat.PARQUET, 1000)] * 3
    with pytest.raises(UnsupportedError, match=r"would take about 0\.12 s"):
        check_statistics_time(JoinOptions(), warm, sizes, 3, 2)
    with pytest.raises(UnsupportedError, match=r"would take about 0\.06 s"):
        check_statistics_time(JoinOptions(), warm, sizes, 0, 2)
    check_statistics_time(JoinOptions(), AnalysisCosts(), sizes, 3, 2)
    check_statistics_time(JoinOptions(min_bytes=3000), warm, sizes, 3, 2)
    check_statistics_time(JoinOptions(), warm, [*sizes, (SourceFormat.REMOTE, None)], 3, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    write(path, [1, 2, 2])
    return path


def write(path: Path, keys: list[int]) -> None:
    """Write without encodings, so that files with the same number of keys have the same size."""
    pq.write_table(pa.table({"k": keys, "v": [1] * len(keys)}), path, use_dictionary=False, compression="none")


def wait_for_another_time(path: Path, before: int) -> None:
    """Wait until a change of a file has another time in its file system than the one before."""
    while path.stat().st_ctime_ns == before:
        path.touch()


def listed_files(path: Path) -> tuple[InputFile, ...]:
    return local_files([path.as_uri()])


def test_files_are_sampled_once(path: Path) -> None:
    cache = SampleCache()
    assert not cache.has_sample(TABLE, listed_files(path))
    first = cache.sample(TABLE, listed_files(path), SCHEMA, BOTH)
    assert cache.has_sample(TABLE, listed_files(path))
    assert cache.sample(TABLE, listed_files(path), SCHEMA, frozenset({"k"})) is first
    assert first.distinct("k") == (2.0, 0.0)


def test_additional_columns_are_sampled(path: Path) -> None:
    cache = SampleCache()
    cache.sample(TABLE, listed_files(path), SCHEMA, frozenset({"k"}))
    assert set(cache.sample(TABLE, listed_files(path), SCHEMA, frozenset({"v"})).table.column_names) == BOTH


@pytest.mark.parametrize("later", [0, 1_000_000], ids=["with the same time", "later"])
def test_a_changed_file_of_the_same_size_is_sampled_again(path: Path, later: int) -> None:
    cache = SampleCache()
    before, status = cache.sample(TABLE, listed_files(path), SCHEMA, BOTH), path.stat()
    wait_for_another_time(path, status.st_ctime_ns)
    write(path, [1, 2, 3])
    os.utime(path, ns=(0, status.st_mtime_ns + later))
    assert path.stat().st_size == status.st_size
    assert not cache.has_sample(TABLE, listed_files(path))
    assert cache.sample(TABLE, listed_files(path), SCHEMA, BOTH).distinct("k") == (3.0, 0.0)
    assert before.distinct("k") == (2.0, 0.0)


def test_options_are_part_of_the_cache_key(path: Path) -> None:
    cache = SampleCache()
    cache.sample(TABLE, listed_files(path), SCHEMA, BOTH)
    other = Source(name="t", format=SourceFormat.CSV, options={"sep": ";"})
    assert not cache.has_sample(other, listed_files(path))
