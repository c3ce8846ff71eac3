"""Settings and layouts with which Spark returns other values or another column order for the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pyorc
import pytest
from pyspark.sql import DataFrame, SparkSession
from session_settings import session_settings

from pushdown_spark.errors import BadSpecError
from pushdown_spark.session import PushdownSession

READERS = ("pushdown", "spark")


def columns_and_rows(frame: DataFrame) -> tuple[list[str], list[str]]:
    """Return columns and types in order, and rows in any order."""
    return [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema], sorted(
        map(str, frame.collect())
    )


def search(spark: SparkSession, path: Path, where: str) -> DataFrame:
    session = PushdownSession(spark)
    session.add_source("data", path=str(path), format="orc", reader="pushdown")
    return session.scan("data", where=where).df


@pytest.mark.parametrize("policy", ["LEGACY", "CORRECTED", "EXCEPTION"])
@pytest.mark.parametrize("form", ["orc", "json", "csv"])
def test_modification_times_equal_those_of_spark_with_every_time_parser_policy(
    spark: SparkSession, tmp_path: Path, policy: str, form: str
) -> None:
    table = tmp_path / "table"
    spark.range(6).write.format(form).save(str(table))
    for file in table.iterdir():
        os.utime(file, (1_577_872_800.987, 1_577_872_800.987))
    with session_settings(spark, {"spark.sql.legacy.timeParserPolicy": policy}):
        session = PushdownSession(spark)
        for reader in READERS:
            session.add_source("data", path=str(table), format=form, schema="id bigint", reader=reader)
            where = "id > 2 AND modified < TIMESTAMP'2020-01-01 10:00:01'"
            actual = session.scan("data", columns=("id", "modified"), where=where).df
            expected = spark.read.schema("id bigint").format(form).load(str(table))
            expected = expected.selectExpr("id", "_metadata.file_modification_time AS modified").where("id > 2")
            assert columns_and_rows(actual) == columns_and_rows(expected)
            assert actual.count() == 3


@pytest.mark.parametrize(
    ("key", "value"), [("spark.sql.readSideCharPadding", "false"), ("spark.sql.legacy.charVarcharAsString", "true")]
)
@pytest.mark.parametrize("where", ["n >= 0", "c = 'a' AND n < 9", "length(c) = 1 AND n >= 0", "length(st.c) = 1"])
def test_char_columns_are_padded_where_spark_pads_them(
    spark: SparkSession, tmp_path: Path, key: str, value: str, where: str
) -> None:
    file = tmp_path / "a.orc"
    with file.open("wb") as target, pyorc.Writer(target, "struct<c:char(5),n:int,st:struct<c:char(3)>>") as writer:
        for number, text in enumerate(("a", "abc", None)):
            writer.write((text, number, (text,)))
    with session_settings(spark, {key: value}):
        assert columns_and_rows(search(spark, file, where)) == columns_and_rows(spark.read.orc(str(file)).where(where))
    assert columns_and_rows(search(spark, file, where)) == columns_and_rows(spark.read.orc(str(file)).where(where))


@pytest.mark.parametrize("inner", ["p", "P"])
@pytest.mark.parametrize("form", ["orc", "parquet", "json", "csv"])
def test_columns_that_are_also_partition_columns_keep_their_position(
    spark: SparkSession, tmp_path: Path, inner: str, form: str
) -> None:
    options = {"header": "true"} if form == "csv" else {}
    for value in (1, 2):
        rows = spark.range(3).selectExpr("id", f"5 AS {inner}", "CAST(id AS STRING) AS s")
        rows.coalesce(1).write.format(form).options(**options).save(str(tmp_path / f"p={value}"))
    expected = spark.read.format(form).options(**options).load(str(tmp_path)).where("id > 0 AND p > 1")
    for reader in READERS:
        session = PushdownSession(spark)
        session.add_source("data", path=str(tmp_path), format=form, options=options, reader=reader)
        assert columns_and_rows(session.scan("data", where="id > 0 AND p > 1").df) == columns_and_rows(expected), reader
        assert columns_and_rows(session.sql("SELECT * FROM data WHERE id > 0 AND p > 1").df) == columns_and_rows(
            expected
        ), reader


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s FROM data WHERE s = 'needle'",
        "SELECT one.s FROM data one JOIN data other ON one.s = other.s WHERE one.s = 'needle'",
    ],
)
def test_csv_columns_that_are_also_partition_columns_use_spark(spark: SparkSession, tmp_path: Path, query: str) -> None:
    rows = spark.createDataFrame([(1, 5, "needle"), (2, 5, "hay")], "id int, p int, s string")
    rows.coalesce(1).write.option("header", "true").csv(str(tmp_path / "p=1"))
    session = PushdownSession(spark)
    options = {"header": "true"}
    session.add_source("data", path=str(tmp_path), format="csv", options=options, reader="pushdown")
    assert [row.s for row in session.sql(query).run(lambda frame: frame.collect())] == ["needle"]


@pytest.mark.parametrize("kind", ["decimal(5,0)", "decimal(20,0)"])
def test_decimal_partition_columns_equal_those_of_spark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for value in (1, 7):
        spark.range(2).coalesce(1).write.orc(str(tmp_path / f"k={value}"))
    schema = f"id bigint, k {kind}"
    expected = spark.read.schema(schema).orc(str(tmp_path)).where("id > 0")
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path), format="orc", schema=schema, reader="pushdown")
    assert columns_and_rows(session.scan("data", where="id > 0").df) == columns_and_rows(expected)


def test_missing_columns_raise_if_they_cannot_be_determined(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "5 AS p").write.option("header", "true").csv(str(tmp_path / "p=1"))
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path), format="csv", options={"header": "true"}, on_missing_column="error")
    with pytest.raises(BadSpecError, match="column p, which is a partition column as well"):
        session.scan("data", where="id > 0").report()


def test_scans_of_few_columns_have_fewer_tasks(spark: SparkSession, tmp_path: Path) -> None:
    columns = [f"hash(id, {number}) AS c{number}" for number in range(20)]
    spark.range(2_000).selectExpr("id", *columns).coalesce(1).write.orc(str(tmp_path / "table"))
    expected = spark.read.orc(str(tmp_path / "table")).where("id >= 1000")
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path / "table"), format="orc", reader="pushdown")
    small = {"spark.sql.files.maxPartitionBytes": "4096", "spark.sql.files.openCostInBytes": "1"}
    with session_settings(spark, small):
        whole = session.scan("data", where="id >= 1000").df
        few = session.scan("data", columns=("id", "c7"), where="id >= 1000").df
        assert 2 < few.rdd.getNumPartitions() < whole.rdd.getNumPartitions()
        assert columns_and_rows(whole) == columns_and_rows(expected)
        assert columns_and_rows(few) == columns_and_rows(expected.select("id", "c7"))
