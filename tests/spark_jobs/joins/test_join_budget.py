"""An analysis is made where it costs little beside the query, and not twice for the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as t

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.joins.budget import AnalysisClock, Outlook, query_seconds
from pushdown_spark.joins.figures import SampleCache
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import InputFile, local_files

TABLE = Source("t", SourceFormat.PARQUET, (), None, {}, ReaderChoice.SPARK, filter_pushdown=True)
SCHEMA = t.StructType([t.StructField("k", t.LongType()), t.StructField("v", t.LongType())])
BOTH = frozenset({"k", "v"})


def test_an_analysis_pays_up_to_a_twentieth_of_the_query() -> None:
    assert Outlook(analysis=0.05, query=1.0).obstacle is None
    assert Outlook(analysis=0.06, query=1.0).obstacle == (
        "looking for an order would take about 0.06 s, more than 5% of the 1.0 s that the query may take"
    )


def test_a_query_is_estimated_by_bytes_formats_and_processors() -> None:
    parquet = query_seconds([(SourceFormat.PARQUET, 64 << 20), (SourceFormat.ORC, 64 << 20)], 2)
    assert parquet == pytest.approx(2.2)
    assert query_seconds([(SourceFormat.PARQUET, 128 << 20)], 1) == pytest.approx(4.1)
    assert query_seconds([(SourceFormat.JSON, 128 << 20)], 2) < parquet, "a row has more bytes as text"


def test_familiar_files_may_be_worth_an_analysis_that_fresh_ones_are_not() -> None:
    clock = AnalysisClock()
    query = 1.01 * clock.expected(4, 0) / 0.05
    assert Outlook(clock.expected(4, 0), query).obstacle is None
    assert Outlook(clock.expected(4, 4), query).obstacle is not None


def test_the_first_query_of_a_session_takes_long_enough_for_a_look_at_a_few_fresh_files() -> None:
    clock = AnalysisClock()
    assert Outlook(clock.expected(3, 3), clock.warming).obstacle is None
    assert Outlook(clock.expected(30, 30), clock.warming).obstacle is not None


def test_the_clock_follows_what_analyses_take_and_forgets_it() -> None:
    clock, started = AnalysisClock(), AnalysisClock()
    clock.took(10.0, relations=4, fresh=2)
    assert started.expected(4, 2) < clock.expected(4, 2) < 10.0
    for _ in range(10):
        clock.took(10.0, relations=4, fresh=2)
    assert clock.expected(4, 2) == pytest.approx(10.0, rel=0.01)
    for _ in range(100):
        clock.skipped()
    assert clock.expected(4, 2) == pytest.approx(started.expected(4, 2), rel=0.01)


def test_analyses_of_familiar_files_say_nothing_of_fresh_ones() -> None:
    clock = AnalysisClock()
    clock.took(10.0, relations=3, fresh=0)
    assert clock.fresh == AnalysisClock().fresh
    assert clock.familiar > AnalysisClock().familiar


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    write(path, [1, 2, 2])
    return path


def write(path: Path, keys: list[int]) -> None:
    """Plainly, so that files of as many keys have one size."""
    pq.write_table(pa.table({"k": keys, "v": [1] * len(keys)}), path, use_dictionary=False, compression="none")


def listed(path: Path) -> tuple[InputFile, ...]:
    return local_files([path.as_uri()])


def test_files_are_looked_at_once(path: Path) -> None:
    cache = SampleCache()
    assert not cache.knows(TABLE, listed(path))
    first = cache.sample(TABLE, listed(path), SCHEMA, BOTH)
    assert cache.knows(TABLE, listed(path))
    assert cache.sample(TABLE, listed(path), SCHEMA, frozenset({"k"})) is first
    assert first.distinct("k") == (2.0, 0.0)


def test_a_column_that_was_not_seen_is_looked_at(path: Path) -> None:
    cache = SampleCache()
    cache.sample(TABLE, listed(path), SCHEMA, frozenset({"k"}))
    assert set(cache.sample(TABLE, listed(path), SCHEMA, frozenset({"v"})).table.column_names) == BOTH


def test_a_file_of_the_same_size_that_changed_is_looked_at_again(path: Path) -> None:
    cache = SampleCache()
    before, size = cache.sample(TABLE, listed(path), SCHEMA, BOTH), path.stat().st_size
    write(path, [1, 2, 3])
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000))
    assert path.stat().st_size == size
    assert not cache.knows(TABLE, listed(path))
    assert cache.sample(TABLE, listed(path), SCHEMA, BOTH).distinct("k") == (3.0, 0.0)
    assert before.distinct("k") == (2.0, 0.0)


def test_other_options_are_another_set(path: Path) -> None:
    cache = SampleCache()
    cache.sample(TABLE, listed(path), SCHEMA, BOTH)
    other = Source("t", SourceFormat.CSV, (), None, {"sep": ";"}, ReaderChoice.SPARK, filter_pushdown=True)
    assert not cache.knows(other, listed(path))
