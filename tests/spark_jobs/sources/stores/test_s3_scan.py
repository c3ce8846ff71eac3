"""Scans of objects return the rows and implicit columns of Spark's own reader, and expose no credentials."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from s3_server import ROOT, ObjectStore, require_s3a, session_proxy

from pushdown_spark.contract import SourceReport
from pushdown_spark.errors import PushdownError
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.session import PushdownSession

SCHEMA = "id bigint, name string, at struct<place:string>"
IMPLICIT = ["filename", "filepath", "fqn", "suffix", "dir0", "dir1"]
NEEDLE = "at.place = 'needle'"
SECRETS = (ROOT.access_key, ROOT.secret_key, ROOT.token)


def _lines(seed: int, rows: int) -> bytes:
    places = ("hay", "straw", "needle") if seed % 2 else ("hay", "straw", "grass")
    data = ({"id": seed + n, "name": f"n{n}", "at": {"place": places[n * 7 % 3]}} for n in range(rows))
    return b"".join(json.dumps(row).encode() + b"\n" for row in data)


def _parquet(rows: int) -> bytes:
    content = BytesIO()
    pq.write_table(pa.table({"id": range(rows), "name": [f"n{n}" for n in range(rows)]}), content, row_group_size=1000)
    return content.getvalue()


FILES = {
    "plain.json": _lines(1, 300),
    "no needle.json": _lines(2, 300),
    "a b+c%20ü#.json": _lines(3, 50),
    "2026/01/zipped.json.gz": gzip.compress(_lines(5, 3000)),
    "2026/02/big": _lines(7, 40_000),
    "2026/02/empty.json": b"",
}
HIDDEN_FILES = {"_tables/a b#%20.parquet": _parquet(5000), "_tables/t.parquet": _parquet(3000)}
"""Files that scans of the directory above do not see."""


@dataclass
class Bucket:
    """A bucket of the server that Spark can list and read too."""

    store: ObjectStore
    name: str
    mounted: bool

    def path(self, below: str = "") -> str:
        return f"s3a://{self.name}/data/{below}".rstrip("/")

    def delete(self, file: str) -> None:
        self.store.delete(self.name, f"data/{file}")


@pytest.fixture(params=["mounted", pytest.param("s3a", marks=pytest.mark.nightly)])
def bucket(request: pytest.FixtureRequest, spark: SparkSession, store: ObjectStore, tmp_path: Path) -> Iterator[Bucket]:
    """Store the files as objects. Hadoop reads them with S3A, or from a mount of the same files on this disk.

    The mount lets Spark list and read `s3a:` paths without the classes of S3A and Amazon's library. Python workers read
    from the server in both cases.
    """
    if request.param == "s3a":
        require_s3a(spark)
    name = store.bucket()
    for file, content in {**FILES, **HIDDEN_FILES}.items():
        store.put(name, f"data/{file}", content)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    keys = store.hadoop_keys(name)
    for key, value in keys.items():
        hadoop.set(key, value)
    if request.param == "mounted":
        _mount(spark, name, tmp_path)
    yield Bucket(store, name, request.param == "mounted")
    for key in keys:
        hadoop.unset(key)


def _mount(spark: SparkSession, bucket: str, folder: Path) -> None:
    """Mount a directory as a bucket.

    Hadoop keeps an opened file system after the setting that selected it is removed.
    """
    for file, content in {**FILES, **HIDDEN_FILES}.items():
        path = folder / "data" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{bucket}.link./data", (folder / "data").as_uri())
    hadoop.set("fs.s3a.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    try:
        assert HadoopFiles(spark).exists(f"s3a://{bucket}/data")
    finally:
        hadoop.set("fs.s3a.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
        hadoop.unset(f"fs.viewfs.mounttable.{bucket}.link./data")


def _scan(
    spark: SparkSession, path: str | list[str], *, reader: str, columns: list[str] | None = None, **how: object
) -> PushdownResult:
    session = PushdownSession(spark)
    session.add_source(
        "events",
        path=path,
        format="json",
        schema=SCHEMA,
        options={"recursiveFileLookup": "true"},
        reader=reader,
    )
    return session.scan("events", columns=columns, **({"where": NEEDLE} | how))  # type: ignore[arg-type]


def _ran(result: PushdownResult) -> tuple[Counter[Row], SourceReport]:
    rows = result.run(DataFrame.collect)
    return Counter(rows), result.report()["events"]


def _no_secret_in(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


def test_rows_and_implicit_columns_of_objects_equal_those_of_spark(spark: SparkSession, bucket: Bucket) -> None:
    columns = ["id", "name", *IMPLICIT]
    expected, _ = _ran(_scan(spark, bucket.path(), reader="spark", columns=columns))
    rows, report = _ran(_scan(spark, bucket.path(), reader="pushdown", columns=columns))
    assert report.reader == "pushdown", report.reason
    assert rows == expected
    assert len({row.fqn for row in rows}) == 4
    assert {row.filepath for row in rows} >= {bucket.path(), bucket.path("2026/01")}
    assert {(row.dir0, row.dir1) for row in rows} == {(None, None), ("2026", "01"), ("2026", "02")}
    stored_size = sum(map(len, FILES.values()))
    assert (report.files_total, report.bytes_total, report.bytes_read) == (len(FILES), stored_size, stored_size)


def test_parquet_objects_have_the_rows_of_sparks_reader(spark: SparkSession, bucket: Bucket) -> None:
    path, where = bucket.path("_tables"), "id IN (7, 2999, 4321)"
    expected = Counter(spark.read.parquet(str(path)).where(where).collect())
    session = PushdownSession(spark)
    session.add_source("t", path=path, format="parquet", reader="pushdown")
    result = session.scan("t", where=where)
    rows = Counter(result.run(DataFrame.collect))
    report = result.report()["t"]
    assert (report.reader, rows, rows.total()) == ("pushdown", expected, 5)
    assert report.units["row groups"]["pruned by statistics"] == 3
    assert _no_secret_in(report.model_dump_json())


@pytest.mark.parametrize("pattern", ["*.json", "2026/*/*", "2026/{01,02}/[bz]*"])
def test_globs_match_the_same_objects_as_spark(spark: SparkSession, bucket: Bucket, pattern: str) -> None:
    expected, spark_report = _ran(_scan(spark, bucket.path(pattern), reader="spark"))
    rows, report = _ran(_scan(spark, bucket.path(pattern), reader="pushdown"))
    assert (report.reader, rows) == ("pushdown", expected)
    assert (report.files_total, report.bytes_total) == (spark_report.files_total, spark_report.bytes_total)
    assert rows


def test_one_source_can_have_local_files_and_objects(spark: SparkSession, bucket: Bucket, tmp_path: Path) -> None:
    local = tmp_path / "mine.json"
    local.write_bytes(_lines(9, 30))
    paths = [bucket.path("plain.json"), str(local)]
    expected, _ = _ran(_scan(spark, paths, reader="spark"))
    rows, report = _ran(_scan(spark, paths, reader="pushdown"))
    assert (report.reader, rows) == ("pushdown", expected)
    assert len(rows) == 110


def test_ten_thousand_objects_are_listed_and_one_partition_is_read(spark: SparkSession, bucket: Bucket) -> None:
    """The listing has ten pages. Only the objects of one partition are read."""
    if bucket.mounted:
        pytest.skip("Hadoop lists a mount without asking the store")

    client = bucket.store.client()

    def put(number: int) -> None:
        content = b'{"id": %d, "name": "n", "at": {"place": "needle"}}\n' % number
        client.put_object(Bucket=bucket.name, Key=f"many/p={number % 10}/{number}.json", Body=content)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(10_000)))
    session = PushdownSession(spark)
    path, where = f"s3a://{bucket.name}/many", f"p = 3 AND {NEEDLE}"
    session.add_source("events", path=path, format="json", schema=f"{SCHEMA}, p int", reader="pushdown")
    rows, report = _ran(session.scan("events", columns=["id", "p"], where=where))
    assert report.reader == "pushdown", report.reason
    assert rows == Counter(Row(id=number, p=3) for number in range(3, 10_000, 10))


def test_a_limit_reads_only_a_few_objects(spark: SparkSession, bucket: Bucket) -> None:
    result = _scan(spark, bucket.path(), reader="pushdown", limit=3)
    rows, report = _ran(result)
    assert (report.reader, rows.total()) == ("pushdown", 3)
    assert report.files_read is not None
    assert report.files_read < len(FILES) - 1


def test_credentials_are_not_in_plans_reports_or_logs(spark: SparkSession, bucket: Bucket) -> None:
    result = _scan(spark, bucket.path(), reader="pushdown", columns=["id", "fqn"])
    _, report = _ran(result)
    plan = result.df._jdf.queryExecution().toString()
    conf = str(spark.sparkContext.getConf().getAll())
    assert report.reader == "pushdown"
    assert "mapInArrow" in plan or "ExistingRDD" in plan
    assert all(map(_no_secret_in, (plan, conf, result.explain(), report.model_dump_json(), repr(result.df))))


def test_an_object_that_vanishes_before_the_read_raises_one_line(spark: SparkSession, bucket: Bucket) -> None:
    result = _scan(spark, bucket.path(), reader="pushdown")
    bucket.delete("2026/02/big")
    with pytest.raises(Exception, match="vanished") as failure:
        _ran(result)
    error = classify(failure.value)
    assert (error.code.value, error.retryable) == ("missing_path", True)
    assert error.message == f"{bucket.path('2026/02/big')} vanished before it was read; run the task again"
    assert _no_secret_in(f"{error.model_dump_json()} {failure.value}")


def test_denied_access_raises_sparks_error(spark: SparkSession, bucket: Bucket) -> None:
    """The sample fails first, so Spark's reader takes the scan. S3A is denied as well, a mount is not."""
    path = bucket.path("plain.json")
    with bucket.store.asking_who():
        if not bucket.mounted:
            with pytest.raises(PushdownError, match=f"^path of source 'events': access denied: {path}: ") as failure:
                _scan(spark, path, reader="pushdown")
            error = classify(failure.value)
            assert (error.code.value, error.retryable) == ("bad_spec", False)
            assert _no_secret_in(f"{error.model_dump_json()} {failure.value}")
            return
        report = _scan(spark, path, reader="pushdown").report()["events"]
    assert report.reader == "spark"
    assert "access denied" in report.reason
    assert _no_secret_in(report.model_dump_json())


