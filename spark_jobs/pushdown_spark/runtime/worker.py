"""Work of Python workers around the tasks of the pushdown readers. Workers import this module, so it imports little."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pushdown_spark.errors import PushdownError, UnsafeInputError

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_MESSAGE = 300


@cache
def freeze_imports() -> None:
    """Exclude the imported modules from garbage collection, once for each worker.

    Spark's Python daemon collects garbage after every task, and would otherwise visit every object of these modules.
    """
    gc.freeze()


@dataclass(frozen=True)
class LoadModules:
    """A task that imports modules, so that the worker has them for later tasks."""

    modules: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Import the modules and return the rows unchanged."""
        for module in self.modules:
            importlib.import_module(module)
        yield from batches


@contextmanager
def unexpected_errors_as_unsafe_input(expected: type[Exception] = PushdownError) -> Iterator[None]:
    """Raise UnsafeInputError for all exceptions but PushdownError and `expected`, so that Spark's reader takes over."""
    try:
        yield
    except (PushdownError, expected):
        raise
    except Exception as problem:
        line = " ".join(str(problem).split())[:_MAX_MESSAGE]
        raise UnsafeInputError(f"unexpected {type(problem).__name__}: {line}") from problem
