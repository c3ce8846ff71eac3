"""Scans of files in HDFS return the rows of Spark's own reader, over WebHDFS in workers and without it in the JVM."""

from __future__ import annotations

import getpass
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hdfs_server import http_address, run_server
from pyspark.sql import SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.stores.hdfs_settings import HdfsSettings, check_same_file
from pushdown_spark.sources.stores.object_store import Bucket, ObjectFile
from pushdown_spark.sources.stores.storage import storage_for

pytestmark = pytest.mark.nightly

SCHEMA = "id bigint, name string, at struct<place:string>"
FLAT = "id bigint, name string, day date"
ROWS = 5_000
HTTP_ADDRESS = "dfs.namenode.http-address"
COLUMNS = ["id", "filename", "filepath", "fqn", "suffix", "size", "modified", "dir0"]


@pytest.fixture(scope="module")
def hdfs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a directory of HDFS with files of every format."""
    directory = tmp_path_factory.mktemp("hdfs")
    with run_server(directory) as root:
        _write(spark, f"{root}/data", tmp_path_factory.mktemp("local"))
        with session_settings(spark, {HTTP_ADDRESS: http_address(directory)}):
            yield f"{root}/data"


@pytest.fixture
def no_web(spark: SparkSession, hdfs: str) -> Iterator[str]:
    """Return the directory, while Hadoop's settings say that there is no WebHDFS."""
    with session_settings(spark, {"dfs.webhdfs.enabled": "false"}):
        yield hdfs


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
@pytest.mark.parametrize(("folder", "carrier"), [("json/2024", "workers"), ("json/2024", "jvm"), ("deflate", "jvm")])
def test_json_lines_are_searched(
    request: pytest.FixtureRequest, spark: SparkSession, folder: str, where: str, carrier: str
) -> None:
    path = f"{_home(request, carrier)}/{folder}"
    with pushdown_off(spark):
        result = _session(spark, path, "json", SCHEMA, "pushdown").scan("data", where=where)
        assert result.run(sorted_rows) == sorted_rows(spark.read.schema(SCHEMA).json(path).where(where))
    report = result.report()["data"]
    assert (report.reader, report.carrier) == ("pushdown", carrier), report.reason
    assert report.bytes_read


@pytest.mark.parametrize("carrier", ["workers", "jvm"])
@pytest.mark.parametrize("where", ["name = 'name 42'", "k = 1 AND id = 4711", "day = DATE'2024-02-03' AND k < 2"])
def test_csv_files_with_headers_in_partitions_are_searched(
    request: pytest.FixtureRequest, spark: SparkSession, where: str, carrier: str
) -> None:
    path, schema = f"{_home(request, carrier)}/csv", f"{FLAT}, k int"
    with pushdown_off(spark):
        result = _session(spark, path, "csv", schema, "pushdown").scan("data", where=where)
        spark_frame = spark.read.schema(schema).option("header", "true").csv(path)
        assert result.run(sorted_rows) == sorted_rows(spark_frame.where(where))
    assert result.report()["data"].carrier == carrier, result.report()["data"].reason


@pytest.mark.parametrize("carrier", ["workers", "jvm"])
def test_file_columns_equal_those_of_sparks_reader(
    request: pytest.FixtureRequest, spark: SparkSession, carrier: str
) -> None:
    actual = {}
    for reader in ("pushdown", "spark"):
        session = PushdownSession(spark)
        path, options = f"{_home(request, carrier)}/json", {"recursiveFileLookup": "true"}
        session.add_source("data", path=path, format="json", schema=SCHEMA, options=options, reader=reader)
        result = session.scan("data", columns=COLUMNS, where="at.place = 'needle'")
        actual[reader] = result.run(sorted_rows)
        assert result.report()["data"].reader == reader
    assert actual["pushdown"] == actual["spark"]
    assert any("a b+c%20ü#.json" in row for row in actual["spark"])


