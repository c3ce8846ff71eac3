"""A scan of one Parquet source."""

from __future__ import annotations

from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask
from pushdown_spark.formats.parquet.metrics import ParquetMetrics


class ParquetScan(ColumnarScan[ParquetQuery, ParquetMetrics]):
    """A scan of one Parquet source that decodes select columns only where a row passes the filter."""

    task_class = ParquetScanTask
