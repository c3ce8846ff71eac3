"""The part of a columnar scan that runs in Python workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from pushdown_spark.relations.listing import Split, Task
from pushdown_spark.runtime.worker import freeze_imports, unexpected_errors_as_unsafe_input

Query = TypeVar("Query")
"""The part of a scan that the format's reader needs."""
Metrics = TypeVar("Metrics")
"""The counts of one file in one task."""


@dataclass(frozen=True)
class FileScanTask(ABC, Generic[Query, Metrics]):
    """The tasks of a scan. Spark calls it with the numbers of the tasks to run.

    `report` receives the number of a task and its counts by file when the task is done. A task stops after `cap` rows,
    unless `cap` is None.
    """

    tasks: tuple[Task, ...]
    query: Query
    report: Callable[[int, dict[str, Metrics]], None]
    cap: int | None = None

    @abstractmethod
    def new_metrics(self) -> Metrics:
        """Return counts of zero."""

    @abstractmethod
    def split_reader(self) -> Callable[[Split, Metrics], Iterator[pa.RecordBatch]]:
        """Return a function that reads the matching rows of a split. One call of the task uses one reader."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of the tasks whose numbers are in the first column."""
        # Spark runs as many tasks as there are cores, so threads in a task do not help.
        pa.set_cpu_count(1)
        freeze_imports()
        read = self.split_reader()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with unexpected_errors_as_unsafe_input():
                    yield from self._run(number, read)

    def _run(self, number: int, read: Callable[[Split, Metrics], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        metrics: dict[str, Metrics] = {}
        remaining = self.cap
        for split in self.tasks[number].splits:
            for batch in read(split, metrics.setdefault(split.path, self.new_metrics())):
                if remaining is not None:
                    batch = batch.slice(0, remaining)
                    remaining -= batch.num_rows
                yield batch
                if remaining == 0:
                    break
            if remaining == 0:
                break
        self.report(number, metrics)
