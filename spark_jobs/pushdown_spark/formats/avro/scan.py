"""An Avro scan by our reader as the session sees it: frames, waves for limits, and the report."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import FileReport, SourceReport
from pushdown_spark.formats.avro.file_reader import AvroScan
from pushdown_spark.formats.avro.metrics import AvroCount, Fate, total
from pushdown_spark.formats.avro.planner import AvroPlan
from pushdown_spark.readers.files import Task
from pushdown_spark.readers.metrics import TaskCounts, by_file, most_read
from pushdown_spark.readers.partitions import tasks_of, with_constants
from pushdown_spark.readers.protocol import LimitedScan, ScanRequest
from pushdown_spark.readers.waves import GrowingWaves


class AvroBlockScan:
    """A scan of one Avro source that skips blocks by their bytes."""

    exact = False
    spark_counts_bytes = False

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        plan: AvroPlan,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._spark = spark
        self._request = request
        self._plan = plan
        self._notes = notes
        self._counts = spark.sparkContext.accumulator({}, TaskCounts[dict[str, AvroCount]]())
        self._tasks = tasks_of(spark, request, plan.files)

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

        def report(number: int, count: dict[str, AvroCount]) -> None:
            counts.add({(wave, number): count})

        plan = self._plan
        scan = AvroScan(tasks, plan.query, report, cap if plan.exact else None)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        rows = numbers.mapInArrow(scan, self._request.read_schema)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(rows, self._request, uris)

    def report(self) -> SourceReport:
        """The plan, and the figures of the tasks that have run."""
        plan = self._plan
        files = {path: total(each) for path, each in by_file(self._counts.value.values()).items()}
        done = total(files.values())
        planned = SourceReport(
            reader="pushdown",
            reason=plan.reason,
            conjuncts=plan.conjuncts,
            columns=self._request.columns,
            files_total=len(plan.files),
            bytes_total=sum(file.size for file in plan.files),
            notes=self._notes,
        )
        if not self._counts.value:
            return planned
        return planned.model_copy(
            update={
                "files_read": len(files),
                "bytes_read": done.bytes_read,
                "bytes_searched": done.bytes_searched,
                "rows_decoded": done.records_decoded,
                "skipped": {
                    "files": len([file for file in plan.files if file.size]) - len(files),
                    "rows never decoded": done.records - done.records_decoded,
                },
                "units": _units(done),
                "files": most_read(_file(path, count) for path, count in files.items()),
            }
        )

    def limited(self, limit: int) -> LimitedScan:
        """Run the tasks in waves until enough rows are found."""
        return GrowingWaves(self, limit)


def _file(path: str, count: AvroCount) -> FileReport:
    return FileReport(path=path, bytes_read=count.bytes_read, rows_decoded=count.records_decoded, units=_units(count))


def _units(count: AvroCount) -> dict[str, dict[str, int]]:
    return {"blocks": {str(fate): count.blocks[fate] for fate in Fate}}
