"""A scan of one ORC source."""

from __future__ import annotations

from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics


class OrcScan(ColumnarScan[OrcQuery, OrcMetrics]):
    """A scan of one ORC source that reads select columns only where a row passes the filter."""

    task_class = OrcScanTask
