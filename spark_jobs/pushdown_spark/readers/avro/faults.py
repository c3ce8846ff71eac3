"""Says which file and which place in it is to blame for an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pushdown_spark.errors import AccessDeniedError, MissingPathError, UnreadableFileError

REMEDY = "replace the file, or leave it out of `path`"


@contextmanager
def blamed(path: str) -> Iterator[None]:
    """Turn errors of the storage into typed ones that name the file."""
    try:
        yield
    except FileNotFoundError as problem:
        raise MissingPathError(f"{path} vanished while it was read; run the task again") from problem
    except PermissionError as problem:
        raise AccessDeniedError(
            f"cannot read {path}: {problem}; let the job's credentials read it, or leave it out of `path`"
        ) from problem
    except OSError as problem:
        raise UnreadableFileError(f"cannot read {path}: {problem}; {REMEDY}") from problem