def test_a_session_token_that_expires_after_planning_is_a_final_error(spark: SparkSession, bucket: Bucket) -> None:
    """Spark's reader takes the scan. It can only succeed if it has other credentials, as for a mount."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    with session_proxy(bucket.store) as proxy:
        hadoop.set(f"fs.s3a.bucket.{bucket.name}.endpoint", f"http://{proxy.host}")
        expected, _ = _ran(_scan(spark, bucket.path(), reader="spark"))
        result = _scan(spark, bucket.path(), reader="pushdown")
        proxy.is_expired = True
        if bucket.mounted:
            rows, report = _ran(result)
            assert (report.reader, rows) == ("spark", expected)
            assert "the credentials may have expired" in report.reason
            return
        with pytest.raises(Exception, match="Bad Request") as failure:
            _ran(result)
    error = classify(failure.value)
    assert (error.code.value, error.retryable) == ("bad_spec", False)
    assert error.message.startswith("access denied, the credentials may have expired: ")
    assert "s3a://" in error.message
    assert _no_secret_in(f"{error.model_dump_json()} {failure.value}")


def test_the_report_names_a_setting_that_only_hadoop_supports(spark: SparkSession, bucket: Bucket) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    key = f"fs.s3a.bucket.{bucket.name}.requester.pays.enabled"
    hadoop.set(key, "true")
    try:
        rows, report = _ran(_scan(spark, bucket.path("plain.json"), reader="pushdown"))
    finally:
        hadoop.unset(key)
    assert report.carrier == "jvm"
    assert report.reason.endswith(
        f"s3a://{bucket.name}: fs.s3a.requester.pays.enabled is set, and only Hadoop supports it"
    )
    assert rows.total() == 100
