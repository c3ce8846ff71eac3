"""The result of a query: a lazy frame, its explanation, and after a run the report of what happened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinReport, SourceReport
from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.parser import shortened
from pushdown_spark.failures import typed
from pushdown_spark.fallback import blamed_on, left_to_spark
from pushdown_spark.gateway import java_rows, local_frame
from pushdown_spark.readers.protocol import GatheringScan, HoldingScan, LimitingScan, MixedScan, Scan, TunedScan
from pushdown_spark.row_count import RowCount
from pushdown_spark.task_metrics import StageWatch

T = TypeVar("T")

MAX_COLLECTED_LIMIT = 100_000
"""Up to this many rows are gathered on the driver; more are kept on the executors' disks until the action has run."""


class PushdownResult(ABC):
    """A planned query: a lazy frame, its explanation, and after a run the report of what happened."""

    rows: int | None = None
    """Rows of the result after run(), None before."""

    @property
    @abstractmethod
    def df(self) -> DataFrame:
        """The result as a lazy frame."""

    @abstractmethod
    def run(self, action: Callable[[DataFrame], T], *, as_they_come: bool = False) -> T:
        """Run an action over the result, counting on the executors what it read and returned.

        An action that does nothing but write or collect the rows `as_they_come` has them counted at next to no cost;
        of one that sorts them all, Spark reads them twice, and that count would be wrong.

        If our reader meets input that it must not judge by its bytes, or that it cannot read, the action is run again
        over Spark's own reader; the action must therefore leave nothing behind when it fails. What our reader says of a
        file that it cannot read is raised only if Spark's reader fails as well.
        """

    @abstractmethod
    def report(self) -> dict[str, SourceReport]:
        """Per source what was planned, and after run() what happened."""

    @abstractmethod
    def explain(self) -> str:
        """The plan in words: reader and reason, each conjunct and what becomes of it. Runs nothing."""

    def joins(self) -> tuple[JoinReport, ...]:
        """The joins of each SELECT that has any, as written and as run."""
        return ()


