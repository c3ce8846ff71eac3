"""The demo's environment file: a shell that sources it finds Airflow, Spark, Java and the data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.environment import AIRFLOW_ENVIRONMENT, DEMO, ROOT, SPARK_ENVIRONMENT


@pytest.fixture
def shell_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a shell that sourced the file, with another SPARK_HOME set before."""
    script = subprocess.run(
        [sys.executable, "-m", "demo.environment"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    file = tmp_path / "env.sh"
    file.write_text(script)
    code = f"import json, os; open({str(tmp_path / 'out')!r}, 'w').write(json.dumps(dict(os.environ)))"
    subprocess.run(
        ["/bin/sh", "-c", '. "$1"; exec "$2" -c "$3"', "sh", str(file), sys.executable, code],
        env={"PATH": os.environ["PATH"], "SPARK_HOME": "/a/foreign/spark"},
        check=True,
    )
    return dict(json.loads((tmp_path / "out").read_text()))


def test_airflow_finds_its_home_its_dags_and_spark(shell_environment: dict[str, str]) -> None:
    assert shell_environment["AIRFLOW_HOME"] == str(DEMO / "airflow")
    assert shell_environment["AIRFLOW__CORE__DAGS_FOLDER"] == str(ROOT / "dags")
    assert json.loads(shell_environment["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"
    assert shell_environment["PYSPARK_PYTHON"] == str(SPARK_ENVIRONMENT / "bin" / "python")


def test_both_environments_precede_the_existing_path(shell_environment: dict[str, str]) -> None:
    own = [str(AIRFLOW_ENVIRONMENT / "bin"), str(SPARK_ENVIRONMENT / "bin")]
    assert shell_environment["PATH"].split(os.pathsep) == [*own, *os.environ["PATH"].split(os.pathsep)]


def test_java_home_has_a_java_that_starts(shell_environment: dict[str, str]) -> None:
    java = Path(shell_environment["JAVA_HOME"]) / "bin" / "java"
    assert subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 0


def test_spark_home_is_unset(shell_environment: dict[str, str]) -> None:
    assert "SPARK_HOME" not in shell_environment
