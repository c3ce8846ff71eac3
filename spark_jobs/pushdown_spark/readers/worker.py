"""What Python workers do before the work of a task."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@cache
def spare_the_collector() -> None:
    """Take what this worker has imported out of garbage collection, once for all its tasks.

    Spark's Python daemon collects all garbage after every task, and going through the objects of the imported modules
    took 30 ms of processor time each time, as much as searching 100 MB.
    """
    gc.freeze()


@dataclass(frozen=True)
class Loading:
    """A task that does nothing but load modules, so that the worker has them for the tasks to come."""

    modules: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as they are."""
        for module in self.modules:
            importlib.import_module(module)
        yield from batches
