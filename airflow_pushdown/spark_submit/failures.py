"""Errors of jobs that ended without a result: a failed spark-submit, a killed driver, a killed task."""

from __future__ import annotations

import signal

from airflow_pushdown.clusters.drivers import DriverStatus
from airflow_pushdown.exceptions import PushdownTaskError, config_error, retryable_error
from airflow_pushdown.spark_submit.submit_output import SubmitOutput
from pushdown_spark.contract import ErrorCode, JobResult

_SHELL_SIGNAL_BASE = 128


def signal_of(returncode: int) -> signal.Signals | None:
    """Return the signal of an exit code: negative for spark-submit, above 128 for its driver, or None for others."""
    number = -returncode if returncode < 0 else returncode - _SHELL_SIGNAL_BASE
    try:
        return signal.Signals(number)
    except ValueError:
        return None


def driver_killed_error(number: signal.Signals, returncode: int) -> PushdownTaskError:
    """Return the error for a driver that a signal ended."""
    advice = (
        "if the machine ran out of memory, lower driver_memory or raise the worker's limit"
        if number is signal.SIGKILL
        else "run the task again, or find out who sent it"
    )
    return retryable_error(
        f"the Spark driver was killed by {number.name} (exit code {returncode}) before it wrote a result; {advice}",
        ErrorCode.DRIVER_KILLED,
    )


def check_exit(
    returncode: int, output: SubmitOutput, result: JobResult | None, *, program: str = "spark-submit"
) -> None:
    """Raise the error of a program that has ended, unless it succeeded or the job wrote a result."""
    if result is not None and result.error is None:
        # The job writes its result after the commit. A signal while Spark stops changes nothing.
        return
    number = signal_of(returncode)
    # A driver whose JVM was killed may have written a result with a less precise error.
    if number is not None and (returncode < 0 or result is None):
        raise driver_killed_error(number, returncode)
    if result is not None:
        return
    if returncode and (message := output.final_error):
        raise config_error(message)
    if returncode:
        raise retryable_error(f"{program} failed with exit code {returncode}: {output.cause}")


def no_result_error(output: SubmitOutput) -> PushdownTaskError:
    """Return the error for a job that ended without an error and without a result."""
    return retryable_error(f"the job ended without a result; {output.note}")


def driver_lost_error(driver_id: str, status: DriverStatus) -> PushdownTaskError:
    """Return the error for a driver on a cluster that has ended without a result."""
    return retryable_error(
        f"driver {driver_id} ended without a result ({status}); see its output on the cluster", ErrorCode.DRIVER_KILLED
    )


def task_killed_error() -> PushdownTaskError:
    """Return the error for a job whose task was killed."""
    return retryable_error(
        "the task was killed, and all processes of its Spark job were ended", ErrorCode.DRIVER_KILLED
    )
