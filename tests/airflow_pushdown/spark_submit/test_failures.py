"""What the exit code of a job means, with and without its result."""

from __future__ import annotations

import pytest

from airflow_pushdown.exceptions import DriverKilledError, SubmitFailedError
from airflow_pushdown.spark_submit.failures import check_exit
from airflow_pushdown.spark_submit.submit_output import SubmitOutput
from pushdown_spark.contract import ErrorCode, JobError, JobResult

FAILED = JobResult(error=JobError(code=ErrorCode.SPARK, message="the JVM is gone", retryable=True))


@pytest.mark.parametrize("returncode", [0, 1, -9, 137])
def test_job_with_a_successful_result_has_succeeded(returncode: int) -> None:
    """The job writes its result after the commit, and may be killed while Spark stops."""
    check_exit(returncode, SubmitOutput(), JobResult(rows=1))


@pytest.mark.parametrize(
    ("returncode", "result", "error"),
    [
        (-9, None, DriverKilledError),
        (137, None, DriverKilledError),
        (-9, FAILED, DriverKilledError),
        (1, None, SubmitFailedError),
    ],
)
def test_exit_code_of_a_failed_job_names_the_signal(
    returncode: int, result: JobResult | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_exit(returncode, SubmitOutput(), result)


@pytest.mark.parametrize("returncode", [0, 1, 137])
def test_error_in_the_result_is_raised_later(returncode: int) -> None:
    check_exit(returncode, SubmitOutput(), FAILED)
