"""Killing the task kills the job: SparkSubmit, driver, daemon and Python workers."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest
from airflow_cli import Airflow  # type: ignore[import-not-found]

from airflow_pushdown.hooks.processes import session_members, wait_for_end

pytestmark = pytest.mark.e2e

KILL_BUDGET_SECONDS = 5
"""After this long Airflow's supervisor kills a task that was asked to stop."""


def session_of_job(airflow: psutil.Process) -> int | None:
    """Session of the job below Airflow, once it has a Python worker that hangs."""
    for process in airflow.children(recursive=True):
        try:
            if "pyspark.daemon" in process.cmdline() and process.children():
                return os.getsid(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return None


def test_a_killed_task_leaves_no_process_of_its_job(airflow: Airflow) -> None:
    process = airflow.start("dags", "test", "stalled_scan", "2026-01-01")
    watched = psutil.Process(process.pid)
    session = None
    while session is None:
        assert process.poll() is None, airflow.log()
        session = session_of_job(watched)
        time.sleep(0.1)
    commands = [" ".join(psutil.Process(pid).cmdline()) for pid in session_members(session)]
    assert any("SparkSubmit" in command for command in commands)
    assert any("run.py" in command for command in commands)

    process.send_signal(signal.SIGTERM)

    assert wait_for_end(session, KILL_BUDGET_SECONDS), session_members(session)
    assert process.wait() != 0
    assert "the task was killed, and the Spark job with it" in airflow.log()
    assert not (airflow.data / "stalled").exists()
