"""A session keeps relations of local files until the files, their declaration or a setting change."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.contract import SourceFormat
from pushdown_spark.relations.open import RelationCache, file_versions
from pushdown_spark.runtime.spark_internals import hadoop_configuration
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.declaration import Source

FORMATS = ("csv", "json", "orc", "parquet")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Path:
    for name in FORMATS:
        writer = spark.range(4).selectExpr("id AS k", "'x' AS s").write.option("header", "true")
        writer.format(name).save(str(tmp_path / name))
    return tmp_path


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def source(path: str, name: str, schema: str | None = None) -> Source:
    return Source(name="t", format=SourceFormat(name), paths=(path,), schema=schema, options={"header": "true"})


@pytest.mark.parametrize("name", FORMATS)
def test_relations_of_unchanged_files_are_kept_from_the_second_opening_on(
    spark: SparkSession, table: Path, name: str
) -> None:
    cache = RelationCache(spark)
    declaration = source(str(table / name), name)
    assert cache.open(declaration) is not cache.open(declaration)
    assert cache.open(declaration) is cache.open(declaration)
    assert cache.open_all([declaration])["t"] is cache.open(declaration)


def test_another_setting_or_schema_opens_the_files_again(spark: SparkSession, table: Path, zone: None) -> None:
    cache = RelationCache(spark)
    path = str(table / "orc")
    first = [cache.open(source(path, "orc")) for _ in range(2)][1]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    second = cache.open(source(path, "orc"))
    third = cache.open(source(path, "orc", "k bigint"))
    assert len({id(first), id(second), id(third)}) == 3
    assert third.schema.fieldNames() == ["k"]


def test_settings_with_one_hash_are_different(spark: SparkSession, tmp_path: Path) -> None:
    """Java's strings `Aa` and `BB` have the same hash."""
    (tmp_path / "t.json").write_text('{"k": 1}\n{\n')
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="json")
    for name in ("Aa", "Aa", "BB"):
        with session_settings(spark, {"spark.sql.columnNameOfCorruptRecord": name}):
            assert session.scan("t").df.columns == [name, "k"]


def test_another_setting_of_hadoop_opens_the_files_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"k": 1}\n{"other": 1}\n')
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="json")
    hadoop, key = hadoop_configuration(spark), "mapreduce.input.linerecordreader.line.maxlength"
    for _ in range(2):
        assert session.scan("t").df.columns == ["k", "other"]
    hadoop.set(key, "10")
    try:
        assert session.scan("t").df.columns == ["k"]
    finally:
        hadoop.unset(key)


@pytest.mark.parametrize("path", ["{}/*.orc", "s3a://bucket/key", "{}/missing"])
def test_paths_that_are_no_local_files_have_no_versions(table: Path, path: str) -> None:
    assert file_versions([path.format(table / "orc")]) is None


@pytest.mark.parametrize("name", FORMATS)
def test_rows_and_columns_follow_the_files(spark: SparkSession, table: Path, name: str) -> None:
    path = table / name
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format=name, options={"header": "true"})

    def rows() -> list[tuple[object, ...]]:
        return sorted(tuple(map(str, row)) for row in session.scan("t").df.collect())

    def write(columns: str, mode: str) -> None:
        spark.range(10, 12).selectExpr(*columns.split(";")).write.format(name).option("header", "true").mode(mode).save(
            str(path)
        )

    assert len(rows()) == 4
    write("id AS k;'x' AS s", "append")
    assert len(rows()) == len(rows()) == 6
    write("id AS k;'y' AS s;id + 1 AS z", "overwrite")
    assert rows() == [("10", "y", "11"), ("11", "y", "12")]
    file = next(file for file in path.iterdir() if file.name.startswith("part-"))
    file.rename(file.with_name("moved-" + file.name))
    assert len(rows()) == 2
    for left in path.iterdir():
        if left.name.startswith("moved-"):
            left.unlink()
    assert len(rows()) < 2


@pytest.mark.parametrize("later", [0, 1])
def test_a_file_of_the_same_size_is_read_again(spark: SparkSession, tmp_path: Path, later: int) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"k": 1}\n')
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="json")
    for _ in range(3):
        assert session.scan("t").df.columns == ["k"]
    status = path.stat()
    path.write_text('{"m": 1}\n')
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + later))
    assert session.scan("t").df.columns == ["m"]
