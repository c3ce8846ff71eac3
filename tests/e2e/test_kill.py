"""Killing the task ends all processes of its job: SparkSubmit, driver, daemon and Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest
from airflow_cli import Airflow  # type: ignore[import-not-found]

from airflow_pushdown.exceptions import DriverKilledError
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.spark_submit.processes import session_members, wait_for_end

pytestmark = pytest.mark.e2e

KILL_BUDGET_SECONDS = 5
"""After this long Airflow's supervisor kills a task that was asked to stop."""


def session_of_job(airflow: psutil.Process) -> int | None:
    """Return the session of the job below Airflow, once it has a hanging Python worker."""
    for process in airflow.children(recursive=True):
        try:
            if "pyspark.daemon" in process.cmdline() and process.children():
                return os.getsid(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return None


def running_session(airflow: Airflow, process: subprocess.Popen[bytes]) -> int:
    """Return the session of the job as soon as it hangs."""
    airflow_process = psutil.Process(process.pid)
    while (session := session_of_job(airflow_process)) is None:
        assert process.poll() is None, airflow.log()
        time.sleep(0.1)
    return session


def test_a_killed_task_ends_all_processes_of_its_job(airflow: Airflow) -> None:
    process = airflow.start("dags", "test", "stalled_scan", "2026-01-01")
    session = running_session(airflow, process)
    commands = [" ".join(psutil.Process(pid).cmdline()) for pid in session_members(session)]
    assert any("SparkSubmit" in command for command in commands)
    assert any("job.py" in command for command in commands)

    process.send_signal(signal.SIGTERM)

    assert wait_for_end(session, KILL_BUDGET_SECONDS), session_members(session)
    assert process.wait() != 0
    assert "the task was killed, and all processes of its Spark job were ended" in airflow.log()
    assert not (airflow.data / "stalled").exists()


def test_sigkill_of_a_task_ends_all_processes_of_its_job(airflow: Airflow) -> None:
    process = airflow.start("dags", "test", "stalled_scan", "2026-01-01")
    session = running_session(airflow, process)

    process.kill()

    assert wait_for_end(session, KILL_BUDGET_SECONDS), session_members(session)
    assert not (airflow.data / "stalled").exists()


class RunningTask:
    """The part of a running task instance that `execute` uses."""

    dag_id, task_id, run_id, map_index = "d", "scan", "r", -1

    def xcom_push(self, key: str, value: str) -> None:
        """Accept the links of the task."""


def test_a_killed_jvm_ends_the_other_processes_of_the_job(
    airflow: Airflow, local_spark: str, spark_python: str, tmp_path: Path
) -> None:
    task = PushdownScanOperator(
        task_id="scan",
        path=f"{airflow.data}/rows/*.json",
        format="json",
        schema="id int, event struct<type: string>",
        where="event.type = 'needle'",
        output=str(tmp_path / "out"),
        reader="pushdown",
        spark_python=spark_python,
        env_vars={
            "PYTHONPATH": airflow.environment["E2E_HOSTILE"],
            "HOSTILE_TO": "pyspark.daemon",
            "HOSTILE_HOW": "stall",
        },
    )
    sessions: list[int] = []

    def kill_the_jvm() -> None:
        while not (session := session_of_job(psutil.Process())):
            time.sleep(0.1)
        sessions.append(session)
        os.kill(session, signal.SIGKILL)

    killer = threading.Thread(target=kill_the_jvm, daemon=True)
    killer.start()
    with pytest.raises(DriverKilledError, match="SIGKILL"):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]
    assert session_members(sessions[0]) == []
    assert list(tmp_path.iterdir()) == []
