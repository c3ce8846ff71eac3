"""Typed errors of the Spark side: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

from spark_jobs.codes import ErrorCode


class PushdownError(Exception):
    """A failure with a code that the Airflow side can act on.

    `code` decides whether a retry makes sense; the message is one line and complete without a traceback.
    """

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str, *, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class BadSpecError(PushdownError):
    """The job description is wrong; the message names the parameter."""

    code = ErrorCode.BAD_SPEC


class ExecutorMismatchError(BadSpecError):
    """Executors have other versions than the driver; the message says which and what to change."""


class AccessDeniedError(BadSpecError):
    """Our reader's credentials may not read a file; those of Spark's reader may."""


class UnknownColumnError(PushdownError):
    """A column is not in the source; the message suggests the nearest names."""

    code = ErrorCode.UNKNOWN_COLUMN


class KindMismatchError(PushdownError):
    """A path step does not fit the column's kind (a member of something that is no struct, an index into no array)."""

    code = ErrorCode.KIND_MISMATCH


class BadPredicateError(PushdownError):
    """The predicate does not parse or does not type-check; the message shows where."""

    code = ErrorCode.BAD_PREDICATE


class BadSchemaError(PushdownError):
    """A declared schema does not parse."""

    code = ErrorCode.BAD_SCHEMA


class MissingPathError(PushdownError):
    """An input path or glob matches nothing."""

    code = ErrorCode.MISSING_PATH


class OutputExistsError(PushdownError):
    """The output exists and the mode forbids touching it."""

    code = ErrorCode.OUTPUT_EXISTS


class OutputTakenError(OutputExistsError):
    """Another try of the same run has begun to write the output; this one gives way."""


class OutputConflictError(PushdownError):
    """Another run has committed the same partition since this one began; the message names run and partition."""

    code = ErrorCode.OUTPUT_CONFLICT


class CheckFailedError(PushdownError):
    """Rows failed a check, so that nothing was committed; the message names each check and what was found."""

    code = ErrorCode.CHECK_FAILED


class UnreadableFileError(PushdownError):
    """A file cannot be read; the message names the file and the byte position."""

    code = ErrorCode.UNREADABLE_FILE


class UnsafeInputError(PushdownError):
    """Bytes were met that Spark may read in a way byte search cannot follow; Spark's own reader must take the scan."""

    code = ErrorCode.UNSAFE_INPUT


class SchemaConflictError(PushdownError):
    """Files do not agree with each other or with the declared schema; the message names column and types."""

    code = ErrorCode.SCHEMA_CONFLICT


class RemoteRefusedError(PushdownError):
    """A database refuses what it is asked: credentials, TLS, a table that is not there, a right that is missing."""

    code = ErrorCode.REMOTE_REFUSED


class RemoteFailedError(PushdownError):
    """A database cannot be reached, or a connection or statement broke off; another try may succeed."""

    code = ErrorCode.REMOTE_FAILED


class LostConnectionError(RemoteFailedError):
    """The connection to a database was lost, or could not be made just now."""
