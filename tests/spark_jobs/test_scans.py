"""Jobs with several scans: one Spark application, an outcome for each scan, and retries after a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pushdown_spark.contract import ErrorCode, JobResult, JobSpec
from pushdown_spark.contract.report_text import render_text

ROOT = Path(__file__).resolve().parents[2]
LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
SCHEMA = "id int, t string"
ROWS = '{"id": 1, "t": "x"}\n{"id": 2, "t": "y"}\n{"id": 3, "t": "y"}\n'


def source(path: Path) -> dict[str, object]:
    return {"format": "json", "path": [str(path)], "schema": SCHEMA}


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    """Return a job of four scans. The third one fails, because its files are missing."""
    for name in ("a", "b", "d"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "rows.json").write_text(ROWS)
    out = tmp_path / "out"
    return {
        "run_key": "dag/task/run/-1",
        "generation": "0 first",
        "sources": {name: source(tmp_path / "in" / name) for name in ("a", "b", "c", "d")},
        "scans": {
            "a": {"where": "t = 'y'", "output": {"path": str(out / "a"), "format": "json"}},
            "b": {"output": {"path": str(out / "b"), "format": "json", "mode": "append"}},
            "c": {"output": {"path": str(out / "c"), "format": "json"}},
            "d": {"columns": ["id"], "where": "id > 1", "limit": 1},
        },
        "conf": LOCAL,
        "result_path": str(tmp_path / "result.json"),
    }


def run(spec: dict[str, Any], tmp_path: Path) -> tuple[JobResult, str]:
    """Run a job. Return its result and the output of the process."""
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    environment = {**kept, "PYTHONPATH": f"{ROOT}:{ROOT / 'spark_jobs'}", "PYSPARK_PYTHON": sys.executable}
    call = [sys.executable, "-m", "pushdown_spark", "run", "--spec", str(path)]
    done = subprocess.run(call, env=environment, cwd=tmp_path, capture_output=True, text=True)
    result = JobResult.model_validate_json(Path(spec["result_path"]).read_text())
    assert done.returncode == (0 if result.error is None else 1), done.stderr
    return result, done.stdout + done.stderr


def rows(output: Path) -> list[int]:
    lines = [line for part in output.glob("part-*") for line in part.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def hidden_names(directory: Path) -> Iterator[str]:
    return (path.name for path in directory.rglob(".*.pushdown"))


def test_a_retry_after_a_failed_scan_leaves_what_one_run_leaves(tmp_path: Path, job: dict[str, Any]) -> None:
    out = tmp_path / "out"
    first, log = run(job, tmp_path)
    assert first.error is not None
    assert (first.error.code, first.error.retryable) == (ErrorCode.MISSING_PATH, True)
    assert first.error.message.startswith("1 of 4 scans failed: c: ")
    assert first.error.message.endswith(". Completed: a, b, d")
    assert log.count("airflow_pushdown: application ") == 1, "the scans share one application"
    assert {name: scan.rows for name, scan in first.scans.items()} == {"a": 2, "b": 3, "c": None, "d": 1}
    assert first.rows == 6
    assert (rows(out / "a"), rows(out / "b")) == ([2, 3], [1, 2, 3])
    files = sorted(path.name for path in (out / "a").iterdir())

    # Files that arrive between two tries must not change what the first one has committed.
    (tmp_path / "in" / "a" / "more.json").write_text('{"id": 9, "t": "y"}\n')
    (tmp_path / "in" / "c").mkdir()
    (tmp_path / "in" / "c" / "rows.json").write_text(ROWS)
    second, _ = run(job, tmp_path)
    assert second.error is None
    assert {name: scan.rows for name, scan in second.scans.items()} == {"a": 2, "b": 3, "c": 3, "d": 1}
    summary = second.scans["a"].output_summary
    assert summary is not None
    assert (summary.is_from_earlier_try, summary.files, summary.columns) == (True, 1, {"id": "int", "t": "string"})
    assert sorted(path.name for path in (out / "a").iterdir()) == files
    assert (rows(out / "a"), rows(out / "b"), rows(out / "c")) == ([2, 3], [1, 2, 3], [1, 2, 3])
    assert list(hidden_names(tmp_path)) == [], "a job that succeeds leaves no record"
    assert "a: 2 rows written to " in render_text(second)
    assert JobResult.from_xcom(second.as_xcom()) == second
    assert second.of_scan("a").sources == {}, "nothing was read again"
    assert second.of_scan("c").output == str(out / "c")


def output(path: str, mode: str = "overwrite") -> dict[str, object]:
    return {"output": {"path": path, "mode": mode}}


@pytest.mark.parametrize(
    ("scans", "problem"),
    [
        ({"a": output("/out/x"), "b": output("/out/x/")}, "'a' and 'b' write to one output"),
        ({"a": output("/out/x"), "b": output("file:///out/x/y")}, "'a' and 'b' write to one output"),
        ({"a": output("/in/b/c"), "b": output("/out/b")}, "'b' reads /in/b, where 'a' writes"),
        ({"a": output("/out/a"), "return_value": output("/out/b")}, "cannot be the name of a scan"),
        ({"a": output("/out/a"), "x y": output("/out/b")}, "cannot be the name of a scan"),
    ],
)
def test_scans_that_depend_on_each_other_are_rejected(scans: dict[str, object], problem: str) -> None:
    sources = {name: source(Path("/in") / name) for name in scans}
    with pytest.raises(ValidationError, match=problem):
        JobSpec.model_validate({"run_key": "k", "sources": sources, "scans": scans})


def test_scans_may_append_to_one_directory(tmp_path: Path) -> None:
    scans = {name: output("/out/x", "append") for name in ("a", "b")}
    sources = {name: source(tmp_path / name) for name in scans}
    job = JobSpec.model_validate({"run_key": "k", "sources": sources, "scans": scans})
    assert [job.job_of(name).run_key for name in scans] == ["k/a", "k/b"]


@pytest.mark.parametrize("parts", [{}, {"query": {"source": "a"}, "scans": {"a": {}}}])
def test_a_job_has_either_a_query_or_scans(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="give either `query` or `scans`"):
        JobSpec.model_validate({"run_key": "k", "sources": {"a": source(Path("/in"))}, **parts})
