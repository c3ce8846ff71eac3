"""Spark's filters mistake the days from 1582-10-05 to 1582-10-14 for later ones, so readers are not given them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

SCHEMA = "day date, moment timestamp"
DAYS = "VALUES (DATE'1582-10-10'), (DATE'1582-10-15') AS t(day)"
PREDICATES = (
    "day = DATE'1582-10-10'",
    "day != '1582-10-10'",
    "day < date_add(DATE'1582-10-01', 13)",
    "moment = TIMESTAMP'1582-10-10'",
    "moment NOT IN (TIMESTAMP'1582-10-10', TIMESTAMP'2024-01-01')",
)


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize("file_format", [name.value for name in FILTER_SETTINGS])
def test_days_between_the_calendars_are_found(
    spark: SparkSession, tmp_path: Path, file_format: str, reader: str
) -> None:
    rows = spark.sql(f"SELECT day, CAST(day AS TIMESTAMP) AS moment FROM {DAYS}")
    # Each file has one day, so that its statistics exclude the other.
    rows.repartition(2, "day").write.format(spark_format(file_format)).save(str(tmp_path / "t"))
    read = spark.read.format(spark_format(file_format)).schema(SCHEMA).load(str(tmp_path / "t"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "t"), format=file_format, schema=SCHEMA, reader=reader)
    for where in PREDICATES:
        with pushdown_off(spark, file_format):
            expected = sorted_rows(read.where(where))
        with session_settings(spark, dict.fromkeys(FILTER_SETTINGS.values(), "true")):
            result = session.scan("t", where=where)
            assert result.run(sorted_rows) == expected, where
            assert sorted_rows(result.df) == expected, where
