"""Both wheels, in two environments without the checkout, run a DAG with a real spark-submit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from environments import environment, libraries_of, with_spark

pytestmark = pytest.mark.e2e

DAG = """
import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators.scan import PushdownScanOperator

with DAG("wheels", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None):
    PushdownScanOperator(
        task_id="scan", path={path!r}, format="json", schema="id bigint, kind string", columns=["id"],
        where="kind = 'needle'", output={output!r}, reader="pushdown",
    )
"""


def build_wheel(source: Path, target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(source)]
    subprocess.run(command, check=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def sources(project: Path, target: Path) -> Path:
    """Return a copy of the sources of the wheels, because builds write files into them."""
    for name in ("airflow_pushdown", "spark_jobs"):
        shutil.copytree(project / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(project / name, target)
    return target


def test_both_wheels_run_a_dag_without_the_checkout(project: Path, spark_python: str, tmp_path: Path) -> None:
    code = sources(project, tmp_path / "sources")
    spark_wheel = build_wheel(code / "spark_jobs", tmp_path / "spark-wheel")
    airflow_wheel = build_wheel(code, tmp_path / "airflow-wheel")
    shutil.rmtree(code)
    for wheel in (spark_wheel, airflow_wheel):
        licenses = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name}
        assert licenses == {"LICENSE", "NOTICE"}, wheel
    spark = environment(tmp_path / "spark", spark_wheel, libraries=libraries_of(spark_python))
    with_spark(spark, spark_python)
    airflow = environment(tmp_path / "airflow", spark_wheel, airflow_wheel, libraries=libraries_of(sys.executable))
    for python, package, place in ((airflow, "airflow_pushdown", "airflow"), (spark, "pushdown_spark", "spark")):
        where = f"import {package}; print({package}.__file__)"
        isolated = [python, "-I", "-c", where]
        actual = subprocess.run(isolated, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert actual.startswith(str(tmp_path / place)), "the package comes from the checkout"

    (tmp_path / "dags").mkdir()
    output, rows = tmp_path / "output", tmp_path / "rows.json"
    rows.write_text("".join(f'{{"id":{n},"kind":"{"needle" if n == 7 else "hay"}"}}\n' for n in range(20)))
    (tmp_path / "dags" / "wheels.py").write_text(DAG.format(path=str(rows), output=str(output)))
    clean_variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "PYSPARK"))
    }
    variables = clean_variables | {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW_PUSHDOWN_SPARK_PYTHON": str(spark),
    }
    commands = (
        [airflow.parent / "airflow-pushdown", "doctor"],
        [airflow, "-m", "airflow", "db", "migrate"],
        [airflow, "-m", "airflow", "dags", "test", "wheels", "2026-01-01"],
    )
    for command in commands:
        process = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout[-4_000:] + process.stderr[-4_000:]
    assert parquet.read_table(output).to_pylist() == [{"id": 7}]
