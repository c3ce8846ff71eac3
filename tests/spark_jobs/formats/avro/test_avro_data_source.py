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


def test_option_avro_schema_adds_defaults_and_drops_columns(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    path = str(tmp_path / "table")
    spark.range(0, 3_000, 1, 2).selectExpr("id", "concat('n', id % 500) name").write.format(FILE_FORMAT).save(path)
    schema = """{"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "name", "type": ["null", "string"]}, {"name": "more", "type": "int", "default": 7}]}"""
    ours = spark.read.format(FORMAT).option("avroSchema", schema).load(path)
    native = spark.read.format(FILE_FORMAT).option("avroSchema", schema).load(path)
    assert ours.schema == native.schema
    assert (
        sorted_rows(ours.where("name = 'n7'"))
        == sorted_rows(native.where("name = 'n7'"))
        == ["Row(name='n7', more=7)"] * 6
    )


def test_option_avro_schema_reads_bytes_as_strings_even_if_they_are_not_utf8(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    values = spark.sql("SELECT * FROM VALUES (1L, X'6163'), (2L, X'64C3A9'), (3L, X'FF01'), (4L, NULL) AS v(id, b)")
    values.write.format(FILE_FORMAT).save(str(tmp_path / "bytes"))
    schema = """{"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "b", "type": ["string", "null"]}, {"name": "id", "type": ["long", "null"]}]}"""
    ours = spark.read.format(FORMAT).option("avroSchema", schema).load(str(tmp_path / "bytes"))
    shown = ours.where("id > 1").selectExpr("id", "hex(b) AS b")
    assert sorted_rows(shown) == ["Row(id=2, b='64C3A9')", "Row(id=3, b='FF01')", "Row(id=4, b=None)"]
    native = spark.read.format(FILE_FORMAT).option("avroSchema", schema).load(str(tmp_path / "bytes"))
    assert sorted_rows(native.where("id > 1").selectExpr("id", "hex(b) AS b")) == sorted_rows(shown)
