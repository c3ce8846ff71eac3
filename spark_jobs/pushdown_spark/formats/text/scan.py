"""Scans of JSON lines and CSV by Python workers: they search raw bytes, and Spark parses only the candidate lines.

Filtering raw bytes before parsing follows Sparser (Palkar et al., VLDB 2018). Spark parses the candidates with the same
options and re-evaluates the predicate, so this reader only has to keep every line that may satisfy it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import FileReport, SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.formats.text.line_filter import LineFilterTask, TextTask, total
from pushdown_spark.formats.text.line_parser import parse_lines
from pushdown_spark.formats.text.planner import TextPlan
from pushdown_spark.relations.packing import Task
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.scan.base import IncrementalScan, Scan, batch_size
from pushdown_spark.scan.metrics import WHOLE_SCAN, TaskCounts, by_file, most_read_files, of_batch
from pushdown_spark.scan.tasks import progress_of, tasks_of, with_constants

_LINE_SCHEMA = "value string"


class TextScan(Scan):
    """A byte-search scan of one source by Python workers."""

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        plan: TextPlan,
        notes: tuple[str, ...],
    ) -> None:
        self._notes = notes
        self._spark = spark
        self._request = request
        self._plan = plan
        self._counts = spark.sparkContext.accumulator({}, TaskCounts[TextTask]())
        self._tasks = tasks_of(spark, request, plan.files)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The scan's tasks, in file order."""
        return self._tasks

    def frame(self) -> DataFrame:
        """Return the candidate lines, parsed by Spark, with the requested implicit columns."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.run_tasks(self._tasks, WHOLE_SCAN, (), None)

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, skip: tuple[int, ...], cap: int | None) -> DataFrame:
        """Return the rows of some tasks. Each task skips `skip` candidates and returns the next `cap` candidates."""
        counts = self._counts

        def report(number: int, count: TextTask) -> None:
            counts.add({(batch, number): count})

        plan = self._plan
        scan = LineFilterTask(tasks, plan.required, plan.ambiguous, plan.syntax, report, skip, cap)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        lines = numbers.mapInArrow(scan, _LINE_SCHEMA)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(parse_lines(self._spark, self._request, lines), self._request, uris)

    def is_exhausted(self, batch: int, number: int) -> bool:
        """Return whether a task of a batch reached the end of its splits."""
        return self._counts.value[batch, number].is_exhausted

    def report(self) -> SourceReport:
        """Return the plan, and the counts of the tasks that have run."""
        planned = self._plan.report(self._request, self._notes, "workers")
        tasks = self._counts.value.values()
        if not tasks:
            return planned
        files = {path: total(counts) for path, counts in by_file(task.files for task in tasks).items()}
        sums = total(files.values())
        return planned.model_copy(
            update={
                "files_read": len(files),
                "bytes_read": sums.bytes_read,
                "bytes_searched": sums.bytes_searched,
                "rows_decoded": sums.candidate_lines,
                "rows_after_pushdown": sums.candidate_lines,
                "skipped": {
                    "files": self._plan.count_skipped(len(files)),
                    "bytes never parsed": sums.bytes_searched - sums.candidate_bytes,
                },
                "files": most_read_files(
                    FileReport(path=path, bytes_read=count.bytes_read, rows_decoded=count.candidate_lines)
                    for path, count in files.items()
                ),
            }
        )

    def progress(self) -> SourceProgress:
        """Return what the finished tasks of the whole scan have searched. The rows are the candidate lines."""
        counts = of_batch(self._counts.value, WHOLE_SCAN)
        lines = sum(file.candidate_lines for task in counts.values() for file in task.files.values())
        return progress_of(self._tasks, counts.keys(), lines)

    def incremental(self, limit: int) -> IncrementalScan:
        """Return the scan in batches of tasks."""
        return _TextBatches(self, limit)


class _TextBatches(IncrementalScan):
    """A scan in growing batches of tasks, in file order. An early stop does not have to kill workers."""

    def __init__(self, scan: TextScan, limit: int) -> None:
        self._scan = scan
        self._pending = [_TaskSlice(task, 0, max(limit, 1)) for task in scan.tasks]
        self._batch = 0
        self._running: list[_TaskSlice] = []

    def next_frame(self) -> DataFrame | None:
        """Return the rows of the next batch, None after the last. Batches grow and begin with unfinished tasks."""
        self._requeue()
        if not self._pending:
            return None
        size = batch_size(self._batch)
        self._running, self._pending = self._pending[:size], self._pending[size:]
        self._batch += 1
        cap = max(part.cap for part in self._running)
        tasks = tuple(part.task for part in self._running)
        return self._scan.run_tasks(tasks, self._batch, tuple(part.skip for part in self._running), cap)

    def _requeue(self) -> None:
        """Put the unfinished tasks of the last batch first, with a higher cap."""
        cap = max((part.cap for part in self._running), default=0)
        unfinished = [
            replace(part, skip=part.skip + cap, cap=cap * 8)
            for number, part in enumerate(self._running)
            if not self._scan.is_exhausted(self._batch, number)
        ]
        self._pending = unfinished + self._pending
        self._running = []


@dataclass(frozen=True)
class _TaskSlice:
    """A task, the number of candidates that earlier batches returned, and the maximum for the next batch."""

    task: Task
    skip: int
    cap: int
