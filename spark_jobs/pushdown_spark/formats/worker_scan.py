"""Scans by Python workers, in tasks: the DataFrame, incremental scans, progress, and the report."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import FileReport, Skipped, SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.formats.scan_task import AddCounts, Metrics, ScanTask, sum_metrics
from pushdown_spark.scan.base_scan import Scan, WorkerUse
from pushdown_spark.scan.packing import Task
from pushdown_spark.scan.plan import ScanPlan
from pushdown_spark.scan.task_counts import WHOLE_SCAN, TaskCounts, counts_of_batch, group_by_file, most_read_files
from pushdown_spark.scan.tasks import progress_of, tasks_of, with_constants_by_task
from pushdown_spark.sources.request import ScanRequest

Plan = TypeVar("Plan", bound=ScanPlan)

_MAX_BATCH = 1_024
"""The maximum number of tasks in a batch of an incremental scan. Each batch has twice as many as the last one."""


class WorkerScan(Scan, Generic[Plan, Metrics]):
    """A scan of one source by Python workers, whose tasks count what they read of each file."""

    carrier: ClassVar[str | None] = None
    """Where lines are searched, or None for formats without lines."""

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        plan: Plan,
        *,
        read_fraction: float = 1.0,
    ) -> None:
        """`read_fraction` is the fraction of every file that is read."""
        self._spark = spark
        self._request = request
        self._plan = plan
        # Not `TaskCounts[...]()`: its type argument would be pickled, and workers would import this module.
        counts: TaskCounts[dict[str, Metrics]] = TaskCounts()
        self._counts = spark.sparkContext.accumulator({}, counts)
        self._tasks = tasks_of(spark, request, plan.files, read_fraction=read_fraction)

    @property
    def worker_use(self) -> WorkerUse:
        """Python workers run all tasks."""
        return WorkerUse.ALWAYS

    @abstractmethod
    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None, skip: tuple[int, ...]) -> DataFrame:
        """Return the rows of some tasks.

        Each task may stop after `cap` rows, unless `cap` is None. `skip` has the number of rows that each task has
        returned before. It is empty in the first batch.
        """

    def is_complete(self, batch: int, number: int, cap: int) -> bool:
        """Return whether the scan needs no more rows of a task after a batch with a cap.

        By default, a task either ignores the cap, or all its rows satisfy the predicate, so that they reach the limit.
        """
        return True

    def frame(self) -> DataFrame:
        """Return all rows, with the requested implicit columns."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.run_tasks(self._tasks, WHOLE_SCAN, None, ())

    def incremental(self, limit: int) -> Iterator[DataFrame]:
        """Yield the rows, beginning with those of the first tasks, from batches of more and more tasks.

        A task returns as many rows as the cap of its batch. If it has more, the next batch begins with it, with a
        higher cap. Each batch runs to its end, so that an early stop kills no workers.
        """
        waiting = [_TaskSlice(task, 0, max(limit, 1)) for task in self._tasks]
        for batch in itertools.count(WHOLE_SCAN + 1):
            if not waiting:
                return
            size = min(1 << (batch - 1), _MAX_BATCH)
            slices, waiting = waiting[:size], waiting[size:]
            cap = max(part.cap for part in slices)
            tasks = tuple(part.task for part in slices)
            yield self.run_tasks(tasks, batch, cap, tuple(part.skip for part in slices))
            unfinished = [
                replace(part, skip=part.skip + cap, cap=cap * 8)
                for number, part in enumerate(slices)
                if not self.is_complete(batch, number, cap)
            ]
            waiting = unfinished + waiting

    def progress(self) -> SourceProgress:
        """Return the progress of the finished tasks of the whole scan."""
        counts = counts_of_batch(self._counts.value, WHOLE_SCAN)
        rows = sum(file.rows_returned for task in counts.values() for file in task.values())
        return progress_of(self._tasks, counts.keys(), rows)

    def report(self) -> SourceReport:
        """Return the plan, and the counts of the tasks that have run."""
        report = self._plan.report(self._request, self.carrier)
        if not self._counts.value:
            return report
        files = {path: sum_metrics(parts) for path, parts in group_by_file(self._counts.value.values()).items()}
        total = sum_metrics(files.values())
        return report.model_copy(
            update={
                "files_read": len(files),
                "bytes_read": total.bytes_read,
                "rows_decoded": total.rows_decoded,
                "rows_after_pushdown": total.rows_returned,
                "skipped": {
                    Skipped.FILES: self._plan.count_skipped(len(files)),
                    **total.count_skipped(report.bytes_total),
                },
                "units": total.units,
                "files": most_read_files(
                    FileReport(path=path, bytes_read=file.bytes_read, rows_decoded=file.rows_decoded, units=file.units)
                    for path, file in files.items()
                ),
                **total.details,
            }
        )

    def _counter(self, batch: int) -> AddCounts[Metrics]:
        """Return the function that adds the counts of a task to those of the scan."""
        counts = self._counts

        def add(number: int, metrics: dict[str, Metrics]) -> None:
            counts.add({(batch, number): metrics})

        return add

    def _map(self, task: ScanTask[Any, Metrics], schema: StructType | str) -> DataFrame:
        """Return the rows of the tasks, one partition for each."""
        count = len(task.tasks)
        return self._spark.range(0, count, 1, max(count, 1)).mapInArrow(task, schema)

    def _with_constants(self, rows: DataFrame, tasks: Sequence[Task]) -> DataFrame:
        """Add the implicit columns and partition columns to the rows of some tasks."""
        return with_constants_by_task(rows, self._request, [self._plan.files[task.file].uri for task in tasks])


@dataclass(frozen=True)
class _TaskSlice:
    """A task, the number of rows that earlier batches returned, and the maximum for the next batch."""

    task: Task
    skip: int
    cap: int
