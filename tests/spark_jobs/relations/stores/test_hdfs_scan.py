"""Scans of files in HDFS return the rows of Spark's own reader. Lines of JSON and CSV are searched inside the JVM."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_server import run_server
from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_rows import sorted_rows

from pushdown_spark.formats.avro.spark_source import spark_format
from pushdown_spark.runtime.filesystem import HadoopFiles
from pushdown_spark.session import PushdownSession

pytestmark = pytest.mark.nightly

SCHEMA = "id bigint, name string, at struct<place:string>"
FLAT = "id bigint, name string, day date"
ROWS = 5_000
COLUMNS = ["id", "filename", "filepath", "fqn", "suffix", "size", "modified", "dir0"]


@pytest.fixture(scope="module")
def hdfs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a directory of HDFS with files of every format."""
    with run_server(tmp_path_factory.mktemp("hdfs")) as root:
        _write(spark, f"{root}/data", tmp_path_factory.mktemp("local"))
        yield f"{root}/data"


def _write(spark: SparkSession, home: str, local: Path) -> None:
    frame = spark.range(ROWS).selectExpr(
        "id",
        "concat('name ', id % 97) AS name",
        "date_add(DATE'2024-01-01', CAST(id % 60 AS INT)) AS day",
        "id % 3 AS k",
    )
    for name in ("orc", "avro", "parquet"):
        frame.write.format(spark_format(name)).save(f"{home}/{name}")
    frame.repartition(2).write.partitionBy("k").option("header", "true").csv(f"{home}/csv")
    lines = [
        {"id": n, "name": f"name {n % 97}", "at": {"place": "needle" if n % 500 == 7 else "hay"}} for n in range(ROWS)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (local / "zipped.json.gz").write_bytes(gzip.compress(text))
    (local / "a b+c%20ü#.json").write_bytes(text[:5_000].rpartition(b"\n")[0])
    for file in local.iterdir():
        java = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
        target = java(f"{home}/json/2024/{file.name}")
        target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).copyFromLocalFile(java(str(file)), target)
    spark.read.schema(SCHEMA).json(f"{home}/json/2024").write.option("compression", "deflate").json(f"{home}/deflate")


def _session(spark: SparkSession, path: str, source_format: str, schema: str | None, reader: str) -> PushdownSession:
    session = PushdownSession(spark)
    options = {"header": "true"} if source_format == "csv" else {}
    session.add_source("data", path=path, format=source_format, schema=schema, options=options, reader=reader)
    return session


@pytest.mark.parametrize("where", ["at.place = 'needle'", "name = 'name 42' AND id > 100", "id IN (11, 4711)"])
@pytest.mark.parametrize("folder", ["json/2024", "deflate"])
def test_json_lines_are_searched_inside_the_jvm(spark: SparkSession, hdfs: str, folder: str, where: str) -> None:
    path = f"{hdfs}/{folder}"
    with pushdown_off(spark):
        result = _session(spark, path, "json", SCHEMA, "pushdown").scan("data", where=where)
        assert result.run(sorted_rows) == sorted_rows(spark.read.schema(SCHEMA).json(path).where(where))
    report = result.report()["data"]
    assert (report.reader, report.carrier) == ("pushdown", "jvm"), report.reason
    assert "HDFS" in report.reason
    assert report.bytes_read


@pytest.mark.parametrize("where", ["name = 'name 42'", "k = 1 AND id = 4711", "day = DATE'2024-02-03' AND k < 2"])
def test_csv_files_with_headers_in_partitions_are_searched(spark: SparkSession, hdfs: str, where: str) -> None:
    path, schema = f"{hdfs}/csv", f"{FLAT}, k int"
    with pushdown_off(spark):
        result = _session(spark, path, "csv", schema, "pushdown").scan("data", where=where)
        native = spark.read.schema(schema).option("header", "true").csv(path)
        assert result.run(sorted_rows) == sorted_rows(native.where(where))
    assert result.report()["data"].carrier == "jvm", result.report()["data"].reason


def test_file_columns_equal_those_of_sparks_reader(spark: SparkSession, hdfs: str) -> None:
    found = {}
    for reader in ("pushdown", "spark"):
        session = PushdownSession(spark)
        options = {"recursiveFileLookup": "true"}
        session.add_source("data", path=f"{hdfs}/json", format="json", schema=SCHEMA, options=options, reader=reader)
        result = session.scan("data", columns=COLUMNS, where="at.place = 'needle'")
        found[reader] = result.run(sorted_rows)
        assert result.report()["data"].reader == reader
    assert found["pushdown"] == found["spark"]
    assert any("a b+c%20ü#.json" in row for row in found["spark"])


@pytest.mark.parametrize("source_format", ["orc", "avro", "parquet"])
def test_other_formats_use_sparks_reader(spark: SparkSession, hdfs: str, source_format: str) -> None:
    result = _session(spark, f"{hdfs}/{source_format}", source_format, None, "pushdown").scan("data", where="id = 4711")
    assert [row.id for row in result.run(lambda frame: frame.collect())] == [4711]
    report = result.report()["data"]
    assert report.reader == "spark"
    assert "HDFS" in report.reason


def test_a_limit_stops_the_scan(spark: SparkSession, hdfs: str) -> None:
    result = _session(spark, f"{hdfs}/deflate", "json", SCHEMA, "pushdown").scan(
        "data", where="name LIKE 'name%'", limit=3
    )
    assert len(result.run(sorted_rows)) == 3


def test_the_files_are_on_the_servers_of_hdfs(spark: SparkSession, hdfs: str) -> None:
    assert HadoopFiles(spark).exists(f"{hdfs}/orc")
