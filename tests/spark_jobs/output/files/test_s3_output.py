"""Outputs on a real S3 server with Hadoop's S3A, whose renames are copies: kills, conflicts and later reads.

`make nightly` adds S3A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest
from interrupted_files import KilledError, KilledHadoopFiles, open_attempt
from pyspark.sql import SparkSession
from s3_server import ObjectStore, require_s3a

from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.errors import BadSpecError, OutputConflictError
from pushdown_spark.output.files.file_output import FileOutput, open_output
from pushdown_spark.output.source_protection import ReadPath
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles

pytestmark = pytest.mark.nightly
OLD = {1: [10], 2: [20], 3: [30]}
NEW = {2: [21], 3: [31], 4: [41]}
IMPATIENT = 0.5


class HalfMovedFiles(HadoopFiles):
    """The files of a process that is killed during this rename of output or rows, after the first object."""

    def __init__(self, spark: SparkSession, store: ObjectStore, bucket: str, number: int, *, deletes: bool) -> None:
        super().__init__(spark)
        self._store = store
        self._bucket = bucket
        self._left = number
        self._deletes = deletes

    def rename(self, source: str, target: str) -> None:
        self._refuse_when_killed()
        is_move = "aside-" in target or ("staging-" in source and "/.out" not in target)
        self._left -= is_move
        if self._left > 0 or not is_move:
            super().rename(source, target)
            return
        first = min(entry.path for entry in self.files(source))
        old, new = (path.removeprefix(f"s3a://{self._bucket}/") for path in (first, first.replace(source, target)))
        self._store.client().copy_object(Bucket=self._bucket, Key=new, CopySource={"Bucket": self._bucket, "Key": old})
        if self._deletes:
            super().delete(first)
        raise KilledError

    def delete(self, path: str) -> None:
        self._refuse_when_killed()
        super().delete(path)

    def write_text(self, path: str, text: str) -> None:
        self._refuse_when_killed()
        super().write_text(path, text)

    def _refuse_when_killed(self) -> None:
        if self._left <= 0:
            raise KilledError


@pytest.fixture
def bucket(spark: SparkSession, store: ObjectStore) -> Iterator[str]:
    require_s3a(spark)
    name = store.bucket()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    keys = store.hadoop_keys(name)
    for key, value in keys.items():
        hadoop.set(key, value)
    yield name
    for key in keys:
        hadoop.unset(key)


@pytest.fixture
def output(spark: SparkSession, bucket: str) -> Callable[..., FileOutput]:
    def of(number: int, mode: OutputMode, run: str, files: HadoopFiles | None = None) -> FileOutput:
        return open_attempt(spark, f"s3a://{bucket}/out {number}", mode, run, files=files, patience=IMPATIENT)

    return of


@pytest.mark.parametrize(
    "source", ["s3a://{bucket}/*/events", "s3://{bucket}/raw/events", "s3a://{bucket}/raw/*", "s3a://{bucket}/r[a]w/"]
)
def test_s3a_overwrite_is_rejected_if_it_would_delete_a_source(
    spark: SparkSession, store: ObjectStore, bucket: str, source: str
) -> None:
    store.client().put_object(Bucket=bucket, Key="raw/events/a.json", Body=b"{}")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    try:
        output = OutputSpec(path=f"s3a://{bucket}/raw", mode=OutputMode.OVERWRITE)
        sources = [ReadPath(source.format(bucket=bucket))]
        with pytest.raises(BadSpecError, match="would delete the source"):
            open_output(spark, output, "run", sources=sources).prepare()
    finally:
        hadoop.unset("fs.s3.impl")


def write(spark: SparkSession, output: FileOutput, rows: dict[int, list[int]]) -> None:
    data = [(value, day) for day, values in rows.items() for value in values]
    if output.prepare():
        with output.transaction():
            output.stage(spark.createDataFrame(data, "id int, day int").coalesce(1))


def read_output(spark: SparkSession, bucket: str, number: int) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {}
    for row in spark.read.schema("id int, day int").json(f"s3a://{bucket}/out {number}").collect():
        rows.setdefault(row["day"], []).append(row["id"])
    return {day: sorted(ids) for day, ids in sorted(rows.items())}


def hidden_keys(store: ObjectStore, bucket: str) -> list[str]:
    objects = store.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    return [entry["Key"] for entry in objects if "/." in f"/{entry['Key']}"]


def expected(mode: OutputMode) -> dict[int, list[int]]:
    if mode is OutputMode.OVERWRITE:
        return NEW
    if mode is OutputMode.OVERWRITE_PARTITIONS:
        return {**OLD, **NEW}
    return {1: [10], 2: [20, 21], 3: [30, 31], 4: [41]}


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND])
def test_kill_at_any_operation_on_s3a_is_repaired(
    spark: SparkSession, store: ObjectStore, bucket: str, output: Callable[..., FileOutput], mode: OutputMode
) -> None:
    """The retry leaves the output of one run. Another run finds the old or the new output."""
    for number in count(1):
        write(spark, output(number, OutputMode.OVERWRITE, "before"), OLD)
        files = KilledHadoopFiles(spark, number)
        with suppress(KilledError):
            write(spark, output(number, mode, "run", files), NEW)
        if not files.is_reached:
            break
        if number % 2:
            other = output(number, OutputMode.OVERWRITE_PARTITIONS, "other")
            assert other.prepare()
            assert read_output(spark, bucket, number) in (OLD, expected(mode)), f"killed before operation {number}"
            other.abort()
        write(spark, output(number, mode, "run"), NEW)
        assert read_output(spark, bucket, number) == expected(mode), f"killed before operation {number}"
        assert hidden_keys(store, bucket) == []
    assert number > 10


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("number", range(1, 5))
def test_partial_rename_on_s3a_is_undone(
    spark: SparkSession,
    store: ObjectStore,
    bucket: str,
    output: Callable[..., FileOutput],
    number: int,
    deletes: bool,
) -> None:
    """The objects of both sides of a rename are in one directory again."""
    setup = output(number, OutputMode.OVERWRITE, "before")
    assert setup.prepare()
    with setup.transaction():
        setup.stage(spark.createDataFrame([(20, 2), (22, 2), (30, 3)], "id int, day int").repartition(3, "id"))
    files = HalfMovedFiles(spark, store, bucket, number, deletes=deletes)
    with pytest.raises(KilledError):
        write(spark, output(number, OutputMode.OVERWRITE_PARTITIONS, "run", files), NEW)
    other = output(number, OutputMode.APPEND, "other")
    assert other.prepare()
    other.abort()
    assert read_output(spark, bucket, number) == {2: [20, 22], 3: [30]}


def test_one_of_two_runs_on_s3a_raises_conflict(
    spark: SparkSession, bucket: str, output: Callable[..., FileOutput]
) -> None:
    for number in range(10):
        outputs = [output(number, OutputMode.OVERWRITE_PARTITIONS, f"run {writer}") for writer in (1, 2)]
        for writer, each in enumerate(outputs, start=1):
            assert each.prepare()
            each.stage(spark.createDataFrame([(writer, 1), (writer, 2)], "id int, day int"))

        def commit(each: FileOutput) -> bool:
            try:
                with each.transaction():
                    pass
            except OutputConflictError:
                return False
            return True

        with ThreadPoolExecutor(2) as threads:
            results = list(threads.map(commit, outputs))
        assert sorted(results) == [False, True]
        winner = results.index(True) + 1
        assert read_output(spark, bucket, number) == {1: [winner], 2: [winner]}
