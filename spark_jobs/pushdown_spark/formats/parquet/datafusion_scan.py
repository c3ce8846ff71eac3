"""The scan of a part of a Parquet file by DataFusion, and DataFusion's settings.

DataFusion divides a file into parts of equal size, and reads the row groups that begin in a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from datafusion import Expr, SessionConfig, SessionContext

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.parquet.datafusion_address import FileAddress
from pushdown_spark.formats.parquet.datafusion_filter import quoted_column
from pushdown_spark.formats.parquet.file_parts import FilePart

_SETTINGS = {
    "datafusion.execution.collect_statistics": "false",
    # A task must not take over row groups of the parts that other tasks read.
    "datafusion.execution.enable_file_stream_work_stealing": "false",
    "datafusion.optimizer.repartition_file_min_size": "0",
    "datafusion.optimizer.enable_round_robin_repartition": "false",
    "datafusion.execution.parquet.pushdown_filters": "true",
    "datafusion.execution.parquet.reorder_filters": "true",
    "datafusion.execution.parquet.schema_force_view_types": "false",
    # Nanoseconds, the default, have no room for years after 2262.
    "datafusion.execution.parquet.coerce_int96": "us",
}
_PRUNING_SETTINGS = (
    "datafusion.execution.parquet.enable_page_index",
    "datafusion.execution.parquet.bloom_filter_on_read",
)


class DataFusionScan:
    """A scan of a part of a file. `columns` have the file's names and types in which Arrow reads them.

    The columns named in `struct_columns` have the file's own type instead, because DataFusion filters members of
    structs early only if it need not convert the structs. The rows are a superset of those for which the filter is
    true. Without `may_prune`, statistics are ignored.
    """

    def __init__(
        self,
        address: FileAddress,
        columns: pa.Schema,
        struct_columns: Sequence[str],
        row_filter: Expr | None,
        part: FilePart,
        *,
        may_prune: bool,
    ) -> None:
        self._context = _context(part.count, may_prune=may_prune)
        address.register(self._context)
        if struct_columns:
            file_schema = self._context.read_parquet(address.url, file_extension="").schema()
            columns = pa.schema(
                [file_schema.field(field.name) if field.name in struct_columns else field for field in columns]
            )
        # The argument has precedence over the setting of the same name.
        frame = self._context.read_parquet(address.url, schema=columns, file_extension="", parquet_pruning=may_prune)
        if row_filter is not None:
            frame = frame.filter(row_filter)
        self._plan = frame.select(*map(quoted_column, columns.names)).execution_plan()
        self._part = part
        if self._plan.partition_count != part.count:
            raise UnsafeInputError(f"DataFusion reads {self._plan.partition_count} parts instead of {part.count}")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in self._context.execute(self._plan, self._part.number):
            yield batch.to_pyarrow()
        # DataFusion returns no rows for a file that it does not find.
        if not self.count("files_processed"):
            raise UnsafeInputError("DataFusion did not open the file")

    def count(self, metric: str) -> int:
        """Return a metric of the scan, 0 if there is none."""
        return sum(metrics.sum_by_name(metric) or 0 for _, metrics in self._plan.collect_metrics()[-1:])

    def printed_metrics(self) -> str:
        """Return all metrics of the scan as DataFusion prints them."""
        return " ".join(repr(metrics) for _, metrics in self._plan.collect_metrics()[-1:])


def _context(parts: int, *, may_prune: bool) -> SessionContext:
    config = SessionConfig().with_target_partitions(parts)
    for key, value in _SETTINGS.items():
        config = config.set(key, value)
    for key in _PRUNING_SETTINGS:
        config = config.set(key, str(may_prune).lower())
    return SessionContext(config)
