"""Cold sessions: estimates include the start of Python workers, which runs while the driver plans."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from databases import wait_until
from pyspark.sql import SparkSession
from session_settings import searched_by

from pushdown_spark.contract import SourceFormat
from pushdown_spark.formats.worker_startup import warm_up_workers
from pushdown_spark.session import PushdownSession

SCHEMA = "id BIGINT, text STRING"
LINES = 2_000_000
"""Lines of 50 bytes. Starting workers for 100 MB pays in a warm session, but not in a cold one."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "lines.csv"
    with path.open("wb") as out:
        for start in range(0, LINES, 1000):
            out.write(b"".join(b"%d,%s\n" % (number, b"x" * 42) for number in range(start, start + 1000)))
    return path


def session(spark: SparkSession, file: Path, reader: str, *, has_just_started: bool) -> PushdownSession:
    opened = PushdownSession(spark, has_just_started=has_just_started)
    opened.add_source("t", path=str(file), format="csv", schema=SCHEMA, reader=reader)
    return opened


@pytest.mark.parametrize(("has_just_started", "reader"), [(False, "pushdown"), (True, "spark")])
def test_the_cost_in_a_cold_session_includes_the_start_of_workers(
    spark: SparkSession, file: Path, has_just_started: bool, reader: str
) -> None:
    with searched_by("workers"):
        report = (
            session(spark, file, "auto", has_just_started=has_just_started).scan("t", where="id = 77777").report()["t"]
        )
    assert report.reader == reader
    assert ("session that has just started" in report.reason) is has_just_started


def test_lines_are_searched_inside_the_jvm_until_workers_have_started(spark: SparkSession, file: Path) -> None:
    report = session(spark, file, "auto", has_just_started=True).scan("t", where="id = 77777").report()["t"]
    assert (report.reader, report.carrier) == ("pushdown", "jvm")


@pytest.mark.parametrize("compressed", [False, True])
def test_spark_takes_small_files_without_a_sample(spark: SparkSession, tmp_path: Path, compressed: bool) -> None:
    lines = b"".join(b"%d,some text\n" % number for number in range(1000))
    small = tmp_path / ("lines.csv.gz" if compressed else "lines.csv")
    small.write_bytes(gzip.compress(lines) if compressed else lines)
    report = session(spark, small, "auto", has_just_started=False).scan("t", where="id = 777").report()["t"]
    assert report.reader == "spark"
    assert ("even if no line matches" in report.reason) is not compressed
    assert ("sample of" in report.reason) is compressed


def test_warm_up_runs_one_job_in_the_background(spark: SparkSession) -> None:
    jobs = spark.sparkContext.statusTracker()
    before = set(jobs.getJobIdsForGroup(None))

    def new_job_states() -> list[str]:
        job_infos = [jobs.getJobInfo(number) for number in set(jobs.getJobIdsForGroup(None)) - before]
        return [job.status for job in job_infos if job is not None]

    warm_up_workers(spark, [SourceFormat.CSV, SourceFormat.ORC, SourceFormat.REMOTE])
    assert wait_until(lambda: new_job_states() == ["SUCCEEDED"])


def test_planning_starts_no_job(spark: SparkSession, file: Path) -> None:
    jobs = spark.sparkContext.statusTracker()
    before = jobs.getJobIdsForGroup(None)
    result = session(spark, file, "pushdown", has_just_started=True).scan("t", where="id = 77777", columns=["id"])
    assert jobs.getJobIdsForGroup(None) == before
    assert result.run(lambda frame: frame.collect()) == [(77777,)]


@pytest.mark.parametrize(
    "module",
    [
        "scan.task_counts",
        "formats.text.line_filter",
        "formats.orc.file_reader",
        "formats.avro.file_reader",
        "runtime.worker",
    ],
)
def test_workers_load_no_more_than_reading_takes(module: str) -> None:
    code = f"import sys, pushdown_spark.{module}; print({{'pydantic', 'sqlglot', 'pandas'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
