"""The exception class and message of each failure."""

from __future__ import annotations

import pickle

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_pushdown.exceptions import (
    ConfigError,
    FinalPushdownError,
    PushdownTaskError,
    RetryablePushdownError,
    config_error,
    exception_for,
)
from airflow_pushdown.version_compat import AirflowFailException
from pushdown_spark.contract import ErrorCode, JobError


def failure(code: ErrorCode, **changes: object) -> JobError:
    return JobError.model_validate({"code": code, "message": "what, where", "retryable": code.retryable, **changes})


@pytest.mark.parametrize("code", ErrorCode)
def test_final_errors_are_not_retried_and_the_others_are(code: ErrorCode) -> None:
    error = exception_for(failure(code))
    assert isinstance(error, AirflowException)
    assert isinstance(error, AirflowFailException) is not code.retryable
    assert error.code is code


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_a_final_or_retryable_class(code: ErrorCode) -> None:
    assert type(exception_for(failure(code))) not in (PushdownTaskError, FinalPushdownError, RetryablePushdownError)


@pytest.mark.parametrize("code", ErrorCode)
def test_the_result_of_the_job_decides_whether_to_retry(code: ErrorCode) -> None:
    error = exception_for(failure(code, retryable=not code.retryable))
    assert isinstance(error, AirflowFailException) is code.retryable


def test_the_message_starts_with_the_spark_error_class_and_is_one_line() -> None:
    error = exception_for(failure(ErrorCode.SPARK, error_class="DIVIDE_BY_ZERO", message="Division\n  by zero."))
    assert str(error) == "DIVIDE_BY_ZERO: Division by zero."


def test_the_error_class_is_not_said_twice() -> None:
    error = exception_for(failure(ErrorCode.SPARK, error_class="PATH_NOT_FOUND", message="PATH_NOT_FOUND: /x"))
    assert str(error) == "PATH_NOT_FOUND: /x"


def test_without_an_error_class_the_message_stands_alone() -> None:
    assert str(config_error("limit: must not be negative")) == "limit: must not be negative"


def test_unpickled_errors_have_class_and_message_of_the_pickled_ones() -> None:
    error = pickle.loads(pickle.dumps(config_error("path: missing")))
    assert type(error) is ConfigError
    assert error.code is ErrorCode.BAD_SPEC
