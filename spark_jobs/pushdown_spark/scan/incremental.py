"""Incremental scans: growing batches of tasks in file order, until a limit is reached."""

from __future__ import annotations

from abc import abstractmethod

from pyspark.sql import DataFrame

from pushdown_spark.relations.packing import Task
from pushdown_spark.scan.base import IncrementalScan, Scan

_MAX_DOUBLINGS = 10


def batch_size(batch: int) -> int:
    """Return the number of tasks in a batch: it doubles with each batch, up to 1,024."""
    return 1 << min(batch, _MAX_DOUBLINGS)


class TaskScan(Scan):
    """A scan that can run some of its tasks."""

    @property
    @abstractmethod
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in file order."""

    @abstractmethod
    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None) -> DataFrame:
        """Return the rows of some tasks, at most `cap` of each task if every row satisfies the predicate."""

    def incremental(self, limit: int) -> IncrementalScan:
        """Return the scan in batches of tasks."""
        return TaskBatches(self, limit)


class TaskBatches(IncrementalScan):
    """Runs the tasks of a scan in batches."""

    def __init__(self, scan: TaskScan, limit: int) -> None:
        self._scan = scan
        self._limit = limit
        self._pending = scan.tasks
        self._batch = 0

    def next_frame(self) -> DataFrame | None:
        """Return the rows of the next batch, or None after the last task."""
        size = batch_size(self._batch)
        tasks, self._pending = self._pending[:size], self._pending[size:]
        if not tasks:
            return None
        self._batch += 1
        return self._scan.run_tasks(tasks, self._batch, self._limit)


class OnePiece(IncrementalScan):
    """A scan whose rows come in one piece."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame: DataFrame | None = frame

    def next_frame(self) -> DataFrame | None:
        """Return the DataFrame, then None."""
        frame, self._frame = self._frame, None
        return frame
