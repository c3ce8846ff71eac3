"""A scan of one ORC source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics, ReadPurpose
from pushdown_spark.formats.orc.planner import OrcPlan
from pushdown_spark.relations.listing import Task
from pushdown_spark.relations.request import ScanRequest


class OrcScan(ColumnarScan[OrcQuery, OrcMetrics]):
    """A scan of one ORC source that reads select columns only where a row passes the filter."""

    def __init__(self, spark: SparkSession, request: ScanRequest, plan: OrcPlan, notes: tuple[str, ...] = ()) -> None:
        share = len(plan.query.schema) / max(len(request.schema), 1)
        super().__init__(spark, request, plan, notes, share)

    @property
    def is_exact(self) -> bool:
        """Whether the filter is the whole predicate, and the user wants no re-evaluation by Spark."""
        return self._plan.exact and self._request.source.orc.use_selected

    def _scan_task(
        self, tasks: tuple[Task, ...], report: Callable[[int, dict[str, OrcMetrics]], None], cap: int | None
    ) -> OrcScanTask:
        return OrcScanTask(tasks, self._plan.query, report, cap)

    def _skipped(self, total: OrcMetrics, bytes_total: int) -> Mapping[str, int]:
        return {"bytes never read": bytes_total - total.bytes_read}

    def _details(self, total: OrcMetrics) -> Mapping[str, object]:
        return {"bytes_by_purpose": {str(purpose): total.bytes[purpose] for purpose in ReadPurpose}}
