"""The environments of a new user: their Pythons, their variables, and what they print."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from demo.java import java_home
from e2e import ROOT
from e2e.processes import E2eError

_DROPPED_PREFIXES = ("AIRFLOW", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
_READ_ROWS = """
import json, sys
from pyarrow import dataset
rows = dataset.dataset(sys.argv[1], format=sys.argv[2]).to_table().to_pylist()
print(json.dumps(rows, default=str))
"""


@dataclass(frozen=True)
class Environments:
    """The Pythons of the two environments, and the variables of the shell that the documentation sets up."""

    airflow: Path
    spark: Path
    shell: dict[str, str]


def clean_variables() -> dict[str, str]:
    """Return this process's environment without Airflow, Spark and Python packages, with Java for Spark."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    return {**environment, "JAVA_HOME": str(java_home(ROOT / ".venv-spark")), "SPARK_LOCAL_IP": "127.0.0.1"}


def output_of(python: Path, *arguments: str, **own: str) -> str:
    """Return what a Python prints. Raises `E2eError` if it fails."""
    command = [str(python), *arguments]
    run = subprocess.run(  # noqa: S603
        command, env={**clean_variables(), **own}, cwd="/", capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise E2eError(f"{command} failed: {run.stdout[-2_000:]}{run.stderr[-2_000:]}")
    return run.stdout


def rows(spark_python: Path, path: Path, file_format: str = "parquet") -> list[dict[str, object]]:
    """Return the rows of an output, sorted by their text."""
    return sorted(json.loads(output_of(spark_python, "-c", _READ_ROWS, str(path), file_format)), key=str)
