"""The schema that the driver reads from a footer equals Spark's and needs no job."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceSpec
from pushdown_spark.errors import PushdownError, SchemaConflictError, UnreadableFileError
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import FileLoader

ALL_KINDS = """
    SELECT 1Y AS a, 2S AS b, 3 AS c, 4L AS d, 5.5F AS e, 6.5D AS f, true AS g, 'text' AS h, X'00ff' AS i, 1.25BD AS j,
        CAST(1 AS DECIMAL(30, 4)) AS k, DATE '1500-01-01' AS l, TIMESTAMP '1800-01-01 00:00:00' AS m,
        TIMESTAMP_NTZ '2024-01-01 00:00:00' AS n, array(1, null) AS o,
        map('k', named_struct('x', 1, 'Y', array('z'))) AS p,
        INTERVAL '3' MONTH AS q, INTERVAL '4' DAY AS r, CAST('c' AS CHAR(3)) AS t, 1 AS `odd name, "x"`
"""


@pytest.fixture
def count_jobs(spark: SparkSession) -> Iterator[CountedJobs]:
    jobs = CountedJobs(spark)
    yield jobs
    spark.sparkContext._jsc.clearJobGroup()


class CountedJobs:
    """The number of jobs of this thread and its child threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"opening {id(self)}"
        self._context.setJobGroup(self._group, "opening")

    @property
    def number(self) -> int:
        return len(self._context.statusTracker().getJobIdsForGroup(self._group))


def session_over(spark: SparkSession, path: Path | str, options: dict[str, str] | None = None) -> PushdownSession:
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="parquet", reader="spark", options=options or {})
    return session


def same_schema(spark: SparkSession, path: Path | str) -> None:
    ours = session_over(spark, path).scan("t").df
    assert ours.schema.json() == spark.read.parquet(str(path)).schema.json()
    rows, expected = (
        sorted(row[0] for row in frame.selectExpr("CAST(struct(*) AS STRING)").collect())
        for frame in (ours, spark.read.parquet(str(path)))
    )
    assert rows == expected


@pytest.mark.parametrize("files", [1, 3])
def test_the_schema_of_files_by_spark_is_read_without_a_job(
    spark: SparkSession, tmp_path: Path, count_jobs: CountedJobs, files: int
) -> None:
    for _ in range(files):
        spark.sql(ALL_KINDS).coalesce(1).write.mode("append").parquet(str(tmp_path / "t"))
    before = count_jobs.number
    session_over(spark, tmp_path / "t").scan("t").df.schema  # noqa: B018 - it is opened
    assert count_jobs.number == before
    same_schema(spark, tmp_path / "t")
    same_schema(spark, next((tmp_path / "t").glob("*.parquet")))


def test_the_schema_of_files_by_other_writers_is_read_without_a_job(
    spark: SparkSession, tmp_path: Path, count_jobs: CountedJobs
) -> None:
    rows = {
        "small": pa.array([1, None], pa.int8()),
        "unsigned": pa.array([1, 2], pa.uint32()),
        "text": pa.array(["x", None], pa.large_string()),
        "raw": pa.array([b"x", None]),
        "nested": pa.array([[{"a": 1, "b": [Decimal("1.5")]}], None]),
        "at": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us")),
    }
    file = tmp_path / "plain.parquet"
    pq.write_table(pa.table(rows), file)
    before = count_jobs.number
    session_over(spark, file).scan("t").df.schema  # noqa: B018 - it is opened
    assert count_jobs.number == before
    same_schema(spark, file)
    old = tmp_path / "old.parquet"
    pq.write_table(pa.table({"at": rows["local"], "n": rows["small"]}), old, use_deprecated_int96_timestamps=True)
    same_schema(spark, old)


@pytest.mark.parametrize("setting", ["binaryAsString", "int96AsTimestamp", "inferTimestampNTZ.enabled"])
def test_the_schema_follows_settings_that_change_types(spark: SparkSession, tmp_path: Path, setting: str) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"raw": [b"x"], "local": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))}), file)
    key = f"spark.sql.parquet.{setting}"
    default = str(spark.conf.get(key))
    spark.conf.set(key, "true" if default == "false" else "false")
    try:
        same_schema(spark, file)
    finally:
        spark.conf.unset(key)


def test_special_directories_have_sparks_schema(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id AS n", "id % 2 AS k").write.partitionBy("k").parquet(str(tmp_path / "parts"))
    same_schema(spark, tmp_path / "parts")
    same_schema(spark, tmp_path / "parts" / "k=1")
    same_schema(spark, f"{tmp_path}/parts/k=*")
    directory = tmp_path / "hidden"
    directory.mkdir()
    pq.write_table(pa.table({"n": [1]}), directory / "b.parquet")
    pq.write_table(pa.table({"other": ["x"]}), directory / "_a.parquet")
    pq.write_table(pa.table({"other": ["x"]}), directory / ".a.parquet")
    same_schema(spark, directory)
    odd = tmp_path / "odd %41 name"
    odd.mkdir()
    pq.write_table(pa.table({"n": [1]}), odd / "a.parquet")
    shutil.copy(odd / "a.parquet", odd / "no suffix")
    same_schema(spark, odd)


def test_the_option_merge_schema_returns_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    for name, rows in (("a", {"x": [1]}), ("b", {"x": [2], "y": ["more"]})):
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    ours = session_over(spark, tmp_path, {"mergeSchema": "true"}).scan("t").df
    assert ours.columns == ["x", "y"]


def test_a_file_that_is_not_parquet_raises_an_error_that_names_the_source(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(UnreadableFileError, match=r"bad\.parquet"):
        session_over(spark, tmp_path / "bad.parquet").scan("t").df.collect()
    with pytest.raises(PushdownError, match="gone"):
        session_over(spark, tmp_path / "gone.parquet").scan("t").df.collect()


def test_sources_are_opened_concurrently_and_the_error_names_the_first_invalid_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = PushdownSession(spark)
    for name in ("one", "two", "three", "four", "five"):
        pq.write_table(pa.table({"k": [1, 2], name: ["x", "y"]}), tmp_path / f"{name}.parquet")
        session.add_source(name, path=str(tmp_path / f"{name}.parquet"), format="parquet", reader="spark")
    actual = session.sql("SELECT count(*) AS n FROM one JOIN two USING (k) JOIN three USING (k) JOIN four USING (k)").df
    assert actual.collect()[0].n == 2
    for name in ("three", "four"):
        (tmp_path / f"{name}.parquet").unlink()
    with pytest.raises(PushdownError, match="source 'three'"):
        session.sql("SELECT 1 FROM one, two, three, four, five").df.collect()


@pytest.mark.parametrize("reader", ["spark", "auto", "pushdown"])
def test_a_file_with_two_columns_of_one_name_fails_before_the_run(
    spark: SparkSession, tmp_path: Path, reader: str
) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [3], "A": [4]}), tmp_path / "2.parquet")
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format="parquet", reader=reader)
    with pytest.raises(SchemaConflictError, match=r"2\.parquet has a and A, whose names differ only in case"):
        session.scan("t", where="a >= 2")


def test_the_footer_of_the_table_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).repartition(2).write.parquet(str(tmp_path / "t"))
    loader = FileLoader(spark, Source.of("t", SourceSpec(format="parquet", path=(str(tmp_path / "t"),))))
    schema = loader.load().frame.schema
    first, second = sorted((tmp_path / "t").glob("*.parquet"))
    shutil.rmtree(tmp_path / "t")
    assert loader.infer_schema([f"file:{first}"]) == schema
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        loader.infer_schema([f"file:{second}"])
