"""A lazy ORC scan as the session sees it: frames, waves for limits, and the report."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import FileReport, SourceReport
from pushdown_spark.formats.orc.coalesced_reads import Purpose
from pushdown_spark.formats.orc.file_reader import OrcScan
from pushdown_spark.formats.orc.metrics import Fate, OrcCount, total
from pushdown_spark.formats.orc.planner import OrcPlan
from pushdown_spark.readers.files import Task
from pushdown_spark.readers.metrics import TaskCounts, by_file, most_read
from pushdown_spark.readers.partitions import tasks_of, with_constants
from pushdown_spark.readers.protocol import LimitedScan, ScanRequest
from pushdown_spark.readers.waves import GrowingWaves


class OrcLazyScan:
    """A lazy scan of one ORC source."""

    spark_counts_bytes = False

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        plan: OrcPlan,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._spark = spark
        self._request = request
        self._plan = plan
        self._notes = notes
        self._counts = spark.sparkContext.accumulator({}, TaskCounts[dict[str, OrcCount]]())
        share = len(plan.query.schema) / max(len(request.schema), 1)
        self._tasks = tasks_of(spark, request, plan.files, share=share)

    @property
    def exact(self) -> bool:
        """Whether the filter is the whole predicate, and the user wants it to be the only one."""
        return self._plan.exact and self._request.source.orc.use_selected

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The scan's tasks, in file order."""
        return self._tasks

    def frame(self) -> DataFrame:
        """The rows that pass the filter, with the implicit columns asked for."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.wave(self._tasks, 0, None)

    def wave(self, tasks: tuple[Task, ...], wave: int, cap: int | None) -> DataFrame:
        """The rows of some tasks; of each task at most `cap` rows where every one of them satisfies the predicate."""
        counts = self._counts

        def report(number: int, count: dict[str, OrcCount]) -> None:
            counts.add({(wave, number): count})

        plan = self._plan
        scan = OrcScan(tasks, plan.query, report, cap if plan.exact else None)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        rows = numbers.mapInArrow(scan, self._request.read_schema)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(rows, self._request, uris)

    def report(self) -> SourceReport:
        """The plan, and the figures of the tasks that have run."""
        plan = self._plan
        files = {path: total(each) for path, each in by_file(self._counts.value.values()).items()}
        done = total(files.values())
        ran = bool(self._counts.value)
        planned = SourceReport(
            reader="pushdown",
            reason=plan.reason,
            conjuncts=plan.conjuncts,
            columns=self._request.columns,
            files_total=len(plan.files),
            bytes_total=sum(file.size for file in plan.files),
            notes=self._notes,
        )
        if not ran:
            return planned
        return planned.model_copy(
            update={
                "files_read": len(files),
                "bytes_read": done.bytes_read,
                "rows_decoded": done.rows_decoded,
                "skipped": {
                    "files": len([file for file in plan.files if file.size]) - len(files),
                    "bytes never read": planned.bytes_total - done.bytes_read,
                },
                "units": _units(done),
                "files": most_read(_file(path, count) for path, count in files.items()),
                "bytes_by_purpose": {str(purpose): done.bytes[purpose] for purpose in Purpose},
            }
        )

    def limited(self, limit: int) -> LimitedScan:
        """Run the tasks in waves until enough rows are found."""
        return GrowingWaves(self, limit)


def _file(path: str, count: OrcCount) -> FileReport:
    return FileReport(path=path, bytes_read=count.bytes_read, rows_decoded=count.rows_decoded, units=_units(count))


def _units(count: OrcCount) -> dict[str, dict[str, int]]:
    return {
        "stripes": {str(fate): count.stripes[fate] for fate in Fate},
        "row groups": {str(fate): count.groups[fate] for fate in Fate},
    }
