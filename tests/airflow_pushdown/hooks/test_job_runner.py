"""The process of a job, with a real program that prints what jobs print."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from airflow_pushdown.exceptions import DriverKilledError, SubmitFailedError
from airflow_pushdown.hooks.job_runner import JobRunner
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.spark_submit.application import Application
from pushdown_spark.contract import JobSpec, QuerySpec, SourceSpec
from pushdown_spark.contract.progress import Progress

SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
    query=QuerySpec(source="s"),
)
ENVIRONMENT = {"PATH": os.defpath}
STARTED = "airflow_pushdown: application local-7, UI http://driver:4040"
PROGRESS = Progress(tasks_done=1, tasks_total=2)


def printing(*lines: str) -> list[str]:
    """Return the command of a job that prints lines and then ends with code 3."""
    return [sys.executable, "-c", f"print({chr(10).join(lines)!r}, flush=True); raise SystemExit(3)"]


def test_a_job_reports_its_progress_and_each_application_once() -> None:
    applications, progress, lines = list[Application](), list[Progress](), list[str]()
    runner = JobRunner(Submission(spec=SPEC, on_started=applications.append, on_progress=progress.append))
    command = printing(STARTED, PROGRESS.line(), STARTED, "last")
    assert runner.run(command, ENVIRONMENT, (), on_line=lines.append) == 3
    assert applications == [Application("local-7", "http://driver:4040")]
    assert progress == [PROGRESS]
    assert lines == [STARTED, STARTED, "last"]
    assert runner.output.cause == "last"


def test_a_job_continues_although_airflow_stores_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(value: object) -> None:
        raise ConnectionError("the API server restarts")

    runner = JobRunner(Submission(spec=SPEC, on_started=fail, on_progress=fail))
    assert runner.run(printing(STARTED, PROGRESS.line(), "last"), ENVIRONMENT, ()) == 3
    assert runner.output.cause == "last"
    assert caplog.text.count("the API server restarts") == 2


def test_credentials_in_the_output_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        JobRunner(Submission(spec=SPEC)).run(printing("set spark.my.password=hush-8"), ENVIRONMENT, ())
    assert "set spark.my.password=***" in caplog.messages


def test_a_job_that_was_ended_does_not_start() -> None:
    runner = JobRunner(Submission(spec=SPEC))
    runner.end()
    with pytest.raises(DriverKilledError):
        runner.run(printing("never"), ENVIRONMENT, ())


def test_the_end_of_a_job_ends_its_process() -> None:
    runner = JobRunner(Submission(spec=SPEC))
    code = "import time; print('ready', flush=True); time.sleep(600)"
    killer = threading.Thread(target=runner.end)
    assert runner.run([sys.executable, "-c", code], ENVIRONMENT, (), on_line=lambda _line: killer.start()) < 0
    killer.join()


def test_a_missing_program_is_a_typed_error() -> None:
    with pytest.raises(SubmitFailedError, match="/no/such/program cannot be started"):
        JobRunner(Submission(spec=SPEC)).run(["/no/such/program"], ENVIRONMENT, ())


def test_the_error_names_the_program_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SubmitFailedError, match="/no/such/program cannot be started"):
        JobRunner(Submission(spec=SPEC)).run(["/no/such/program"], ENVIRONMENT, ())
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SubmitFailedError, match="/no/such/python cannot be started"):
        JobRunner(Submission(spec=SPEC)).run(["echo"], ENVIRONMENT, ())
