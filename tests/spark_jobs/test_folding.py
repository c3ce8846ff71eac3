"""Constants are worked out by Spark, without a job."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from spark_jobs.folding import folding, value_of

CONSTANTS = {
    "1200 + 1": 1201,
    "DATE '2000-02-01' + INTERVAL 60 DAYS": date(2000, 4, 1),
    "TIMESTAMP_NTZ '2000-02-01 10:00:00'": datetime(2000, 2, 1, 10),
    "CAST(1 AS DECIMAL(10, 2)) / 3": Decimal("0.333333"),
    "concat('a', 'b')": "ab",
    "array(1, 2)": [1, 2],
    "CAST(NULL AS INT)": None,
    "1 / 0": None,
    "TIMESTAMP '+12000-01-01 00:00:00'": None,
    "`no such column`": None,
}


@pytest.mark.parametrize(("sql", "value"), CONSTANTS.items(), ids=CONSTANTS)
def test_spark_tells_the_value_of_a_constant(spark: SparkSession, sql: str, value: object) -> None:
    assert value_of(spark, sql) == value


def test_no_job_runs_for_a_constant(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("constants", "constants")
    try:
        assert folding(spark)("2 * 21") == 42
        assert spark.sql("SELECT 2 * 21").head() is not None, "as Spark would do it"
    finally:
        context._jsc.clearJobGroup()
    assert len(context.statusTracker().getJobIdsForGroup("constants")) == 1


def test_no_constant_has_the_name_of_a_column(spark: SparkSession) -> None:
    assert value_of(spark, "col1") is None
