"""Error codes and typed errors. Each message is one line that says what is wrong, where, and what to do.

Python workers import this module, so it does not depend on pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ErrorCode(StrEnum):
    """The kind of a failure, which decides whether a retry makes sense."""

    BAD_SPEC = "bad_spec"
    UNKNOWN_COLUMN = "unknown_column"
    KIND_MISMATCH = "kind_mismatch"
    BAD_PREDICATE = "bad_predicate"
    BAD_SCHEMA = "bad_schema"
    UNSAFE_SETTING = "unsafe_setting"
    MISSING_PATH = "missing_path"
    OUTPUT_EXISTS = "output_exists"
    OUTPUT_TAKEN = "output_taken"
    OUTPUT_CONFLICT = "output_conflict"
    CHECK_FAILED = "check_failed"
    UNREADABLE_FILE = "unreadable_file"
    SCHEMA_CONFLICT = "schema_conflict"
    UNSAFE_INPUT = "unsafe_input"
    REMOTE_REFUSED = "remote_refused"
    REMOTE_FAILED = "remote_failed"
    DISK_FULL = "disk_full"
    WORKER_KILLED = "worker_killed"
    DRIVER_KILLED = "driver_killed"
    SUBMIT_FAILED = "submit_failed"
    SPARK = "spark"
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool:
        """Whether the same task, run again unchanged, could succeed."""
        return self not in _FINAL_CODES


_FINAL_CODES = frozenset(
    {
        ErrorCode.BAD_SPEC,
        ErrorCode.UNKNOWN_COLUMN,
        ErrorCode.KIND_MISMATCH,
        ErrorCode.BAD_PREDICATE,
        ErrorCode.BAD_SCHEMA,
        ErrorCode.UNSAFE_SETTING,
        ErrorCode.OUTPUT_EXISTS,
        ErrorCode.OUTPUT_TAKEN,
        ErrorCode.OUTPUT_CONFLICT,
        ErrorCode.CHECK_FAILED,
        ErrorCode.SCHEMA_CONFLICT,
        ErrorCode.REMOTE_REFUSED,
    }
)


class UnsupportedError(Exception):
    """A step of a planner cannot do what Spark does. The message is the reason, which the report shows.

    It is not a failure of the job: the planner catches it and leaves the scan, the conjunct or the query to Spark.
    `predicted` are the CPU seconds of the readers, if an estimate is the reason. `problem` is the error of the pushdown
    reader, if it failed.
    """

    def __init__(
        self, reason: str, predicted: Mapping[str, float] | None = None, problem: PushdownError | None = None
    ) -> None:
        super().__init__(reason)
        self.predicted: Mapping[str, float] = predicted or {}
        self.problem = problem


class UnsafeFilterError(UnsupportedError):
    """Spark's reader must scan without its filter pushdown, because it would lose rows."""


class PushdownError(Exception):
    """A failure with a code that the Airflow side can act on.

    `code` decides whether a retry makes sense; the message is one line and complete without a traceback.
    """

    code: ErrorCode = ErrorCode.INTERNAL

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        """Set the code of a subclass. Without `code`, it is that of the base class."""
        if code is not None:
            cls.code = code

    def __init__(self, message: str, *, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @classmethod
    def plan_message(cls, problem: str) -> str:
        """Return the text for Spark's `raise_error`, by which the driver recognizes this class.

        It has the format in which Python workers report their exceptions.
        """
        return f"\n{cls.__module__}.{cls.__qualname__}: {problem}"


class BadSpecError(PushdownError, code=ErrorCode.BAD_SPEC):
    """The job description is wrong; the message names the parameter."""


class ExecutorMismatchError(BadSpecError):
    """Executors have other versions than the driver; the message says which and what to change."""


class AccessDeniedError(BadSpecError):
    """The pushdown reader's credentials may not read a file; those of Spark's reader may."""


class UnknownColumnError(PushdownError, code=ErrorCode.UNKNOWN_COLUMN):
    """A column is not in the source; the message suggests the nearest names."""


class KindMismatchError(PushdownError, code=ErrorCode.KIND_MISMATCH):
    """A path step that does not fit the column's type: a member of a non-struct, or an index into a non-array."""


class BadPredicateError(PushdownError, code=ErrorCode.BAD_PREDICATE):
    """The predicate does not parse or does not type-check; the message shows where."""


class BadSchemaError(PushdownError, code=ErrorCode.BAD_SCHEMA):
    """A declared schema does not parse."""


class MissingPathError(PushdownError, code=ErrorCode.MISSING_PATH):
    """An input path or glob matches nothing."""


class ChangedFilesError(MissingPathError):
    """Files have changed since the query was planned, so that its plan would miss rows; another try plans it again."""


class OutputExistsError(PushdownError, code=ErrorCode.OUTPUT_EXISTS):
    """The output exists and the mode forbids changing it."""


class OutputTakenError(PushdownError, code=ErrorCode.OUTPUT_TAKEN):
    """A later attempt of the same run has begun to write the output, so this attempt cannot commit."""


class OutputConflictError(PushdownError, code=ErrorCode.OUTPUT_CONFLICT):
    """Another run has committed the same partition since this one began; the message names run and partition."""


class CheckFailedError(PushdownError, code=ErrorCode.CHECK_FAILED):
    """Rows failed a check, so that nothing was committed; the message names each check and the value found."""


class UnwritableValueError(CheckFailedError):
    """An output cannot hold a value as it is; the message names the column and the kind of value."""


class UnreadableFileError(PushdownError, code=ErrorCode.UNREADABLE_FILE):
    """A file cannot be read; the message names the file and the byte position."""


class UnsafeInputError(PushdownError, code=ErrorCode.UNSAFE_INPUT):
    """Spark may read some bytes in a way that the pushdown reader cannot reproduce, so only Spark can read the file."""


class SchemaConflictError(PushdownError, code=ErrorCode.SCHEMA_CONFLICT):
    """Files do not agree with each other or with the declared schema; the message names column and types."""


class RemoteRefusedError(PushdownError, code=ErrorCode.REMOTE_REFUSED):
    """A database rejects the credentials or TLS, or lacks a table or a privilege."""


class RemoteFailedError(PushdownError, code=ErrorCode.REMOTE_FAILED):
    """A database is not reachable, or a connection or statement was interrupted; another try may succeed."""


class LostConnectionError(RemoteFailedError):
    """The connection to a database was lost, or cannot be opened at the moment."""
