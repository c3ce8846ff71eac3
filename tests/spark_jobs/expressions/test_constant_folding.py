"""Spark evaluates constants without a job."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
import sqlglot
from pyspark.sql import SparkSession

from pushdown_spark.expressions.constant_folding import cached_fold, evaluate_constant, integer_value

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
def test_spark_evaluates_constants(spark: SparkSession, sql: str, value: object) -> None:
    assert evaluate_constant(spark, sql) == value


def test_constants_need_no_job(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("constants", "constants")
    try:
        assert cached_fold(spark)("2 * 21") == 42
        assert spark.sql("SELECT 2 * 21").head() is not None, "a query without FROM runs one job"
    finally:
        context._jsc.clearJobGroup()
    assert len(context.statusTracker().getJobIdsForGroup("constants")) == 1


def test_columns_are_not_constants(spark: SparkSession) -> None:
    assert evaluate_constant(spark, "col1") is None


@pytest.mark.parametrize(
    ("sql", "value"),
    [("1200 + 11", 1211), ("60 * (24 - 1)", 1380), ("-(2 + 3) * -4", 20), ("2147483646 + 1", 2147483647)],
)
def test_integer_arithmetic_equals_that_of_spark(spark: SparkSession, sql: str, value: int) -> None:
    assert integer_value(sqlglot.parse_one(sql, dialect="spark")) == value
    assert (evaluate_constant(spark, sql), evaluate_constant(spark, f"typeof({sql})")) == (value, "int")


@pytest.mark.parametrize(
    "sql",
    [
        "2147483647 + 1",
        "-2147483648 + 0",
        "65536 * 65536",
        "1L + 2",
        "2S + 1",
        "1.0 + 2",
        "7 / 1",
        "'1' + 2",
        pytest.param("+".join(["1"] * 100), id="100 terms"),
    ],
)
def test_arithmetic_that_may_overflow_or_has_other_types_is_left_to_spark(sql: str) -> None:
    assert integer_value(sqlglot.parse_one(sql, dialect="spark")) is None