@pytest.mark.parametrize("where", ["id = 4711", "name = 'name 42' AND id > 100", "day >= DATE'2024-02-28'", None])
@pytest.mark.parametrize("source_format", ["orc", "avro"])
def test_orc_and_avro_are_read_over_http(spark: SparkSession, hdfs: str, source_format: str, where: str | None) -> None:
    path = f"{hdfs}/{source_format}"
    with pushdown_off(spark):
        result = _session(spark, path, source_format, None, "pushdown").scan("data", where=where)
        spark_frame = spark.read.format(spark_format(source_format)).load(path)
        assert result.run(sorted_rows) == sorted_rows(spark_frame.where(where or "true"))
    report = result.report()["data"]
    assert report.reader == "pushdown", report.reason
    assert report.bytes_read


@pytest.mark.parametrize(
    ("source_format", "settings", "reason"),
    [
        ("orc", {"dfs.webhdfs.enabled": "false"}, "dfs.webhdfs.enabled is false"),
        ("avro", {HTTP_ADDRESS: "localhost:1"}, "localhost:1 does not serve it"),
        ("parquet", {}, "DataFusion does not read HDFS"),
    ],
)
def test_sparks_reader_reads_what_python_cannot(
    spark: SparkSession, hdfs: str, source_format: str, settings: dict[str, str], reason: str
) -> None:
    with session_settings(spark, settings):
        session = _session(spark, f"{hdfs}/{source_format}", source_format, None, "pushdown")
        result = session.scan("data", where="id = 4711")
        assert [row.id for row in result.run(lambda frame: frame.collect())] == [4711]
    report = result.report()["data"]
    assert report.reader == "spark"
    assert reason in report.reason


def test_files_of_another_hdfs_are_not_read(spark: SparkSession, hdfs: str) -> None:
    settings = _settings(spark)
    check_same_file(settings, "/data/json/2024/zipped.json.gz", {"length": _length(settings)})
    with pytest.raises(UnsupportedError, match="has another version of /data"):
        check_same_file(settings, "/data/json/2024/zipped.json.gz", {"length": _length(settings) + 1})


def test_a_file_that_is_overwritten_while_it_is_read_is_an_error(spark: SparkSession, hdfs: str) -> None:
    path = f"{hdfs}/changing.txt"
    HadoopFiles(spark).write_text(path, "first")
    storage = storage_for(spark, [path], {})
    with pytest.raises(OSError, match="was overwritten while it was read"), storage.open(path) as file:  # noqa: PT012
        assert file.read() == b"first"
        HadoopFiles(spark).write_text(path, "other")


def test_missing_and_forbidden_files_have_typed_errors(spark: SparkSession, hdfs: str) -> None:
    missing = Bucket("hdfs", _settings(spark))
    with pytest.raises(FileNotFoundError):
        missing.open("data/missing")
    path = f"{hdfs}/forbidden.txt"
    HadoopFiles(spark).write_text(path, "secret")
    java_path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
    permission = spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission("600")
    java_path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).setPermission(java_path, permission)
    stranger = Bucket("hdfs", replace(_settings(spark), user="stranger"))
    with pytest.raises(PermissionError, match="AccessControlException"):
        ObjectFile.open(stranger, "data/forbidden.txt", start=0, stop=None, ahead=0).read()


def test_the_active_name_node_answers(spark: SparkSession, hdfs: str) -> None:
    (address,) = _settings(spark).name_nodes
    client = HdfsSettings(("localhost:1", address), "anybody").connect()
    for _ in range(2):
        assert client.open_input_file("/data/json/2024/zipped.json.gz").size() > 0


def _home(request: pytest.FixtureRequest, carrier: str) -> str:
    """Return the directory in HDFS, with WebHDFS for workers and without it for the JVM."""
    return str(request.getfixturevalue("hdfs" if carrier == "workers" else "no_web"))


def _settings(spark: SparkSession) -> HdfsSettings:
    return HdfsSettings((spark.conf.get(HTTP_ADDRESS),), getpass.getuser())


def _length(settings: HdfsSettings) -> int:
    return settings.connect().open_input_file("/data/json/2024/zipped.json.gz").size()


def test_a_limit_stops_the_scan(spark: SparkSession, hdfs: str) -> None:
    result = _session(spark, f"{hdfs}/deflate", "json", SCHEMA, "pushdown").scan(
        "data", where="name LIKE 'name%'", limit=3
    )
    assert len(result.run(sorted_rows)) == 3


def test_the_files_are_on_the_servers_of_hdfs(spark: SparkSession, hdfs: str) -> None:
    assert HadoopFiles(spark).exists(f"{hdfs}/orc")
