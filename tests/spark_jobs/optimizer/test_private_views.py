"""Private views stand for DataFrames inside a context, and leave the session unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pushdown_spark.optimizer.private_views import PrivateViews
from pushdown_spark.session import PushdownSession


def test_views_exist_only_inside_the_context(spark: SparkSession) -> None:
    frames = {"one": spark.range(3), "two": spark.sql("SELECT 'x' AS t, 1.5 AS d"), "three": spark.range(2, 4)}
    text = "SELECT a.id, three.id AS other, t, d FROM one AS a, two JOIN three ON a.id = three.id"
    with PrivateViews(spark).register(frames):
        actual = spark.sql(text)
        plan = actual._jdf.queryExecution().analyzed().treeString()
    assert [tuple(map(str, row)) for row in actual.collect()] == [("2", "2", "x", "1.5")]
    assert all(f"SubqueryAlias {name}\n" in plan for name in frames)
    assert not any(spark.catalog.tableExists(name) for name in ("two", "three"))


def test_views_are_dropped_after_an_error(spark: SparkSession) -> None:
    with (
        pytest.raises(AnalysisException),
        PrivateViews(spark).register({"one": spark.range(3), "two": spark.range(3)}),
    ):
        spark.sql("SELECT nothing FROM one, two")
    assert not any(spark.catalog.tableExists(name) for name in ("one", "two"))


def test_cached_data_of_users_stays_cached(spark: SparkSession, tmp_path: Path) -> None:
    session = PushdownSession(spark)
    for name in ("a", "b"):
        spark.range(10).write.parquet(str(tmp_path / name))
        session.add_source(name, path=str(tmp_path / name), format="parquet", reader="spark")
    cached = spark.read.parquet(str(tmp_path / "a")).cache()
    try:
        assert session.sql("SELECT a.id FROM a JOIN b ON a.id = b.id").df.count() == 10
        assert cached.storageLevel.useMemory
    finally:
        cached.unpersist()
