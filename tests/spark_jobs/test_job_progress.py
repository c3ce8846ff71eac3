"""The progress that a running job prints for its task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pushdown_spark.contract import JobResult
from pushdown_spark.contract.progress import Progress, progress_of_line

ROOT = Path(__file__).resolve().parents[2]
SECRET = "literal-of-the-predicate"
ROWS = f'{{"id": 1, "t": "{SECRET}"}}\n{{"id": 2, "t": "y"}}\n'
WORKER = """
import os, sys, time

def wait(event, arguments):
    if event == "open" and str(arguments[0]).endswith("waits.json"):
        while not os.path.exists(os.environ["GO"]):
            time.sleep(0.02)

if any(argument.endswith("pyspark.daemon") for argument in sys.orig_argv):
    os.register_at_fork(after_in_child=lambda: sys.addaudithook(wait))
"""
"""A module that every Python imports at its start. A worker that opens one of the files waits for a signal."""
DRIVER = """
import sys
from pushdown_spark import job
from pushdown_spark.driver import progress_thread
progress_thread.INTERVAL_SECONDS = 0.1
sys.exit(job.main())
"""


def source(*files: Path) -> dict[str, object]:
    return {
        "format": "json",
        "path": [str(file) for file in files],
        "schema": "id int, t string",
        "reader": "pushdown",
    }


@pytest.mark.starts
def test_a_running_job_prints_what_its_finished_tasks_have_done(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json", "waits.json", "z.json")]
    for file in files:
        file.write_text(ROWS)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WORKER)
    (tmp_path / "driver.py").write_text(DRIVER)
    scan = {"columns": ["id", "filename"], "where": f"t = '{SECRET}'"}
    spec = {
        "run_key": "dag/task/run/-1",
        "sources": {"first": source(files[0]), "second": source(*files)},
        "scans": {"first": scan, "second": scan},
        "conf": {"spark.master": "local[1]", "spark.ui.enabled": "false"},
        "result_path": str(tmp_path / "result.json"),
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    path = os.pathsep.join(map(str, (tmp_path / "site", ROOT, ROOT / "spark_jobs")))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "GO": str(tmp_path / "go")}
    environment.pop("SPARK_HOME", None)
    waiting = list[Progress]()
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "driver.py"), "--spec", str(tmp_path / "spec.json")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            assert SECRET not in line
            progress = progress_of_line(line) or Progress()
            # Spark counts the tasks a moment later than we count their files.
            if progress.scan == "second" and progress.files_done == progress.tasks_done == 2:
                waiting.append(progress)
                (tmp_path / "go").touch()
    assert waiting[0].model_copy(update={"seconds_left": None}) == Progress(
        files_done=2,
        files_total=4,
        bytes_done=2 * len(ROWS),
        bytes_total=4 * len(ROWS),
        rows_found=2,
        tasks_done=2,
        tasks_total=4,
        scan="second",
        scan_number=2,
        scans_total=2,
    )
    assert waiting[0].seconds_left is not None
    result = JobResult.model_validate_json((tmp_path / "result.json").read_text())
    assert (job.returncode, result.error, result.rows) == (0, None, 5)
