"""The tests of catalog tables with a Hive metastore (embedded Derby). Spark has one catalog per process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory / 'metastore'};create=true",
        # Derby waits for the disk after each of its transactions otherwise.
        "spark.driver.extraJavaOptions": "-Dderby.system.durability=test",
    }
    options = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    paths = [str(ROOT), str(ROOT / "spark_jobs"), str(ROOT / "tests")]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={directory / 'tests'}",
            *arguments,
        ],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
@pytest.mark.parametrize("module", ["test_catalog_output.py", "test_catalog_faults.py", "../test_sources_survive.py"])
def test_the_tests_of_tables_pass_with_a_hive_metastore(tmp_path: Path, module: str) -> None:
    done = run(tmp_path, str(HERE / module))
    assert done.returncode == 0, done.stdout[-20_000:]
