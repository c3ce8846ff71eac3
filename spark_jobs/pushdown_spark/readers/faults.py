"""Turns unexpected exceptions of our readers into the error that leaves a scan to Spark's reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pushdown_spark.errors import PushdownError, UnsafeInputError

_LONGEST = 300


@contextmanager
def faults_left_to_spark() -> Iterator[None]:
    """Raise UnsafeInputError for exceptions in here that are no PushdownError; the message names the exception."""
    try:
        yield
    except PushdownError:
        raise
    except Exception as problem:
        line = " ".join(str(problem).split())[:_LONGEST]
        raise UnsafeInputError(f"unexpected {type(problem).__name__}: {line}") from problem
