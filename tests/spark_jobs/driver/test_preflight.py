"""Executors without the driver's versions are detected before any data is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pushdown_spark.contract import SourceSpec
from pushdown_spark.driver.preflight import Versions, check_executors, differences, local_versions, needs_python

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pushdown_spark.errors import ExecutorMismatchError
from pushdown_spark.driver.preflight import start_version_check

builder = SparkSession.builder.master("local-cluster[1,1,512]").config("spark.executor.memory", "512m")
builder = builder.config("spark.executor.cores", sys.argv[1]).config("spark.log.level", "OFF")
context = builder.config("spark.ui.enabled", "false").getOrCreate().sparkContext
try:
    start_version_check(context, float(sys.argv[2]))()
    print("accepted")
except ExecutorMismatchError as problem:
    print(problem)
context.stop()
"""


def on_a_cluster(project: Path, work: Path, python: str, executor_cores: int = 1, seconds: float = 600) -> str:
    """Return the output of the check on a cluster whose executors have another Python."""
    variables = {
        "PYTHONPATH": str(project / "spark_jobs"),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(work),
    }
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(executor_cores), str(seconds)],
        env={**os.environ, **variables, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout.strip()


@pytest.mark.nightly
def test_executors_with_the_same_environment_pass(project: Path, tmp_path: Path) -> None:
    assert on_a_cluster(project, tmp_path, sys.executable) == "accepted"


@pytest.mark.starts
def test_executors_without_libraries_raise(project: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    message = on_a_cluster(project, tmp_path, str(bare / "bin" / "python"))
    assert message.startswith("executors: ")
    assert "no pyarrow on " in message
    assert "no hyperscan on " in message
    assert "no pyspark" not in message, "the executor's own installation brings it"
    assert "pip install pushdown-spark[spark]" in message
    assert "archives" in message


@pytest.mark.nightly
def test_executors_without_python_raise(project: Path, tmp_path: Path) -> None:
    message = on_a_cluster(project, tmp_path, "/nowhere/bin/python")
    assert message.startswith("executors: no Python at the path of the driver")
    assert "/nowhere/bin/python" in message


@pytest.mark.nightly
def test_check_passes_without_executors(project: Path, tmp_path: Path) -> None:
    more_than_workers_have = 2
    assert on_a_cluster(project, tmp_path, sys.executable, more_than_workers_have, 3) == "accepted"


def test_differences_of_versions_name_the_host() -> None:
    driver = Versions("d", {"Python": "3.11.7", "pyspark": "4.3.0", "pyarrow": "26.0.1", "isal": None})
    same = Versions("e", {"Python": "3.11.2", "pyspark": "4.3.0", "pyarrow": "26.0.0", "isal": "1.7.0"})
    other = Versions("e", {"Python": "3.12.7", "pyspark": "4.3.1", "pyarrow": None, "isal": None})
    assert list(differences(driver, same)) == []
    assert list(differences(driver, other)) == [
        "Python 3.12.7 on e, 3.11.7 on the driver",
        "pyspark 4.3.1 on e, 4.3.0 on the driver",
        "no pyarrow on e, 26.0.1 on the driver",
    ]


def test_local_versions_have_all_required_libraries() -> None:
    actual = local_versions().versions
    assert None not in actual.values()
    assert {"Python", "pyspark", "pyarrow", "PyMySQL", "psycopg"} <= set(actual)
    assert json.dumps(dict(actual))


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ({"format": "json", "path": ["p"]}, True),
        ({"format": "orc", "path": ["p"], "reader": "pushdown"}, True),
        ({"format": "csv", "path": ["p"], "reader": "spark"}, False),
        ({"format": "parquet", "path": ["p"]}, True),
        ({"format": "text", "path": ["p"]}, False),
    ],
)
def test_only_pushdown_readers_need_python_on_executors(source: dict[str, object], needed: bool) -> None:
    assert needs_python(SourceSpec.model_validate(source)) is needed


def test_local_session_passes(spark: object) -> None:
    context = spark.sparkContext  # type: ignore[attr-defined]
    jobs = context.statusTracker().getJobIdsForGroup(None)
    check_executors(context)
    assert context.statusTracker().getJobIdsForGroup(None) == jobs
