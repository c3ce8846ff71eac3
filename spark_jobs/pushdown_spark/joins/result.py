"""The result of a query over several scans: each reported by itself, all replaced by Spark's where one gives up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinReport, SourceReport
from pushdown_spark.contract.report_text import joins_text
from pushdown_spark.joins.hints import with_hints
from pushdown_spark.joins.measure import JoinWatch
from pushdown_spark.joins.views import NamedViews, PrivateViews
from pushdown_spark.planner import PlannedScan
from pushdown_spark.result import PushdownResult, explained
from pushdown_spark.runtime.fallback import prefer_reader_error, recoverable_error
from pushdown_spark.runtime.query_metrics import RowCount, StageWatch
from pushdown_spark.scan.base import Scan
from pushdown_spark.scan.projected import ProjectedScan

T = TypeVar("T")


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


@dataclass(frozen=True)
class NamedScan:
    """A scan of one source at one place of a query; `key` names it in reports, `view` in the query's text."""

    key: str
    view: str
    planned: PlannedScan
    scan: Scan

    def native(self, reason: str) -> NamedScan:
        """The same scan by Spark's own reader, where that can take it over."""
        fallback = self.planned.fallback(_as_it_is)
        return self if fallback is None else replace(self, scan=fallback(reason).scan)


@dataclass(frozen=True)
class ViewQuery:
    """SQL text over views, which exist only while Spark analyses the text.

    `broadcast` are sets of views whose joins Spark is to broadcast. `analysed` is what Spark made of all that over the
    frames in `over`, by view.
    """

    spark: SparkSession
    views: PrivateViews | NamedViews
    text: str
    broadcast: frozenset[frozenset[str]]
    over: Mapping[str, DataFrame]
    analysed: DataFrame

    def frame(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The text's rows, lazily, with each view standing for a frame."""
        if all(frame is self.over.get(view) for view, frame in frames.items()):
            return self.analysed
        with self.views.over(frames):
            return with_hints(self.spark.sql(self.text), self.broadcast)


class JoinedResult(PushdownResult):
    """A planned query over several scans."""

    def __init__(self, query: ViewQuery, scans: Sequence[NamedScan], joins: Sequence[JoinReport]) -> None:
        self._query = query
        self._scans = tuple(scans)
        self._joins = tuple(joins)
        self._executed: dict[str, SourceReport] | None = None
        self._may_fall_back = any(scan.native("check") is not scan for scan in scans)
        self._problem = next((scan.planned.problem for scan in scans if scan.planned.problem is not None), None)

    @property
    def df(self) -> DataFrame:
        """The result as a lazy frame."""
        return self._query.frame({scan.view: scan.scan.frame() for scan in self._scans})

    def run(self, action: Callable[[DataFrame], T], *, as_they_come: bool = False) -> T:
        """Run an action over the result; where one of our readers gives up, again with Spark's in place of all."""
        if self._may_fall_back:
            try:
                return self._run_held(action, as_they_come=as_they_come)
            except Exception as exc:
                problem = recoverable_error(exc)
                if problem is None:
                    raise
                reason = f"one of our readers gave up: {problem}"
                self._scans = tuple(scan.native(reason) for scan in self._scans)
                self._may_fall_back, self._problem = False, problem
        with prefer_reader_error(self._problem):
            return self._run_held(action, as_they_come=as_they_come)

    def _run_held(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        """Run an action, and release afterwards what scans hold for their tasks."""
        with ExitStack() as stack:
            for scan in self._scans:
                stack.enter_context(ProjectedScan(scan.scan, _as_it_is).running(self._query.spark))
            return self._run_once(action, as_they_come=as_they_come)

    def _run_once(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        with StageWatch(self._query.spark) as watch:
            counted = RowCount(self._query.spark, self._gathered(), as_they_come=as_they_come)
            joins = JoinWatch(self._query.spark)
            outcome = action(counted.frame)
        self.rows = counted.rows()
        self._executed = self._completed(watch)
        self._joins = joins.counted(self._joins)
        return outcome

    def _gathered(self) -> DataFrame:
        """The result over rows of now, where the driver fetches them by itself: Spark then knows how few they are."""
        shapes = ((scan.view, ProjectedScan(scan.scan, _as_it_is)) for scan in self._scans)
        rows = {view: (shape.fetch_local(None), shape) for view, shape in shapes}
        return self._query.frame({view: shape.frame() if few is None else few for view, (few, shape) in rows.items()})

    def _completed(self, watch: StageWatch) -> dict[str, SourceReport]:
        """The reports after a run. What Spark's readers read together is known; of each alone only if there is one."""
        reports = {scan.key: scan.scan.report() for scan in self._scans}
        silent = [scan for scan in self._scans if reports[scan.key].bytes_read is None]
        if len(silent) == 1:
            counted = watch.completed(reports[silent[0].key])
            known = silent[0].scan.counts_bytes_in_spark
            reports[silent[0].key] = counted if known else counted.model_copy(update={"bytes_read": None})
        return reports

    def report(self) -> dict[str, SourceReport]:
        """Per scan what was planned, and after run() what happened."""
        return self._executed or {scan.key: scan.scan.report() for scan in self._scans}

    def joins(self) -> tuple[JoinReport, ...]:
        """The joins of each SELECT, as written and as run; with counts after run() where they can be told."""
        return self._joins

    def explain(self) -> str:
        """The plan in words: each scan, then the joins before and after. Runs nothing."""
        lines = [line for key, report in self.report().items() for line in explained(key, report)]
        for number, join in enumerate(self._joins, 1):
            lines += [f"joins {number}", *(f"  {line}" for line in joins_text(join))]
        return "\n".join(lines)
