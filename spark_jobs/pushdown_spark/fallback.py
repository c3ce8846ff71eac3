"""Which errors of our readers leave a scan to Spark's reader, and what is raised where Spark's reader fails as well.

Spark's reader decides whether a file can be read. Our readers parse files that other programs wrote, so what they find
wrong with a file is raised only if Spark's reader fails too. The error is then the one of our reader, because it names
the file and the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pushdown_spark.errors import AccessDeniedError, ErrorCode, PushdownError
from pushdown_spark.failures import classify, pushdown_error

_ABOUT_FILES = frozenset({ErrorCode.UNREADABLE_FILE, ErrorCode.SCHEMA_CONFLICT, ErrorCode.BAD_SCHEMA})
"""Codes of errors that say what is wrong with a file."""


def left_to_spark(exc: BaseException) -> PushdownError | None:
    """Return the error of our reader that leaves the scan to Spark's; None where the exception ends the query."""
    own = pushdown_error(exc)
    if own is None:
        return None
    is_sparks = isinstance(own, AccessDeniedError) or own.code in _ABOUT_FILES | {ErrorCode.UNSAFE_INPUT}
    return own if is_sparks else None


@contextmanager
def blamed_on(problem: PushdownError | None) -> Iterator[None]:
    """Raise what our reader has found wrong with a file, where Spark's reader fails in here as well."""
    try:
        yield
    except Exception as exc:
        is_sparks = classify(exc).code in _ABOUT_FILES | {ErrorCode.SPARK}
        if problem is not None and problem.code in _ABOUT_FILES and is_sparks:
            raise problem from exc
        raise
