"""Row counts are the same from the metric of a filter and from an observation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.runtime.query_metrics import RowCount
from pushdown_spark.session import PushdownSession


@pytest.fixture(scope="module")
def numbers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("counted") / "numbers")
    spark.range(1_000).selectExpr("id", "id % 7 AS k", "named_struct('a', id) AS s").write.orc(path)
    return path


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


ACTIONS: dict[str, Callable[[DataFrame], object]] = {
    "written": _noop,
    "collected": lambda frame: frame.collect(),
    "counted": lambda frame: frame.count(),
    "filtered again": lambda frame: frame.where("id < 100").count(),
}


@pytest.mark.parametrize("where", ["k = 3", "k = 99", "k = 3 AND k = 4", "1 = 0", "s.a >= 500"])
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_both_row_counters_return_sparks_row_count(
    spark: SparkSession, numbers: str, where: str, action: Callable[[DataFrame], object]
) -> None:
    session = PushdownSession(spark)
    session.add_source("numbers", path=numbers, format="orc", reader="spark")
    row_count = []
    for single_pass in (True, False):
        result = session.scan("numbers", where=where)
        result.run(action, single_pass=single_pass)
        row_count.append(result.rows)
    assert row_count == [spark.read.orc(numbers).where(where).count()] * 2


def test_sorted_rows_count_once(spark: SparkSession, numbers: str) -> None:
    session = PushdownSession(spark)
    session.add_source("numbers", path=numbers, format="orc", reader="spark")
    result = session.scan("numbers", where="k = 3")
    result.run(lambda frame: _noop(frame.orderBy("id")))
    assert result.rows == 143


def test_only_the_first_query_counts(spark: SparkSession) -> None:
    row_count = RowCount(spark, spark.range(10).where("id > 3"), single_pass=True)
    spark.range(5).count()
    row_count.frame.where("id > 7").count()
    row_count.frame.limit(1).collect()
    assert row_count.rows() == 6


def test_rows_are_unknown_without_a_query(spark: SparkSession) -> None:
    assert RowCount(spark, spark.range(10), single_pass=True).rows() is None


def test_join_that_spark_finds_empty_has_no_rows(spark: SparkSession) -> None:
    left, right = (
        spark.range(100).withColumnRenamed("id", "x"),
        spark.range(100).where("hash(id) = 1").groupBy("id").count(),
    )
    row_count = RowCount(spark, left.join(right, left.x == right.id), single_pass=True)
    _noop(row_count.frame)
    assert row_count.rows() == 0


def test_counting_keeps_whole_stage_code_generation(spark: SparkSession, numbers: str) -> None:
    row_count = RowCount(spark, spark.read.orc(numbers).where("k = 3"), single_pass=True)
    plan = str(row_count.frame._jdf.queryExecution().executedPlan().toString())
    assert plan.startswith("*(1) Filter ((monotonically_increasing_id()")
    assert "PushedFilters: [IsNotNull(k), EqualTo(k,3)]" in plan
