"""Options and types of `spark.read.format("pushdown_avro")`, compared with Spark's own source."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.formats.avro.data_source import FORMAT, register
from pushdown_spark.formats.avro.spark_source import FILE_FORMAT


def test_map_columns_raise_unless_the_schema_leaves_them_out(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    spark.range(3).selectExpr("id", "map('k', id) m").write.format(FILE_FORMAT).save(str(tmp_path / "maps"))
    with pytest.raises(PySparkException, match="m is a map, whose entries"):
        spark.read.format(FORMAT).load(str(tmp_path / "maps")).collect()
    ours = spark.read.format(FORMAT).schema("id BIGINT").load(str(tmp_path / "maps"))
    assert sorted_rows(ours) == ["Row(id=0)", "Row(id=1)", "Row(id=2)"]
