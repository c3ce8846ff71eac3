"""Partition columns come from directory names and are never read from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import Exactness, ReaderChoice
from pushdown_spark.runtime.spark_internals import AVRO_CLASS, spark_format
from pushdown_spark.session import PushdownSession

PARTS = """
    SELECT id AS a, concat('text ', id % 5) AS b, CAST(id % 3 AS INT) AS k,
        date_add(DATE'2026-01-30', CAST(id % 4 AS INT)) AS day,
        CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN 'it\\'s' WHEN 2 THEN 'a b/%' ELSE 'null' END AS s
    FROM range(60)
"""
DECLARED = "a BIGINT, b STRING"
CONDITIONS = [
    "k = 1 AND a = 13",
    "K = 1",
    "day >= DATE'2026-02-01' AND b = 'text 2'",
    "day >= '2026-02-01' AND k <> 0",
    "s IS NULL AND b LIKE '%3'",
    "s = 'null' AND a > 5",
    "s <=> 'it\\'s' AND a > 5",
    "k = 2 OR a = 7",
    "a = k",
    "a > 3 AND NOT (s LIKE 'a%' OR k = 0)",
    "year(day) = 2026 AND k + 1 = 2 AND a < 30",
    "k = 9 AND a = 1",
    "filename LIKE 'part%' AND a = 4 AND k = 1",
    "a = 4 AND rand() < 2 AND k = 1",
]


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the same rows in directories of three columns, by format."""
    root = tmp_path_factory.mktemp("directories")
    for name, writer in (("json", "json"), ("orc", "orc"), ("csv", "csv"), ("avro", AVRO_CLASS)):
        rows = spark.sql(PARTS).coalesce(1)
        rows.write.partitionBy("k", "day", "s").format(writer).save(str(root / name))
    return {name: str(root / name) for name in ("json", "orc", "csv", "avro")}


def own_rows(spark: SparkSession, name: str, path: str, where: str, columns: Sequence[str]) -> list[str]:
    """Return the rows of Spark's own reader."""
    frame = spark.read.format(AVRO_CLASS if name == "avro" else name).schema(DECLARED).load(path)
    frame_with_names = frame.selectExpr("*", "_metadata.file_name AS filename")
    return sorted(str(tuple(row)) for row in frame_with_names.where(where).select(*columns).collect())


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("name", ["json", "orc", "csv", "avro"])
def test_partitioned_tables_return_sparks_rows(
    spark: SparkSession, places: dict[str, str], name: str, where: str
) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places[name], format=name, schema=DECLARED, reader="pushdown")
    for columns in (["a", "k", "day", "s"], ["b"], ["s", "a", "filename"]):
        result = session.scan("t", columns=columns, where=where)
        actual = result.run(lambda frame: sorted(str(tuple(row)) for row in frame.collect()))
        assert actual == own_rows(spark, name, places[name], where, columns)


@pytest.mark.parametrize("schema", [None, "a BIGINT, k INT"])
@pytest.mark.parametrize("name", ["json", "orc"])
def test_predicates_over_file_and_partition_columns_return_sparks_rows(
    spark: SparkSession, places: dict[str, str], name: str, schema: str | None
) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places[name], format=name, schema=schema, reader="pushdown")
    result = session.scan("t", columns=["a", "k"], where="k = 1 AND a = 13")
    assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [(13, 1)]
    assert result.report()["t"].reader == "pushdown"


def test_types_of_partition_columns_equal_those_of_spark(spark: SparkSession, places: dict[str, str]) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places["orc"], format="orc", reader="pushdown")
    assert session.scan("t", where="a = 3").df.schema == spark.read.orc(places["orc"]).schema


@pytest.mark.parametrize("name", ["json", "orc", "csv", "avro"])
def test_pruned_directories_are_skipped_and_reported(spark: SparkSession, places: dict[str, str], name: str) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places[name], format=name, schema=DECLARED, reader="pushdown")
    result = session.scan("t", columns=["a", "k"], where="k = 1 AND a = 13")
    assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [(13, 1)]
    report = result.report()["t"]
    assert (report.reader, report.files_total, report.files_read) == ("pushdown", 4, 4)
    first, second = report.conjuncts
    assert (first.sql, first.exactness, first.pushed_as) == ("k = 1", Exactness.EXACT, "partition pruning")
    assert second.sql == "a = 13"
    assert second.pushed_as


