"""Results of queries: a lazy DataFrame, its explanation and, after a run, the report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TypeVar

from py4j.java_gateway import JavaObject
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinReport, SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.errors import PushdownError, UnsafeInputError
from pushdown_spark.expressions.session_settings import temporary_settings
from pushdown_spark.runtime.fallback import prefer_reader_error, recoverable_error
from pushdown_spark.runtime.jvm_gateway import java_class, java_list
from pushdown_spark.runtime.query_metrics import RowCount, StageCounts, count_stages
from pushdown_spark.runtime.spark_internals import collect_rows, local_dataframe
from pushdown_spark.scan.advice import with_advice
from pushdown_spark.scan.base_scan import ProjectedScan, WorkerUse, run_context
from pushdown_spark.sources.request import ScanRequest

T = TypeVar("T")

MAX_COLLECTED_LIMIT = 100_000
"""The largest LIMIT whose rows the driver collects. Executors keep more rows on disk until the action has run."""
_SEARCHED_ROWS = 1_000
"""Rows that are searched at a time."""


class PushdownResult(ABC):
    """A planned query: a lazy DataFrame, its explanation and, after a run, the report."""

    rows: int | None = None
    """Rows of the result after run(), or None before."""

    def __init__(self, *, can_fall_back: bool, problem: PushdownError | None) -> None:
        """`can_fall_back` is whether Spark's readers can replace the pushdown readers.

        `problem` is the error that ruled out the pushdown reader during planning.
        """
        self._can_fall_back = can_fall_back
        self._problem = problem

    @property
    def df(self) -> DataFrame:
        """The result as a lazy DataFrame."""
        try:
            return self._frame()
        except UnsafeInputError as problem:
            if not self._can_fall_back:
                raise
            self._use_fallback(problem)
            return self._frame()

    @abstractmethod
    def _frame(self) -> DataFrame:
        """Return the result as a lazy DataFrame. Raises UnsafeInputError if only the fallback has one."""

    def run(self, action: Callable[[DataFrame], T], *, single_pass: bool = False) -> T:
        """Run an action over the result, and count on the executors what it reads and returns.

        Set `single_pass` for an action that reads the rows once and in their order, such as a write; counting them is
        then nearly free. Do not set it for an action that sorts all rows: Spark reads them twice, and the count is
        wrong.

        If the pushdown reader fails on the input, the action runs again over Spark's own reader. A failed action must
        therefore leave no output. The error of the pushdown reader is raised only if Spark's reader fails too.
        """
        if self._can_fall_back:
            try:
                return self._run(action, single_pass=single_pass)
            except Exception as failure:
                problem = recoverable_error(failure)
                if problem is None:
                    raise
                self._use_fallback(problem)
        with prefer_reader_error(self._problem):
            return self._run(action, single_pass=single_pass)

    @abstractmethod
    def _run(self, action: Callable[[DataFrame], T], *, single_pass: bool) -> T:
        """Run an action once."""

    def _use_fallback(self, problem: PushdownError) -> None:
        self._fall_back(f"the pushdown reader failed: {problem}")
        self._can_fall_back, self._problem = False, problem

    @abstractmethod
    def _fall_back(self, reason: str) -> None:
        """Replace the pushdown readers with Spark's. `reason` goes into the report."""

    @abstractmethod
    def report(self) -> dict[str, SourceReport]:
        """Return the report of each source: the plan and, after run(), the counts of the run."""

    @abstractmethod
    def progress(self) -> Sequence[SourceProgress | None] | None:
        """Return the progress of each scan while run() runs in another thread, or None for a scan without progress.

        Returns None if a LIMIT may end the scans at any time.
        """

    @abstractmethod
    def explain(self) -> str:
        """Return the plan as text: reader and reason, and how far each conjunct is pushed down. Runs nothing."""

    @property
    def worker_use(self) -> WorkerUse:
        """Whether Python workers run the scans."""
        return WorkerUse.NEVER

    def joins(self) -> tuple[JoinReport, ...]:
        """Return the joins of each SELECT with joins, as written and as run."""
        return ()