class ScanResult(PushdownResult):
    """A planned query over one source."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        shape: Shape,
        fallback: Callable[[str], Shape] | None,
        *,
        limit: int | None = None,
        every_row: bool = False,
        problem: PushdownError | None = None,
    ) -> None:
        """`problem` is what our reader found wrong with the files, where it therefore left the scan to Spark's."""
        self._problem = problem
        self._every_row = every_row
        self._spark = spark
        self._name = name
        self._shape = shape
        self._fallback = fallback
        self._limit = limit
        self._executed: SourceReport | None = None

    @property
    def df(self) -> DataFrame:
        """The result as a lazy frame."""
        return self._shape.frame() if self._limit is None else self._shape.limited(self._limit)

    def run(self, action: Callable[[DataFrame], T], *, as_they_come: bool = False) -> T:
        """Run an action over the result, again over Spark's own reader where ours gives up."""
        if self._fallback is not None:
            try:
                return self._run_held(action, as_they_come=as_they_come)
            except Exception as exc:
                self._problem = left_to_spark(exc)
                if self._problem is None:
                    raise
                self._shape = self._fallback(f"our reader gave up: {self._problem}")
                self._fallback = None
        with blamed_on(self._problem):
            return self._run_held(action, as_they_come=as_they_come)

    def _run_held(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        with self._shape.held(self._spark):
            return self._run_once(action, as_they_come=as_they_come)

    def _run_once(self, action: Callable[[DataFrame], T], *, as_they_come: bool) -> T:
        if self._every_row:
            return self._run_uncounted(action)
        with StageWatch(self._spark) as watch, self._bounded() as frame:
            counted = RowCount(self._spark, frame, as_they_come=as_they_come)
            outcome = action(counted.frame)
        self.rows = counted.rows()
        self._executed = self._completed(watch).model_copy(update={"rows_returned": self.rows})
        return outcome

    def _completed(self, watch: StageWatch) -> SourceReport:
        """The report after a run: our readers count by themselves, Spark's are asked what they counted."""
        scan = self._shape.scan
        planned = scan.report()
        if planned.bytes_read is not None or is_mixed(scan):
            return planned
        counted = watch.completed(planned)
        return counted if scan.spark_counts_bytes else counted.model_copy(update={"bytes_read": None})

    def _run_uncounted(self, action: Callable[[DataFrame], T]) -> T:
        """Run an action over every row of the source: the scan's own count is the result's.

        Counting the rows once more would cost a tenth of a scan that does nothing else.
        """
        with StageWatch(self._spark) as watch:
            rows = self._shape.gathered(None)
            outcome = action(self.df if rows is None else rows)
        executed = self._completed(watch)
        self.rows = executed.rows_decoded
        self._executed = executed.model_copy(update={"rows_returned": self.rows})
        return outcome

    @contextmanager
    def _bounded(self) -> Iterator[DataFrame]:
        """The frame to act on: with a limit, the rows themselves, gathered piece by piece until there are enough."""
        rows = self._shape.gathered(self._limit)
        if rows is not None:
            yield rows
        elif self._limit is None:
            yield self.df
        elif self._limit <= MAX_COLLECTED_LIMIT:
            yield _collected(self._spark, self._shape, self._limit)
        else:
            kept: list[DataFrame] = []
            try:
                rows = _kept(self._shape, self._limit, kept)
                yield self.df if rows is None else rows
            finally:
                for frame in kept:
                    frame.unpersist()

    def report(self) -> dict[str, SourceReport]:
        """Per source what was planned, and after run() what happened."""
        return {self._name: self._executed or self._shape.scan.report()}

    def explain(self) -> str:
        """The plan in words: reader and reason, each conjunct and what becomes of it. Runs nothing."""
        lines = list(explained(self._name, self._shape.scan.report()))
        if self._limit is not None:
            lines.append(f"  limit {self._limit}: the scan stops early")
        return "\n".join(lines)


def is_mixed(scan: Scan) -> bool:
    """Whether nobody counts all rows that a scan decodes."""
    return isinstance(scan, MixedScan) and scan.is_mixed


def counts_results(scan: Scan, *, filters: bool) -> bool:
    """Whether the rows that a scan decodes are those of the query, which may have a predicate."""
    return not is_mixed(scan) and (not filters or (scan.exact and isinstance(scan, GatheringScan)))


def explained(name: str, report: SourceReport) -> Iterator[str]:
    """The plan of one source in words, line by line."""
    yield f"{name}: {report.reader} reader, because {report.reason}"
    yield f"  columns read: {', '.join(report.columns) or 'none'}"
    for conjunct in report.conjuncts:
        fate = f"pushed as {conjunct.pushed_as}" if conjunct.pushed_as else f"left to Spark: {conjunct.reason}"
        yield f"  {conjunct.sql}: {conjunct.exactness}, {fate}"
    yield from (f"  SQL: {statement}" for statement in report.statements)
    yield from (f"  note: {note}" for note in report.notes)


def _collected(spark: SparkSession, shape: Shape, limit: int) -> DataFrame:
    """At most `limit` rows, collected front to back."""
    pieces = shape.scan.limited(limit)
    if pieces is None:
        frame = shape.limited(limit)
        return local_frame(spark, frame._jdf.collectAsList(), frame)
    rows, last = java_rows(spark), None
    while rows.size() < limit and (piece := pieces.next_frame()) is not None:
        last = shape.shaped(piece)
        rows.addAll(last._jdf.collectAsList())
    return local_frame(spark, rows.subList(0, min(limit, rows.size())), shape.limited(limit) if last is None else last)


def _kept(shape: Shape, limit: int, kept: list[DataFrame]) -> DataFrame | None:
    """At most `limit` rows of pieces that are computed front to back and kept; None where Spark's LIMIT must do.

    The pieces are added to `kept`, for the caller to give up when the rows have been used.
    """
    pieces = shape.scan.limited(limit)
    found = 0
    while pieces is not None and found < limit and (piece := pieces.next_frame()) is not None:
        kept.append(shape.shaped(piece).persist(StorageLevel.DISK_ONLY))
        found += kept[-1].count()
    return reduce(DataFrame.unionAll, kept).limit(limit) if kept else None


@dataclass(frozen=True)
class Shape:
    """A scan and what turns its rows into the query's rows."""

    scan: Scan
    shaped: Callable[[DataFrame], DataFrame]

    def frame(self) -> DataFrame:
        """The query's rows, lazily."""
        return self.shaped(self.scan.frame())

    def limited(self, limit: int) -> DataFrame:
        """At most `limit` of the query's rows, lazily."""
        if isinstance(self.scan, LimitingScan):
            limited = self.scan.limited_frame(limit)
            if limited is not None:
                return self.shaped(limited)
        return self.frame().limit(limit)

    def gathered(self, limit: int | None) -> DataFrame | None:
        """The query's rows of now, at most `limit`, at hand on the driver; None where that is not worth it."""
        rows = self.scan.gathered(limit) if isinstance(self.scan, GatheringScan) else None
        return None if rows is None else self.shaped(rows)

    @contextmanager
    def held(self, spark: SparkSession) -> Iterator[None]:
        """While an action runs: the scan's settings are in force, and what it holds is released afterwards."""
        wanted = self.scan.settings if isinstance(self.scan, TunedScan) else {}
        before = {key: spark.conf.get(key, None) for key in wanted}
        try:
            for key, value in wanted.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value_before in before.items():
                if value_before is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, value_before)
            if isinstance(self.scan, HoldingScan):
                self.scan.release()


def parses(spark: SparkSession, where: str | None) -> bool:
    """Whether Spark's parser takes a predicate for one, and no word of it for a name: `k ISNULL` is `k AS ISNULL`."""
    if where is None:
        return True
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        return str(parser.parseExpression(shortened(where)).getClass().getSimpleName()) != "Alias"
    except ParseException:
        return False


def check(shape: Shape, parameter: str) -> DataFrame:
    """Let Spark analyse the query now, so that a mistake in it is an error of its parameter; the analysed frame."""
    try:
        return shape.frame()
    except (AnalysisException, ParseException) as problem:
        raise typed(problem, about=parameter) from problem
