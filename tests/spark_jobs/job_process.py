"""Jobs in processes of their own, as a user runs them in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pushdown_spark.contract import JobResult

ROOT = Path(__file__).resolve().parents[2]
LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""Settings of small jobs."""
CHECKOUT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'spark_jobs'}"}
"""The variable with which a process imports the packages of this checkout."""


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a process that has the Python of the tests, and not their packages."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    return {**variables, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **more}


def save_spec(spec: Mapping[str, object], directory: Path) -> str:
    """Write a spec into a directory. Return the path of the file."""
    path = directory / "spec.json"
    path.write_text(json.dumps(spec))
    return str(path)


def command(name: str, spec: Mapping[str, object], directory: Path) -> list[str]:
    """Return a command of the command line, with a spec that is saved in a directory."""
    return [sys.executable, "-m", "pushdown_spark", name, "--spec", save_spec(spec, directory)]


def run_command(name: str, spec: Mapping[str, object], directory: Path) -> subprocess.CompletedProcess[str]:
    call = command(name, spec, directory)
    return subprocess.run(call, env=environment(**CHECKOUT), cwd=directory, capture_output=True, text=True)


def result_of(spec: Mapping[str, object]) -> JobResult:
    return JobResult.model_validate_json(Path(str(spec["result_path"])).read_text())
