"""A scan of one ORC source."""

from __future__ import annotations

from collections.abc import Mapping

from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics, ReadPurpose


class OrcScan(ColumnarScan[OrcQuery, OrcMetrics]):
    """A scan of one ORC source that reads select columns only where a row passes the filter."""

    task_class = OrcScanTask

    @property
    def is_exact(self) -> bool:
        """Whether the filter is the whole predicate, and the user wants no re-evaluation by Spark."""
        return self._plan.exact and self._request.source.orc.use_selected

    def _details(self, total: OrcMetrics) -> Mapping[str, object]:
        return {"bytes_by_purpose": {str(purpose): total.bytes[purpose] for purpose in ReadPurpose}}