class ScanResult(PushdownResult):
    """A planned query over one source."""

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        scan: ProjectedScan,
        *,
        limit: int | None = None,
        counts_by_scan: bool = False,
    ) -> None:
        """With `counts_by_scan`, the result has the rows that the scan counts."""
        super().__init__(can_fall_back=scan.fallback is not None, problem=scan.problem)
        self._counts_by_scan = counts_by_scan
        self._spark = spark
        self._name = request.source.name
        self._predicate = request.predicate
        self._scan = scan
        self._limit = limit
        self._report_after_run: Callable[[], SourceReport] | None = None

    def _frame(self) -> DataFrame:
        return self._scan.frame() if self._limit is None else self._scan.limit(self._limit)

    def _fall_back(self, reason: str) -> None:
        assert self._scan.fallback is not None
        self._scan = self._scan.fallback(reason)

    def _run(self, action: Callable[[DataFrame], T], *, single_pass: bool) -> T:
        with run_context(self._scan.scan, self._spark):
            if self._counts_by_scan:
                return self._run_with_scan_count(action)
            with count_stages(self._spark) as stage_counts, self._limited_rows() as frame:
                row_count = RowCount(self._spark, frame, single_pass=single_pass)
                outcome = action(row_count.frame)
            self.rows = row_count.rows()
            self._report_after_run = self._prepare_report(stage_counts())
            return outcome

    def _run_with_scan_count(self, action: Callable[[DataFrame], T]) -> T:
        """Run an action without counting the rows again, because that takes time in a scan that does little else."""
        with count_stages(self._spark) as stage_counts:
            rows = self._scan.fetch_local(None)
            outcome = action(self._frame() if rows is None else rows)
        self._report_after_run = self._prepare_report(stage_counts())
        self.rows = self._report_after_run().rows_decoded
        return outcome

    def _prepare_report(self, counts: StageCounts) -> Callable[[], SourceReport]:
        """Return the function that makes the report after a run, with Spark's metrics where the scan has no counts."""
        scan = self._scan.scan
        report = scan.report_of_run()

        def complete() -> SourceReport:
            run_report = report()
            if run_report.cost is not None:
                run_report = run_report.model_copy(update={"cost": run_report.cost.with_measurement(counts.seconds)})
            if run_report.bytes_read is None:
                run_report = scan.add_spark_counts(run_report, counts)
            return run_report.model_copy(update={"rows_returned": self.rows})

        return complete

    @contextmanager
    def _limited_rows(self) -> Iterator[DataFrame]:
        """Return the DataFrame to act on. With a limit, an incremental scan has already read the rows."""
        rows = self._scan.fetch_local(self._limit)
        if rows is not None:
            yield rows
        elif self._limit is None:
            yield self._frame()
        elif self._limit <= MAX_COLLECTED_LIMIT:
            rows = _collect(self._spark, self._scan, self._limit)
            yield self._frame() if rows is None else rows
        else:
            disk_frames: list[DataFrame] = []
            try:
                rows = _persist(self._scan, self._limit, disk_frames)
                yield self._frame() if rows is None else rows
            finally:
                for frame in disk_frames:
                    frame.unpersist()

    def report(self) -> dict[str, SourceReport]:
        """Return the report of the source: the plan and, after run(), the counts of the run."""
        if self._report_after_run is not None:
            return {self._name: with_advice(self._report_after_run(), self._predicate)}
        return {self._name: self._scan.scan.report()}

    def progress(self) -> Sequence[SourceProgress | None] | None:
        """Return the progress of the scan, None with a LIMIT."""
        return None if self._limit is not None else (self._scan.scan.progress(),)

    @property
    def worker_use(self) -> WorkerUse:
        """Whether Python workers run the scan."""
        return self._scan.scan.worker_use

    def explain(self) -> str:
        """Return the plan as text. Runs nothing."""
        lines = list(plan_lines(self._name, self._scan.scan.report()))
        if self._limit is not None:
            lines.append(f"  limit {self._limit}")
        return "\n".join(lines)


def plan_lines(name: str, report: SourceReport) -> Iterator[str]:
    """Yield the plan of one source, line by line."""
    yield f"{name}: {report.reader} reader, because {report.reason}"
    yield f"  columns read: {', '.join(report.columns) or 'none'}"
    for conjunct in report.conjuncts:
        outcome = f"pushed as {conjunct.pushed_as}" if conjunct.pushed_as else f"evaluated by Spark: {conjunct.reason}"
        yield f"  {conjunct.sql}: {conjunct.exactness}, {outcome}"
    yield from (f"  SQL: {statement}" for statement in report.statements)
    yield from (f"  note: {note}" for note in report.notes)


def _collect(spark: SparkSession, scan: ProjectedScan, limit: int) -> DataFrame | None:
    """Collect at most `limit` rows on the driver, front to back; None if Java cannot represent a string of a row."""
    # The older classes of dates have no days from 1582-10-05 to 1582-10-14.
    with temporary_settings(spark, {"spark.sql.datetime.java8API.enabled": "true"}):
        rows, like = _collect_rows(spark, scan, limit)
    return None if _has_replaced_bytes(spark, rows) else local_dataframe(spark, rows, like)


def _collect_rows(spark: SparkSession, scan: ProjectedScan, limit: int) -> tuple[JavaObject, DataFrame]:
    """Return a Java list of at most `limit` rows, and a DataFrame with their schema."""
    pieces = scan.scan.incremental(limit)
    if pieces is None:
        frame = scan.limit(limit)
        return collect_rows(frame), frame
    rows, last = java_list(spark), None
    while rows.size() < limit and (piece := next(pieces, None)) is not None:
        last = scan.project(piece)
        rows.addAll(collect_rows(last))
    return rows.subList(0, min(limit, rows.size())), scan.limit(limit) if last is None else last


def _has_replaced_bytes(spark: SparkSession, rows: JavaObject) -> bool:
    """Return whether a string has the character that Java puts in place of bytes that are not UTF-8."""
    builder, size = java_class(spark, "java.lang.StringBuilder"), rows.size()
    pieces = (rows.subList(start, min(start + _SEARCHED_ROWS, size)) for start in range(0, size, _SEARCHED_ROWS))
    return any(builder().append(piece).indexOf("\ufffd") >= 0 for piece in pieces)


def _persist(scan: ProjectedScan, limit: int, disk_frames: list[DataFrame]) -> DataFrame | None:
    """Return at most `limit` rows, persisted piece by piece; None if Spark's LIMIT must stop the scan.

    The pieces are appended to `disk_frames`. The caller unpersists them after the action.
    """
    pieces = scan.scan.incremental(limit)
    count = 0
    while pieces is not None and count < limit and (piece := next(pieces, None)) is not None:
        disk_frames.append(scan.project(piece).persist(StorageLevel.DISK_ONLY))
        count += disk_frames[-1].count()
    return reduce(DataFrame.unionAll, disk_frames).limit(limit) if disk_frames else None
