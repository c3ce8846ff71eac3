"""`airflow dags test` over a real spark-submit: the rows, the report, the XCom, and no secret anywhere on the way."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import psutil
import pytest
from airflow_cli import SECRET, TOKEN, Airflow  # type: ignore[import-not-found]

pytestmark = pytest.mark.e2e


class Seen:
    """What could be seen of the processes below Airflow while a DAG ran."""

    def __init__(self) -> None:
        self.command_lines: set[str] = set()
        self.environments: dict[int, dict[str, str]] = {}

    def look(self, airflow: psutil.Process) -> None:
        for process in airflow.children(recursive=True):
            try:
                self.command_lines.add("\0".join(process.cmdline()))
                if os.getsid(process.pid) != os.getsid(airflow.pid):
                    self.environments[process.pid] = process.environ()
            except (psutil.Error, ProcessLookupError):
                continue


@pytest.fixture(scope="module")
def run(airflow: Airflow) -> Seen:
    process = airflow.start("dags", "test", "small_scan", "2026-01-01")
    seen, watched = Seen(), psutil.Process(process.pid)
    while True:
        try:
            assert process.wait(timeout=0.05) == 0, airflow.log()
        except subprocess.TimeoutExpired:
            seen.look(watched)
        else:
            return seen


@pytest.fixture(scope="module")
def result(airflow: Airflow, run: Seen) -> dict[str, object]:
    with sqlite3.connect(airflow.database) as database:
        ((value,),) = database.execute("SELECT value FROM xcom WHERE key = 'return_value'").fetchall()
    found = json.loads(value)
    return json.loads(found) if isinstance(found, str) else found


def test_the_rows_are_written(airflow: Airflow, run: Seen, spark_python: str) -> None:
    code = "import pyarrow.parquet as p, sys; print(p.read_table(sys.argv[1]).to_pylist())"
    folder = airflow.data / "out" / "2026-01-01"
    read = subprocess.run([spark_python, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert sorted(row["id"] for row in eval(read.stdout)) == [0, 1, 2]


def test_the_result_says_what_was_pushed(result: dict[str, object], airflow: Airflow) -> None:
    assert result["rows"] == 3
    assert result["error"] is None
    assert result["output"] == str(airflow.data / "out" / "2026-01-01")
    source = result["sources"]["source"]  # type: ignore[index]
    assert source["reader"] == "pushdown"
    assert source["pushed"] == ["event.type = 'needle'"]
    assert source["rows_returned"] == 3
    assert source["rows_decoded"] < 300


def test_the_report_is_folded_into_the_log(airflow: Airflow, run: Seen) -> None:
    log = airflow.log()
    start, end = log.index("::group::Pushdown report"), log.rindex("::endgroup::")
    assert "event.type = 'needle'" in log[start:end]


def test_spark_was_seen_at_work(run: Seen) -> None:
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in run.command_lines)
    assert any("spark_jobs/run.py" in line for line in run.command_lines)
    assert run.environments


@pytest.mark.parametrize("secret", [SECRET, TOKEN, "AKIARECOGNISABLE"])
def test_no_secret_is_on_a_command_line(secret: str, run: Seen) -> None:
    assert [line for line in run.command_lines if secret in line] == []


@pytest.mark.parametrize("secret", [SECRET, TOKEN, "AKIARECOGNISABLE"])
def test_no_process_of_the_job_inherits_a_secret_or_anything_of_airflow(secret: str, run: Seen) -> None:
    for environment in run.environments.values():
        assert secret not in environment.values()
        assert secret not in " ".join(environment.values())
        assert [name for name in environment if name.startswith("AIRFLOW_")] == []


@pytest.mark.parametrize("secret", [SECRET, "AKIARECOGNISABLE"])
def test_no_secret_of_the_connection_is_in_log_xcom_or_rendered_fields(
    secret: str, airflow: Airflow, result: dict[str, object]
) -> None:
    assert secret not in airflow.log()
    assert secret not in json.dumps(result)
    assert secret.encode() not in airflow.database.read_bytes()


def test_a_token_of_the_conf_is_masked_in_log_and_rendered_fields(airflow: Airflow, run: Seen) -> None:
    assert TOKEN not in airflow.log()
    assert TOKEN.encode() not in airflow.database.read_bytes()


def test_nothing_of_the_job_is_left_in_the_temporary_directory(airflow: Airflow, run: Seen) -> None:
    specs = {word for line in run.command_lines for word in line.split("\0") if word.endswith("spec.json")}
    assert specs
    assert [spec for spec in specs if Path(spec).parent.exists()] == []
