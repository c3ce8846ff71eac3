"""Execution of one job on this machine: its process, the output in the task log, and reports to the operator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from airflow_pushdown.exceptions import retryable_error
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.spark_submit.application import Application, started_application
from airflow_pushdown.spark_submit.failures import task_killed_error
from airflow_pushdown.spark_submit.processes import JobProcess
from airflow_pushdown.spark_submit.secret_settings import mask_setting
from airflow_pushdown.spark_submit.submit_output import SubmitOutput
from pushdown_spark.contract.progress import progress_of_line

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")


def notify(callback: Callable[[_Value], object] | None, value: _Value) -> None:
    """Pass a value to a callback that asks Airflow. Its failure is logged and does not end the job."""
    if callback is None:
        return
    try:
        callback(value)
    except Exception as error:  # the exceptions of Airflow's client have no common class
        log.warning("A request to Airflow has failed, and this task continues: %s", error)


class JobRunner:
    """Runs the process of one job. A signal handler may call `end` at any time."""

    def __init__(self, submission: Submission) -> None:
        self.output = SubmitOutput()
        self.is_ended = False
        self._submission = submission
        self._process: JobProcess | None = None
        self._last_application: Application | None = None

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        private: Sequence[Path],
        *,
        on_start: Callable[[JobProcess], None] = lambda _process: None,
        on_line: Callable[[str], None] | None = None,
    ) -> int:
        """Start a command, log its output, and return its exit code. Raises a `PushdownTaskError` if it cannot start.

        The directories `private` are deleted if the task is killed. `on_line` gets the lines instead of the log.
        """
        if self.is_ended:
            raise task_killed_error()
        self.output = SubmitOutput()
        try:
            process = JobProcess(command, environment, private)
        except OSError as error:
            # The watchdog of the job may be the program that cannot be started.
            raise retryable_error(f"{error.filename or command[0]} cannot be started ({error.strerror})") from error
        with process:
            on_start(process)
            self._process = process
            if self.is_ended:
                process.kill()
            for line in process.lines():
                self._take_line(line, on_line)
        return process.wait()

    def end(self) -> None:
        """End the processes of the job within 5 seconds, and let no other one start."""
        self.is_ended = True
        if self._process is not None:
            self._process.kill()

    def _take_line(self, line: str, on_line: Callable[[str], None] | None) -> None:
        """Log a line of output, or report the progress or the application in it."""
        if (progress := progress_of_line(line)) is not None:
            notify(self._submission.on_progress, progress)
            return
        level = self.output.add(line)
        application = started_application(line)
        # On a cluster, spark-submit prints the application several times.
        if application is not None and application != self._last_application:
            self._last_application = application
            notify(self._submission.on_started, application)
        if on_line is None:
            log.log(level, "%s", mask_line(line))
        else:
            on_line(line)


def mask_line(line: str) -> str:
    """Return a line for the log. Values that may have a credential are masked."""
    return " ".join(map(mask_setting, line.split(" ")))
