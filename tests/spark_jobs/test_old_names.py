"""In a checkout, the import names of version 1 are the new modules, with one warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import spark_jobs.contract
from spark_jobs.remote_spec import RemoteConnection
from spark_jobs.readers.avro.data_source import PushdownAvroSource
from spark_jobs.readers.orc.data_source import PushdownOrcSource
from spark_jobs.report import render_text
from spark_jobs.session import PushdownSession

import pushdown_spark.contract, pushdown_spark.session
assert spark_jobs.contract is pushdown_spark.contract
assert PushdownSession is pushdown_spark.session.PushdownSession
"""


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-W", "always::DeprecationWarning:__main__"]
    start = f"import sys; sys.path.insert(0, {str(project)!r})\n"
    return subprocess.run([*command, "-c", start + arguments[0]], capture_output=True, text=True, check=False)


def test_old_imports_work_with_one_warning(project: Path) -> None:
    done = python(project, CODE)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("DeprecationWarning: spark_jobs is deprecated: import pushdown_spark") == 1


def test_the_old_command_works(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs", "--help"], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout


def test_a_missing_module_is_named(project: Path) -> None:
    assert "No module named 'pushdown_spark.nothing'" in python(project, "import spark_jobs.nothing").stderr
