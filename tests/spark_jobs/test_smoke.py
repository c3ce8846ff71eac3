"""The smallest scan of each format: the pushdown reader returns Spark's rows. `make check` runs these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

pytestmark = pytest.mark.smoke
SCHEMA = "id bigint, name string, half double"


@pytest.mark.parametrize("source_format", ["json", "csv", "orc", "avro", "parquet"])
def test_the_pushdown_reader_returns_sparks_rows(spark: SparkSession, tmp_path: Path, source_format: str) -> None:
    path = str(tmp_path / "t")
    rows = spark.range(2_000).selectExpr("id", "concat('name ', id % 100) AS name", "id / 2 AS half").repartition(2)
    rows.write.format(spark_format(source_format)).save(path)
    session = PushdownSession(spark)
    session.add_source("t", path=path, format=source_format, schema=SCHEMA, reader="pushdown")
    result = session.scan("t", columns=["half", "id"], where="name = 'name 42' AND id < 1000")
    spark_frame = spark.read.format(spark_format(source_format)).schema(SCHEMA).load(path)
    expected = sorted_rows(spark_frame.where("name = 'name 42' AND id < 1000").select("half", "id"))
    assert result.run(sorted_rows) == expected
    assert len(expected) == 10
    report = result.report()["t"]
    assert report.reader == "pushdown", report.reason
