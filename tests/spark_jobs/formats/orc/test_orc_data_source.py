"""`spark.read.format("pushdown_orc")` against Spark's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.formats.orc.data_source import FORMAT, register

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

_PUSHED = [
    "k NOT IN (5, 1001) AND id < 1500 AND dd = DATE'2000-01-02'",
    "k IN (5, 1001) AND x IS NULL AND NOT (id = 5)",
    "de > 19990.5 AND x > -1.5 AND k <=> 999",
    "st.a = 3 AND id > 19000 AND name LIKE 'n4%' AND b = X'07'",
    "ts > TIMESTAMP'1970-01-01 05:33:00' AND name LIKE '%9%'",
]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data_source") / "with blank % and #"
    rows = spark.range(0, 20_000, 1, 2).selectExpr(
        "id",
        "CAST(id % 1000 AS INT) k",
        "concat('n', id % 5000) name",
        "date_add(DATE'2000-01-01', CAST(id / 1000 AS INT)) dd",
        "CAST(id AS DECIMAL(12, 2)) de",
        "IF(id % 7 = 0, NULL, id * 1.5D) x",
        "named_struct('a', id % 77, 'b', IF(id % 3 = 0, NULL, CAST(id AS STRING))) st",
        "timestamp_micros(id * 1000000) ts",
        "timestamp_ntz'2000-01-01 00:00:00' ntz",
        "unhex(hex(CAST(id % 10 AS TINYINT))) b",
        "array(id, id + 1) arr",
        "map('k', id) m",
    )
    rows.write.option("orc.row.index.stride", "1000").orc(str(path))
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


def test_the_schema_is_what_spark_infers(spark: SparkSession, table: Path) -> None:
    register(spark)
    assert spark.read.format(FORMAT).load(str(table)).schema == spark.read.orc(str(table)).schema


@pytest.mark.parametrize("predicate", ["x > -1.5 AND id < 30", "id = 5 OR name = 'n7'"])
def test_ordinary_predicates_keep_sparks_rows(spark: SparkSession, table: Path, predicate: str) -> None:
    register(spark)
    ours, native = spark.read.format(FORMAT).load(str(table)), spark.read.orc(str(table))
    assert _rows(ours.where(predicate)) == _rows(native.where(predicate))


@pytest.mark.parametrize("predicate", _PUSHED)
def test_pushed_conjuncts_keep_sparks_rows(pushing: SparkSession, table: Path, predicate: str) -> None:
    ours = pushing.read.format(FORMAT).option("push_filters", "true").load(str(table)).where(predicate)
    assert _rows(ours) == _rows(pushing.read.orc(str(table)).where(predicate))


def test_an_exact_conjunct_is_not_evaluated_again(pushing: SparkSession, table: Path) -> None:
    ours = pushing.read.format(FORMAT).option("push_filters", "true").load(str(table)).where("id = 5")
    assert "Filter (" not in ours._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("predicate", ["id = 5 OR name = 'n7'", "st.b LIKE '%99' AND k IN (99, 199)"])
def test_the_option_where_takes_any_predicate_over_columns(spark: SparkSession, table: Path, predicate: str) -> None:
    register(spark)
    ours = spark.read.format(FORMAT).option("where", predicate).load(str(table))
    assert _rows(ours) == _rows(spark.read.orc(str(table)).where(predicate))
    assert ours.count() == spark.read.orc(str(table)).where(predicate).count()


def test_a_predicate_that_is_not_exact_is_refused(spark: SparkSession, table: Path) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="option where"):
        spark.read.format(FORMAT).option("where", "id = 5 AND arr[0] = 5").load(str(table)).collect()


def test_only_the_columns_of_the_given_schema_are_read(spark: SparkSession, table: Path) -> None:
    register(spark)
    ours = spark.read.format(FORMAT).schema("k INT, missing STRING, id BIGINT").load(str(table))
    assert [tuple(row) for row in ours.where("id = 1077").collect()] == [(77, None, 1077)]


def test_a_path_without_files_is_named(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="matches no file"):
        spark.read.format(FORMAT).load(str(tmp_path / "nothing")).collect()


def test_spark_still_answers_with_an_earlier_querys_filters(pushing: SparkSession, table: Path) -> None:
    """Why `push_filters` is off: the day this fails, Spark has mended it and the option can go."""
    frame = pushing.read.format(FORMAT).option("push_filters", "true").load(str(table))
    assert frame.where("id = 5").count() == 1
    assert frame.where("id = 7 OR name = 'n9'").count() == 0
    assert frame.count() == 1
