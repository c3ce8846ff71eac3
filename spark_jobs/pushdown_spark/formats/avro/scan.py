"""A scan of one Avro source."""

from __future__ import annotations

from collections.abc import Mapping

from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.formats.columnar_scan import ColumnarScan


class AvroScan(ColumnarScan[AvroQuery, AvroMetrics]):
    """A scan of one Avro source that skips blocks by their bytes."""

    task_class = AvroScanTask
    is_columnar = False

    def _skipped(self, total: AvroMetrics, bytes_total: int) -> Mapping[str, int]:
        return {"rows never decoded": total.records - total.rows_decoded}

    def _details(self, total: AvroMetrics) -> Mapping[str, object]:
        return {"bytes_searched": total.bytes_searched}
