"""The interface of scans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import SourceReport
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.session_settings import temporary_settings
from pushdown_spark.runtime.fallback import rejected_query_as_unsafe_input
from pushdown_spark.runtime.query_metrics import StageCounts


class SparkCount(Enum):
    """A count of Spark's input metrics."""

    BYTES = auto()
    DECODED_ROWS = auto()


class WorkerUse(IntEnum):
    """Whether a scan runs in Python workers."""

    NEVER = auto()
    POSSIBLE = auto()
    ALWAYS = auto()


class Scan(ABC):
    """A planned scan of one source.

    A scan must implement `frame` and `report`. The other members have defaults for scans without the capability.
    """

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return a lazy DataFrame of all rows that may satisfy the predicate, with at least the requested columns."""

    def analysis_frame(self) -> DataFrame:
        """Return a lazy DataFrame with the columns of the scan, for Spark to analyze a query that does not run."""
        return self.frame()

    @abstractmethod
    def report(self) -> SourceReport:
        """Return the plan and, after an action over the DataFrame, the counts of the run."""

    def progress(self) -> SourceProgress | None:
        """Return the progress of the finished tasks, or None if it is unknown. Another thread calls this."""
        return None

    @property
    def needs_recheck(self) -> bool:
        """Whether Spark has to evaluate the predicate on the rows of the scan."""
        return True

    @property
    def is_by_spark(self) -> bool:
        """Whether only Spark's own readers run."""
        return False

    @property
    def worker_use(self) -> WorkerUse:
        """Whether Python workers run the scan."""
        return WorkerUse.NEVER

    @property
    def spark_counts(self) -> frozenset[SparkCount]:
        """The counts of the scan that are complete in Spark's input metrics."""
        return frozenset({SparkCount.DECODED_ROWS})

    def add_spark_counts(self, report: SourceReport, counts: StageCounts) -> SourceReport:
        """Return the report of a run with the bytes and rows that Spark counted. Counts of the scan are kept."""
        complete_counts = self.spark_counts
        changes: dict[str, int | None] = {
            "bytes_read": counts.bytes_read if SparkCount.BYTES in complete_counts else None
        }
        if report.rows_decoded is None:
            # Spark counts the rows that its readers return, which may be fewer than they decode.
            changes["rows_after_pushdown"] = counts.rows
            changes["rows_decoded"] = counts.rows if SparkCount.DECODED_ROWS in complete_counts else None
        return report.model_copy(update=changes)

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return whether the rows that the report counts are the rows of the result."""
        return not has_predicate

    def report_of_run(self) -> Callable[[], SourceReport]:
        """Return a function that makes the report of the run that has just ended, also after later runs."""
        report = self.report()
        return lambda: report

    @property
    def session_conf(self) -> Mapping[str, str]:
        """Session settings for a run. They make the scan faster, or keep Spark's reader from losing rows."""
        return {}

    def limited_frame(self, limit: int) -> DataFrame | None:
        """Return at most `limit` rows that satisfy the predicate, or None if only Spark's LIMIT can stop the scan."""
        return None

    def incremental(self, limit: int) -> Iterator[DataFrame] | None:
        """Return the rows in pieces, to stop after `limit` rows. Return None if Spark's LIMIT is as fast.

        The next piece is planned when the caller has read the rows of the last one.
        """
        return None

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the rows, at most `limit`, to the driver if a Spark job would take longer; None if it would not."""
        return None

    def close(self) -> None:
        """Release what the scan holds for its tasks, such as a database snapshot. Its DataFrames cannot run again."""
        return


ToQueryRows = Callable[[DataFrame], DataFrame]
"""Turns the rows of a scan into those of the query, with the query's own projection and filter."""


@dataclass(frozen=True)
class ProjectedScan:
    """A scan whose rows are those of a query."""

    scan: Scan
    project: ToQueryRows
    fallback: Callable[[str], ProjectedScan] | None = None
    """Makes Spark's own scan, given a reason, if this scan fails during a run. None if it cannot replace this one."""
    problem: PushdownError | None = None
    """The error that ruled out the pushdown reader during planning."""

    def frame(self) -> DataFrame:
        """Return all rows of the query as a lazy DataFrame.

        Raises UnsafeInputError if there is a fallback, and Spark accepts the query only over its own readers.
        """
        if self.scan.is_by_spark:
            return self._selected_spark_frame
        return self._project(self.scan.frame())

    def _project(self, rows: DataFrame) -> DataFrame:
        with nullcontext() if self.fallback is None else rejected_query_as_unsafe_input():
            return self.project(rows)

    @cached_property
    def _selected_spark_frame(self) -> DataFrame:
        """The DataFrame of a scan by Spark's reader, made once, because Spark analyzes it each time."""
        return self.project(self.scan.frame())

    def limit(self, limit: int) -> DataFrame:
        """Return at most `limit` rows of the query as a lazy DataFrame."""
        rows = self.scan.limited_frame(limit)
        return self.frame().limit(limit) if rows is None else self._project(rows)

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the rows of the query, at most `limit`, to the driver; None if a Spark job is faster."""
        rows = self.scan.fetch_local(limit)
        return None if rows is None else self._project(rows)


@contextmanager
def run_context(scan: Scan, spark: SparkSession) -> Iterator[None]:
    """Set a scan's session settings for a run, then restore them and close the scan."""
    try:
        with temporary_settings(spark, scan.session_conf):
            yield
    finally:
        scan.close()
