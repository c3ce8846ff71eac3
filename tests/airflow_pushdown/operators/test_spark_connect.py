"""Operators with a connection of type spark_connect run their job on a Spark Connect server."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from connect_server import TOKEN, ConnectServer, run_connect_server

from airflow_pushdown.exceptions import ConfigError, DriverKilledError
from airflow_pushdown.operators import PushdownScanOperator

SLOW = "reflect('java.lang.Thread', 'sleep', 50L) IS NOT NULL"


class RunningTask:
    """The part of a running task instance that `execute` uses."""

    dag_id, task_id, run_id, map_index = "d", "scan", "r", -1

    def __init__(self) -> None:
        self.pushed: dict[str, object] = {}

    def xcom_push(self, key: str, value: object) -> None:
        """Keep what the task pushes."""
        self.pushed[key] = value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, spark_python: str) -> Iterator[ConnectServer]:
    with run_connect_server(spark_python, tmp_path_factory.mktemp("server")) as instance:
        yield instance


@pytest.fixture
def events(tmp_path: Path, server: ConnectServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of events, and set the connection `connect`."""
    connection = {"conn_type": "spark_connect", "host": "localhost", "port": server.port, "password": TOKEN}
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps(connection))
    path = tmp_path / "events.json"
    rows = ({"id": number, "kind": "rare" if number % 100 == 7 else "common"} for number in range(400))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scan(events: Path, spark_python: str, **parameters: object) -> PushdownScanOperator:
    arguments: dict[str, object] = {"where": "kind = 'rare'", "output": str(events.parent / "out"), **parameters}
    return PushdownScanOperator(
        task_id="scan",
        conn_id="connect",
        path=str(events),
        format="json",
        schema="id int, kind string",
        spark_python=spark_python,
        **arguments,  # type: ignore[arg-type]
    )


def spark_version(spark_python: str) -> tuple[int, ...]:
    """Return the major and minor version of Spark in an environment."""
    command = [spark_python, "-c", "import pyspark; print(pyspark.__version__)"]
    return tuple(map(int, subprocess.check_output(command, text=True).split(".")[:2]))


def test_a_scan_writes_its_rows(events: Path, spark_python: str, capfd: pytest.CaptureFixture[str]) -> None:
    ti = RunningTask()
    conf = {"spark.sql.ansi.enabled": "false"}
    task = scan(events, spark_python, reader="pushdown", conf=conf, checks={"min_rows": 4, "max_rows": 4})
    result = task.execute({"ti": ti})  # type: ignore[typeddict-item]
    version = spark_version(spark_python)
    assert result["rows"] == (None if version == (4, 0) else 4)
    assert result["sources"]["source"]["reader"] == ("spark" if version < (4, 2) else "pushdown")  # type: ignore[index]
    assert str(result["application_id"]).startswith("local-")
    assert len(list((events.parent / "out").glob("part-*.parquet"))) >= 1
    assert TOKEN not in str(capfd.readouterr()) + json.dumps(result)


class ForgetfulTask(RunningTask):
    """A task instance whose API server restarts."""

    def xcom_push(self, key: str, value: object) -> None:
        """Store nothing."""
        raise ConnectionError("the API server restarts")


class ForgetfulStore:
    """The stored values of such a task."""

    def delete(self, key: str) -> None:
        """Delete nothing."""
        raise ConnectionError("the API server restarts")


def test_a_job_continues_although_airflow_stores_nothing(events: Path, spark_python: str) -> None:
    context = {"ti": ForgetfulTask(), "task_state_store": ForgetfulStore()}
    result = scan(events, spark_python).execute(context)  # type: ignore[arg-type]
    assert str(result["application_id"]).startswith("local-")
    assert len(list((events.parent / "out").glob("part-*.parquet"))) >= 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"deploy_mode": "cluster"}, "deploy_mode: a connection of type spark_connect uses a server that runs already"),
        ({"deferrable": True}, "deferrable: a connection of type spark_connect"),
        ({"driver_memory": "2g"}, "driver_memory: a connection of type spark_connect"),
        ({"conf": {"spark.executor.memory": "1g"}}, "conf: spark.executor.memory is a setting of the Spark Connect"),
        ({"spark_python": "/no/such/python"}, "spark_python: /no/such/python is not an executable file"),
    ],
    ids=str,
)
def test_parameters_of_spark_submit_are_refused(
    events: Path, spark_python: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        scan(events, **{"spark_python": spark_python, **parameters}).execute({"ti": RunningTask()})  # type: ignore[arg-type,typeddict-item]


def test_a_killed_task_leaves_no_process_and_no_rows(events: Path, spark_python: str) -> None:
    task = scan(events, spark_python, where=SLOW)
    out = events.parent / "out"
    jobs: list[psutil.Process] = []

    def kill_when_rows_are_staged() -> None:
        while not list(events.parent.glob(".out.pushdown/staging-*/*/*")):
            time.sleep(0.05)
        jobs.extend(p for p in psutil.Process().children() if any("job.py" in part for part in p.cmdline()))
        task.on_kill()

    killer = threading.Thread(target=kill_when_rows_are_staged, daemon=True)
    killer.start()
    with pytest.raises(DriverKilledError):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]
    assert len(jobs) == 1
    assert not jobs[0].is_running()
    assert not out.exists()
