"""A scan of one Avro source."""

from __future__ import annotations

from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.formats.columnar_scan import ColumnarScan


class AvroScan(ColumnarScan[AvroQuery, AvroMetrics]):
    """A scan of one Avro source that skips blocks by their bytes."""

    task_class = AvroScanTask
    is_columnar = False
