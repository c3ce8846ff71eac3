"""Scans by a columnar reader: the DataFrame, incremental scans, and the report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import FileReport, ReaderChoice, SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Fold
from pushdown_spark.formats.bound_predicate import bound_conjuncts, first_reason
from pushdown_spark.formats.readable_types import check_columns
from pushdown_spark.formats.scan_task import FileScanTask, Metrics, Query, sum_metrics
from pushdown_spark.relations.listing import InputFile
from pushdown_spark.relations.packing import Task
from pushdown_spark.relations.partition_directories import listed_files
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.storage import storage_for
from pushdown_spark.scan.base import IncrementalScan, Scan, batch_size
from pushdown_spark.scan.metrics import WHOLE_SCAN, TaskCounts, by_file, most_read_files, of_batch
from pushdown_spark.scan.plan import ScanPlan
from pushdown_spark.scan.tasks import progress_of, tasks_of, with_constants


@dataclass(frozen=True)
class ColumnarPlan(ScanPlan, Generic[Query]):
    """A planned scan. If it is `exact`, all its rows satisfy the predicate.

    With `is_trusted`, Spark does not evaluate the predicate of an exact scan again.
    """

    query: Query
    exact: bool
    is_trusted: bool = False


class ColumnarScan(Scan, Generic[Query, Metrics]):
    """A scan of one source by a columnar reader."""

    task_class: type[FileScanTask[Query, Metrics]]
    """The function that the workers run."""
    is_columnar: ClassVar[bool] = True
    """Whether the format stores each column separately, so that only the required ones are read."""

    def __init__(
        self, spark: SparkSession, request: ScanRequest, plan: ColumnarPlan[Query], notes: tuple[str, ...] = ()
    ) -> None:
        self._spark = spark
        self._request = request
        self._plan = plan
        self._notes = notes
        # Not `TaskCounts[...]()`: its type argument would be pickled, and workers would import this module.
        counts: TaskCounts[dict[str, Metrics]] = TaskCounts()
        self._metrics = spark.sparkContext.accumulator({}, counts)
        share = len(request.read_schema) / max(len(request.schema), 1) if self.is_columnar else 1.0
        self._tasks = tasks_of(spark, request, plan.files, share=share)

    @property
    def is_exact(self) -> bool:
        """Whether the filter is the whole predicate, and the user wants no re-evaluation by Spark."""
        return self._plan.exact and self._plan.is_trusted

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The scan's tasks, in file order."""
        return self._tasks

    def frame(self) -> DataFrame:
        """Return the matching rows, with the requested implicit columns."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.run_tasks(self._tasks, WHOLE_SCAN, None)

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None) -> DataFrame:
        """Return the rows of some tasks. Tasks stop after `cap` rows if all their rows satisfy the predicate."""
        metrics = self._metrics

        def report(number: int, counts: dict[str, Metrics]) -> None:
            metrics.add({(batch, number): counts})

        plan = self._plan
        scan = self.task_class(tasks, plan.query, report, cap if plan.exact else None)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        rows = numbers.mapInArrow(scan, self._request.read_schema)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(rows, self._request, uris)

    def incremental(self, limit: int) -> IncrementalScan:
        """Return the scan in batches of tasks."""
        return _TaskBatches(self, limit)

    def progress(self) -> SourceProgress:
        """Return what the finished tasks of the whole scan have searched."""
        counts = of_batch(self._metrics.value, WHOLE_SCAN)
        rows = sum(file.rows_returned for task in counts.values() for file in task.values())
        return progress_of(self._tasks, counts.keys(), rows)

    def report(self) -> SourceReport:
        """Return the plan, and the counts of the tasks that have run."""
        planned = self._plan.report(self._request, self._notes)
        if not self._metrics.value:
            return planned
        files = {path: sum_metrics(parts) for path, parts in by_file(self._metrics.value.values()).items()}
        total = sum_metrics(files.values())
        return planned.model_copy(
            update={
                "files_read": len(files),
                "bytes_read": total.bytes_read,
                "rows_decoded": total.rows_decoded,
                "rows_after_pushdown": total.rows_returned,
                "skipped": {"files": self._plan.count_skipped(len(files)), **total.count_skipped(planned.bytes_total)},
                "units": total.units,
                "files": most_read_files(
                    FileReport(path=path, bytes_read=file.bytes_read, rows_decoded=file.rows_decoded, units=file.units)
                    for path, file in files.items()
                ),
                **total.details,
            }
        )


class _TaskBatches(IncrementalScan, Generic[Query, Metrics]):
    """A scan in growing batches of tasks, in file order."""

    def __init__(self, scan: ColumnarScan[Query, Metrics], limit: int) -> None:
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


def check_columnar_request(request: ScanRequest, *, needs_predicate: bool = True) -> None:
    """Raise UnsupportedError if no columnar reader of ours can take a scan.

    With `needs_predicate`, a scan without predicate is left to Spark's reader unless the user asks for ours.
    """
    request.check_allowed()
    if needs_predicate and request.predicate is None and request.source.reader is ReaderChoice.AUTO:
        raise UnsupportedError("no predicate to push")
    request.check_any_reader()
    check_columns(request)


def prepare_files(
    spark: SparkSession, request: ScanRequest, fold: Fold
) -> tuple[list[Pushdown[Node]], tuple[InputFile, ...]]:
    """Bind the conjuncts and list the files of a scan. Raises UnsupportedError if Spark's reader must take it."""
    conjuncts = bound_conjuncts(spark, request, fold)
    if request.predicate is not None and not any(conjunct.artifact is not None for conjunct in conjuncts):
        raise UnsupportedError(f"no conjunct can be evaluated over columns: {first_reason(conjuncts)}")
    storage = storage_for(spark, request.uris, request.source.options)
    return conjuncts, listed_files(request, storage)
