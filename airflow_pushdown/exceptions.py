"""Typed failures of a pushdown task: final ones derive from `AirflowFailException`, the others may be retried."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk.exceptions import AirflowException

from airflow_pushdown.version_compat import AirflowFailException
from pushdown_spark.contract import ErrorCode, JobError


class PushdownTaskError(AirflowException):
    """A failed pushdown task.

    `job_error` is the failure as data (code, message, Spark error class, traceback); the text of the exception is one
    line that starts with the Spark error class where there is one.
    """

    def __init__(self, job_error: JobError) -> None:
        super().__init__(job_error)
        self.job_error = job_error

    @property
    def code(self) -> ErrorCode:
        """The code of the error, from the classification of the Spark side."""
        return self.job_error.code

    def __str__(self) -> str:
        head = self.job_error.error_class
        line = " ".join(self.job_error.message.split())
        return line if head is None or line.startswith(head) else f"{head}: {line}"


class FinalPushdownError(PushdownTaskError, AirflowFailException):
    """A failure that a retry would meet again. Airflow does not retry it."""


class RetryablePushdownError(PushdownTaskError):
    """A failure that a retry may resolve."""


class ConfigError(FinalPushdownError):
    """A parameter, a connection or a setting is wrong; the message names it."""

    problems: Sequence[str] = ()
    """The problems that the message joins, if it is about several parameters."""


class ColumnError(FinalPushdownError):
    """A column does not exist, or its type does not support the path."""


class PredicateError(FinalPushdownError):
    """The `where` predicate does not parse or does not fit the columns' types."""


class SchemaError(FinalPushdownError):
    """The declared schema does not parse, or the files have conflicting schemas."""


class ExistingOutputError(FinalPushdownError):
    """The output already exists, and `output_mode` forbids changing it."""


class ReplacedAttemptError(FinalPushdownError):
    """A later attempt of the same run writes the output. The rows of this attempt were deleted."""


class ConflictingOutputError(FinalPushdownError):
    """Another run has written the same partition at the same time. The rows of this run were deleted."""


class CheckError(FinalPushdownError):
    """The rows failed a check (`checks`, `max_malformed`). Nothing was committed."""


class DatabaseRefusedError(FinalPushdownError):
    """A database rejects credentials, TLS, a table or a permission."""


class DatabaseFailedError(RetryablePushdownError):
    """A database was not reachable, or a connection or statement was interrupted."""


class InputError(RetryablePushdownError):
    """An input is missing or cannot be read. It may be available at the next try."""


class DiskFullError(RetryablePushdownError):
    """A disk that the job writes to is full."""


class WorkerKilledError(RetryablePushdownError):
    """A Python worker of the job was killed, often for lack of memory."""


class DriverKilledError(RetryablePushdownError):
    """The Spark driver was killed before it could write a result."""


class SubmitFailedError(RetryablePushdownError):
    """spark-submit failed before the job could write a result."""


class SparkJobError(RetryablePushdownError):
    """Spark failed the job for another reason."""


class InternalPushdownError(RetryablePushdownError):
    """The job failed with an unexpected exception."""


_CLASSES: dict[ErrorCode, type[PushdownTaskError]] = {
    ErrorCode.BAD_SPEC: ConfigError,
    ErrorCode.UNSAFE_SETTING: ConfigError,
    ErrorCode.UNKNOWN_COLUMN: ColumnError,
    ErrorCode.KIND_MISMATCH: ColumnError,
    ErrorCode.BAD_PREDICATE: PredicateError,
    ErrorCode.BAD_SCHEMA: SchemaError,
    ErrorCode.SCHEMA_CONFLICT: SchemaError,
    ErrorCode.OUTPUT_EXISTS: ExistingOutputError,
    ErrorCode.OUTPUT_TAKEN: ReplacedAttemptError,
    ErrorCode.OUTPUT_CONFLICT: ConflictingOutputError,
    ErrorCode.CHECK_FAILED: CheckError,
    ErrorCode.MISSING_PATH: InputError,
    ErrorCode.UNREADABLE_FILE: InputError,
    ErrorCode.UNSAFE_INPUT: InputError,
    ErrorCode.REMOTE_REFUSED: DatabaseRefusedError,
    ErrorCode.REMOTE_FAILED: DatabaseFailedError,
    ErrorCode.DISK_FULL: DiskFullError,
    ErrorCode.WORKER_KILLED: WorkerKilledError,
    ErrorCode.DRIVER_KILLED: DriverKilledError,
    ErrorCode.SUBMIT_FAILED: SubmitFailedError,
    ErrorCode.SPARK: SparkJobError,
    ErrorCode.INTERNAL: InternalPushdownError,
}


def exception_for(error: JobError) -> PushdownTaskError:
    """Return the exception for an error.

    The code determines the class. If the class and `retryable` of the error differ, the base class of final or
    retryable failures is used.
    """
    error_class = _CLASSES.get(error.code, RetryablePushdownError)
    if issubclass(error_class, AirflowFailException) != error.retryable:
        return error_class(error)
    return RetryablePushdownError(error) if error.retryable else FinalPushdownError(error)


def config_error(message: str, code: ErrorCode = ErrorCode.BAD_SPEC) -> ConfigError:
    """Return a `ConfigError` with a one-line message that starts with the name of the invalid parameter."""
    return ConfigError(JobError(code=code, message=message, retryable=False))


def retryable_error(message: str, code: ErrorCode = ErrorCode.SUBMIT_FAILED) -> PushdownTaskError:
    """Return the exception for a failure that a retry may resolve."""
    return exception_for(JobError(code=code, message=message, retryable=True))
