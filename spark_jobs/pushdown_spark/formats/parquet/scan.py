"""A scan of one Parquet source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.formats.parquet.planner import ParquetPlan
from pushdown_spark.relations.listing import Task
from pushdown_spark.relations.request import ScanRequest


class ParquetScan(ColumnarScan[ParquetQuery, ParquetMetrics]):
    """A scan of one Parquet source that decodes select columns only where a row passes the filter."""

    is_exact = False

    def __init__(
        self, spark: SparkSession, request: ScanRequest, plan: ParquetPlan, notes: tuple[str, ...] = ()
    ) -> None:
        share = len(plan.query.schema) / max(len(request.schema), 1)
        super().__init__(spark, request, plan, notes, share)

    def _scan_task(
        self, tasks: tuple[Task, ...], report: Callable[[int, dict[str, ParquetMetrics]], None], cap: int | None
    ) -> ParquetScanTask:
        return ParquetScanTask(tasks, self._plan.query, report, cap)

    def _skipped(self, total: ParquetMetrics, bytes_total: int) -> Mapping[str, int]:
        return {"bytes never read": bytes_total - total.bytes_read}
