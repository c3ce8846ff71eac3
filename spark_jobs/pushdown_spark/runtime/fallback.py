"""The fallback from the pushdown reader to Spark's, and the error to raise if both fail.

Spark's reader decides whether a file is readable. An error of the pushdown readers about a file is only raised if
Spark's reader fails as well. It is raised instead of Spark's error, because it names the file and the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pushdown_spark.errors import AccessDeniedError, ErrorCode, PushdownError, UnsafeInputError, UnsupportedError
from pushdown_spark.runtime.error_classification import classify, pushdown_error, typed_error
from pushdown_spark.runtime.worker import unexpected_errors_as_unsafe_input

_ABOUT_FILES = frozenset({ErrorCode.UNREADABLE_FILE, ErrorCode.SCHEMA_CONFLICT, ErrorCode.BAD_SCHEMA})
"""Codes of errors about the content of a file."""


def recoverable_error(failure: BaseException) -> PushdownError | None:
    """Return the pushdown reader's error if Spark's reader may succeed, or None if the exception ends the query."""
    problem = pushdown_error(failure)
    if problem is None:
        return None
    is_recoverable = isinstance(problem, AccessDeniedError) or problem.code in _ABOUT_FILES | {ErrorCode.UNSAFE_INPUT}
    return problem if is_recoverable else None


@contextmanager
def recoverable_errors_as_unsupported() -> Iterator[None]:
    """Raise UnsupportedError for any failure of the pushdown reader, so that Spark's reader is used.

    Errors that describe a mistake of the user, or a missing file, stay as they are.
    """
    try:
        with unexpected_errors_as_unsafe_input(UnsupportedError):
            yield
    except PushdownError as failure:
        problem = recoverable_error(failure)
        if problem is None:
            raise
        reason = f"the pushdown reader failed while it planned the scan: {problem}"
        raise UnsupportedError(reason, problem=problem) from failure


@contextmanager
def rejected_query_as_unsafe_input() -> Iterator[None]:
    """Raise UnsafeInputError if Spark rejects a query over the pushdown readers, which it accepts over its own.

    The number of a task decides the values of directories and files, so these columns are not deterministic for Spark.
    It rejects subqueries over them in ON, ORDER BY, GROUP BY, aggregates and after LATERAL.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        reason = f"Spark accepts the query only over its own readers: {typed_error(problem)}"
        raise UnsafeInputError(reason) from problem


@contextmanager
def prefer_reader_error(problem: PushdownError | None) -> Iterator[None]:
    """Raise the error of the pushdown reader about a file instead of an error of Spark's reader."""
    try:
        yield
    except Exception as failure:
        is_spark_error = classify(failure).code in _ABOUT_FILES | {ErrorCode.SPARK}
        if problem is not None and problem.code in _ABOUT_FILES and is_spark_error:
            raise problem from failure
        raise
