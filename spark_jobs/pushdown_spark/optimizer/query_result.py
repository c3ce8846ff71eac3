"""The result of a query over several scans, with a report for each, and the fallback to Spark's readers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinReport, SourceReport
from pushdown_spark.contract.join_report_text import joins_text
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.optimizer.executed_joins import JoinWatch
from pushdown_spark.optimizer.key_guard import KeyGuard
from pushdown_spark.optimizer.passes.add_broadcast_hints import add_broadcast_hints
from pushdown_spark.optimizer.query_context import QueryScan
from pushdown_spark.result import PushdownResult, plan_lines
from pushdown_spark.runtime.fallback import rejected_query_as_unsafe_input
from pushdown_spark.runtime.query_metrics import RowCount, StageCounts, count_stages
from pushdown_spark.scan.advice import with_advice
from pushdown_spark.scan.base_scan import WorkerUse, run_context

T = TypeVar("T")


@dataclass(frozen=True)
class AnalyzedQuery:
    """SQL over views that exist only while Spark analyzes it.

    `analyze` has Spark analyze SQL over views. `broadcast` are sets of views whose joins are to be broadcast.
    `query_frame` is the query over `frames`, which are the DataFrames of the views. `guards` are the guards of the keys
    in the SQL or in the scans.
    """

    spark: SparkSession
    analyze: Callable[[str, Mapping[str, DataFrame]], DataFrame]
    sql: str
    broadcast: frozenset[frozenset[str]]
    frames: Mapping[str, DataFrame]
    query_frame: DataFrame
    guards: Collection[KeyGuard] = ()

    def with_frames(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return the query over other DataFrames for the views."""
        if not self.guards and all(frame is self.frames.get(view) for view, frame in frames.items()):
            return self.query_frame
        guarded_frames = dict(frames)
        for guard in self.guards:
            guarded_frames[guard.view] = guard.apply(guarded_frames[guard.view])
        return add_broadcast_hints(self.analyze(self.sql, guarded_frames), self.broadcast)


class QueryResult(PushdownResult):
    """A planned query over several scans."""

    def __init__(self, query: AnalyzedQuery, scans: Sequence[QueryScan], joins: Sequence[JoinReport]) -> None:
        self._query = query
        self._scans = tuple(scans)
        self._joins = tuple(joins)
        self._reports_after_run: Callable[[], dict[str, SourceReport]] | None = None
        super().__init__(
            can_fall_back=any(scan.planned_scan.has_fallback for scan in scans),
            problem=next((scan.planned_scan.problem for scan in scans if scan.planned_scan.problem is not None), None),
        )

    def _frame(self) -> DataFrame:
        return self._query_over({scan.view: scan.scan.frame() for scan in self._scans})

    def _query_over(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        with rejected_query_as_unsafe_input() if self._can_fall_back else nullcontext():
            return self._query.with_frames(frames)

    def has_accepted_guards(self) -> bool:
        """Return whether Spark accepts the query with the guards of its keys, which are not deterministic."""
        try:
            self._query.with_frames(self._query.frames)
        except (AnalysisException, Py4JJavaError):
            return False
        return True

    def _fall_back(self, reason: str) -> None:
        self._scans = tuple(scan.by_spark(reason) for scan in self._scans)

    def _run(self, action: Callable[[DataFrame], T], *, single_pass: bool) -> T:
        with ExitStack() as scans:
            for scan in self._scans:
                scans.enter_context(run_context(scan.scan, self._query.spark))
            with count_stages(self._query.spark) as stage_counts:
                row_count = RowCount(self._query.spark, self._frame_with_local_rows(), single_pass=single_pass)
                joins = JoinWatch(self._query.spark)
                outcome = action(row_count.frame)
            self.rows = row_count.rows()
            self._reports_after_run = self._prepare_reports(stage_counts)
            self._joins = joins.with_row_counts(self._joins)
            return outcome

    def _frame_with_local_rows(self) -> DataFrame:
        """Return the result. Scans that the driver fetches itself are fetched now, so that Spark knows their size."""
        frames = {}
        for scan in self._scans:
            rows = scan.scan.fetch_local(None)
            frames[scan.view] = scan.scan.frame() if rows is None else rows
        return self._query_over(frames)

    def _prepare_reports(self, stage_counts: Callable[[], StageCounts]) -> Callable[[], dict[str, SourceReport]]:
        """Return the function that makes the reports after a run.

        Spark counts the bytes of all its readers together, so they belong to a scan only if it is the only one.
        """
        scans = [(scan.key, scan.scan, scan.scan.report_of_run()) for scan in self._scans]
        by_spark = [(key, scan) for key, scan, report in scans if scan.is_by_spark or report().bytes_read is None]
        counts = stage_counts() if len(by_spark) == 1 else None

        def complete() -> dict[str, SourceReport]:
            reports = {key: report() for key, _, report in scans}
            if counts is not None:
                ((key, scan),) = by_spark
                reports[key] = scan.add_spark_counts(reports[key], counts)
            return reports

        return complete

    def report(self) -> dict[str, SourceReport]:
        """Return for each scan what was planned and, after run(), what happened."""
        if self._reports_after_run is not None:
            reports = self._reports_after_run()
            return {scan.key: with_advice(reports[scan.key], scan.predicate) for scan in self._scans}
        return {scan.key: scan.scan.report() for scan in self._scans}

    def joins(self) -> tuple[JoinReport, ...]:
        """Return the joins of each SELECT, as written and as run, with row counts after run()."""
        return self._joins

    def progress(self) -> Sequence[SourceProgress | None]:
        """Return the progress of each scan."""
        return [scan.scan.progress() for scan in self._scans]

    @property
    def worker_use(self) -> WorkerUse:
        """The most that a scan uses workers."""
        return max(scan.scan.worker_use for scan in self._scans)

    def explain(self) -> str:
        """Describe the plan: each scan, then the joins before and after. This runs nothing."""
        lines = [line for key, report in self.report().items() for line in plan_lines(key, report)]
        return "\n".join([*lines, *explained_joins(self._joins)])


def explained_joins(joins: Sequence[JoinReport]) -> list[str]:
    """Return the lines that describe the joins of each SELECT."""
    lines = []
    for number, join in enumerate(joins, 1):
        lines += [f"joins {number}", *(f"  {line}" for line in joins_text(join))]
    return lines
