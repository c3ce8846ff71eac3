"""`spark.read.format("pushdown_avro")` against Spark's own source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.formats.avro.data_source import FORMAT, register
from pushdown_spark.formats.avro.spark_source import FILE_FORMAT

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

_PUSHED = [
    "k NOT IN (5, 1001) AND id < 1500 AND dd = DATE'2000-01-02'",
    "de > 1990.5 AND x > -1.5 AND k <=> 999",
    "st.a = 3 AND id > 1000 AND name LIKE 'n4%' AND b = X'07'",
]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data_source") / "with blank % and #"
    rows = spark.range(0, 3_000, 1, 2).selectExpr(
        "id",
        "CAST(id % 1000 AS INT) k",
        "concat('n', id % 500) name",
        "date_add(DATE'2000-01-01', CAST(id / 1000 AS INT)) dd",
        "CAST(id AS DECIMAL(12, 2)) de",
        "IF(id % 7 = 0, NULL, id * 1.5D) x",
        "named_struct('a', id % 77, 'b', IF(id % 3 = 0, NULL, CAST(id AS STRING))) st",
        "timestamp_micros(id * 1000000) ts",
        "timestamp_ntz'2000-01-01 00:00:00' ntz",
        "unhex(hex(CAST(id % 10 AS TINYINT))) b",
        "array(id, id + 1) arr",
    )
    rows.write.format(FILE_FORMAT).save(str(path))
    return path


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    register(spark)
    before = spark.conf.get(_PUSHDOWN, "false")
    spark.conf.set(_PUSHDOWN, "true")
    yield spark
    spark.conf.set(_PUSHDOWN, before)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def _native(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.format(FILE_FORMAT).load(str(table))


def test_the_schema_is_what_spark_infers(spark: SparkSession, table: Path) -> None:
    register(spark)
    assert spark.read.format(FORMAT).load(str(table)).schema == _native(spark, table).schema


@pytest.mark.parametrize("predicate", ["x > -1.5 AND id < 30", "id = 5 OR name = 'n7'"])
def test_ordinary_predicates_keep_sparks_rows(spark: SparkSession, table: Path, predicate: str) -> None:
    register(spark)
    ours = spark.read.format(FORMAT).load(str(table))
    assert _rows(ours.where(predicate)) == _rows(_native(spark, table).where(predicate))


@pytest.mark.parametrize("predicate", _PUSHED)
def test_pushed_conjuncts_keep_sparks_rows(pushing: SparkSession, table: Path, predicate: str) -> None:
    ours = pushing.read.format(FORMAT).option("push_filters", "true").load(str(table)).where(predicate)
    assert _rows(ours) == _rows(_native(pushing, table).where(predicate))


def test_the_option_where_takes_any_predicate_over_columns(spark: SparkSession, table: Path) -> None:
    register(spark)
    predicate = "id = 5 OR st.b LIKE '%99'"
    ours = spark.read.format(FORMAT).option("where", predicate).load(str(table))
    assert _rows(ours) == _rows(_native(spark, table).where(predicate))


def test_a_predicate_that_is_not_exact_is_refused(spark: SparkSession, table: Path) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="option where"):
        spark.read.format(FORMAT).option("where", "id = 5 AND arr[0] = 5").load(str(table)).collect()


def test_maps_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    spark.range(3).selectExpr("id", "map('k', id) m").write.format(FILE_FORMAT).save(str(tmp_path / "maps"))
    with pytest.raises(PySparkException, match="m is a map, whose entries"):
        spark.read.format(FORMAT).load(str(tmp_path / "maps")).collect()
    ours = spark.read.format(FORMAT).schema("id BIGINT").load(str(tmp_path / "maps"))
    assert _rows(ours) == ["Row(id=0)", "Row(id=1)", "Row(id=2)"]


def test_only_the_columns_of_the_given_schema_are_read(spark: SparkSession, table: Path) -> None:
    register(spark)
    ours = spark.read.format(FORMAT).schema("k INT, missing STRING, id BIGINT").load(str(table))
    assert [tuple(row) for row in ours.where("id = 1077").collect()] == [(77, None, 1077)]


def test_the_option_avro_schema_is_resolved(spark: SparkSession, table: Path) -> None:
    register(spark)
    schema = """{"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "name", "type": ["null", "string"]}, {"name": "more", "type": "int", "default": 7}]}"""
    ours = spark.read.format(FORMAT).option("avroSchema", schema).load(str(table))
    native = spark.read.format(FILE_FORMAT).option("avroSchema", schema).load(str(table))
    assert ours.schema == native.schema
    assert _rows(ours.where("name = 'n7'")) == _rows(native.where("name = 'n7'")) == ["Row(name='n7', more=7)"] * 6


def test_bytes_are_read_as_strings_also_where_they_are_no_utf8(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    values = spark.sql("SELECT * FROM VALUES (1L, X'6163'), (2L, X'64C3A9'), (3L, X'FF01'), (4L, NULL) AS v(id, b)")
    values.write.format(FILE_FORMAT).save(str(tmp_path / "bytes"))
    schema = """{"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "b", "type": ["string", "null"]}, {"name": "id", "type": ["long", "null"]}]}"""
    ours = spark.read.format(FORMAT).option("avroSchema", schema).load(str(tmp_path / "bytes"))
    shown = ours.where("id > 1").selectExpr("id", "hex(b) AS b")
    assert _rows(shown) == ["Row(id=2, b='64C3A9')", "Row(id=3, b='FF01')", "Row(id=4, b=None)"]
    native = spark.read.format(FILE_FORMAT).option("avroSchema", schema).load(str(tmp_path / "bytes"))
    assert _rows(native.where("id > 1").selectExpr("id", "hex(b) AS b")) == _rows(shown)


def test_a_path_without_files_is_named(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="matches no file"):
        spark.read.format(FORMAT).load(str(tmp_path / "nothing")).collect()