@pytest.mark.parametrize("name", ["json", "orc", "csv", "avro"])
def test_sparks_reader_reports_pruned_directories(spark: SparkSession, places: dict[str, str], name: str) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places[name], format=name, schema=DECLARED, reader="spark")
    result = session.scan("t", columns=["a", "k"], where="k = 1 AND a + k > 13")
    rows = result.run(lambda frame: sorted(tuple(row) for row in frame.collect()))
    report = result.report()["t"]
    first, second = report.conjuncts
    assert (first.exactness, first.pushed_as) == (Exactness.EXACT, "partition pruning")
    assert second.exactness is Exactness.UNSUPPORTED
    assert rows
    assert all(k == 1 and a + k > 13 for a, k in rows)


def test_partition_columns_have_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "typed")
    kinds = "a BIGINT, i SMALLINT, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, o BOOLEAN"
    rows = spark.sql(
        "SELECT id AS a, CAST(id % 2 AS SMALLINT) AS i, CAST(id % 3 + 0.25 AS DECIMAL(10,2)) AS d, id / 7D AS x, "
        "timestamp_seconds(id * 1000 + 0.5) AS t, id % 2 = 0 AS o FROM range(6)"
    )
    rows.write.partitionBy("i", "d", "x", "t", "o").json(path)
    session = PushdownSession(spark)
    session.add_source("t", path=path, format="json", schema=kinds, reader="pushdown")
    result = session.scan("t", where="a >= 2 AND d > 0.5")
    actual = result.run(lambda frame: sorted(map(tuple, frame.collect())))
    own = spark.read.schema(kinds).json(path).where("a >= 2 AND d > 0.5")
    assert actual == sorted(map(tuple, own.collect()))
    assert result.df.schema == own.schema
    assert result.report()["t"].reader == "pushdown"


def test_unsupported_types_of_partition_columns_use_spark(spark: SparkSession, places: dict[str, str]) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=places["json"], format="json", schema=f"{DECLARED}, k FLOAT", reader="pushdown")
    result = session.scan("t", where="a = 13")
    assert result.run(lambda frame: frame.count()) == 1
    assert result.report()["t"].reason == "a partition column is of type float"


def test_a_directory_column_can_have_an_alias(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "one.json").write_text('{"a": 1}\n')
    session = PushdownSession(spark)
    session.add_source("u", path=str(tmp_path), format="json", options={"recursiveFileLookup": "true"}, schema="a INT")
    for columns in (["dir0 AS d"], ["DIR0 as d"], ["dir0"]):
        result = session.scan("u", columns=columns)
        assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [("north",)]


@pytest.mark.parametrize("source_format", ["parquet", "orc", "json", "csv", "avro"])
def test_columns_that_files_have_with_another_type_take_their_values_from_directories(
    spark: SparkSession, tmp_path: Path, source_format: str
) -> None:
    options = {"header": "true", "inferSchema": "true"} if source_format == "csv" else {}
    rows = spark.range(3).selectExpr("id AS k", "concat('v', id) AS v", "named_struct('a', id, 'b', 'x') AS s")
    for value in ("1", "two words"):
        writer = (rows.drop("s") if source_format == "csv" else rows).repartition(1).write.options(**options)
        writer.format(spark_format(source_format)).save(str(tmp_path / f"k={value}"))
    columns = spark.read.format(spark_format(source_format)).options(**options).load(str(tmp_path)).columns
    # Spark prunes the members of structs and of `_metadata`, and then takes the type of the column from the files.
    queries = ["upper(k) AS k, _metadata.file_size FROM t", "CAST(_metadata.file_size AS STRING) AS z, k FROM t"]
    queries += [] if source_format == "csv" else ["upper(k) AS k, s.b FROM t WHERE v <> 'v0'"]
    for reader in ReaderChoice:
        session = PushdownSession(spark)
        session.add_source("t", path=str(tmp_path), format=source_format, reader=reader.value, options=options)
        assert session.sql("SELECT * FROM t").df.columns == columns
        for query in queries:
            result = session.sql(f"SELECT {query}")
            for actual in (result.df.collect(), result.run(DataFrame.collect)):
                assert {row.k.lower() for row in actual} == {"1", "two words"}
