"""The execution of statements: as Arrow batches in tasks, in the driver, or over JDBC, and its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import RemoteSourceSpec, SourceReport
from pushdown_spark.contract.message import shorten
from pushdown_spark.databases.client import Client, ConnectionSettings, DatabaseAddress, connect
from pushdown_spark.databases.clients.arrow_conversion import REMOTE_TYPE, spark_batch
from pushdown_spark.databases.read.partition_reader import PartitionMetrics, PartitionReader
from pushdown_spark.databases.sql.remote_table import RemoteTable
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.runtime.spark_internals import arrow_dataframe
from pushdown_spark.scan.task_counts import TaskCounts

_MAX_SHOWN_STATEMENTS = 3
_MAX_SHOWN_CHARACTERS = 2_000
"""Characters of a statement in a report."""
MAX_LOCAL_ROWS = 50_000
_MAX_LOCAL_BYTES = 16 << 20
"""Limits of a local fetch. If more arrives than the database estimated, tasks read everything instead."""


class QueryExecution:
    """The execution of one query over a table: its statements, and the metrics of the tasks that ran them.

    Every statement selects columns of one schema.
    """

    def __init__(
        self, spark: SparkSession, address: DatabaseAddress, spec: RemoteSourceSpec, table: RemoteTable
    ) -> None:
        self._spark = spark
        self._address = address
        self._spec = spec
        self._table = table
        # Not `TaskCounts[...]()`, as in `WorkerScan`: its type argument would be pickled.
        counts: TaskCounts[PartitionMetrics] = TaskCounts()
        self._metrics = spark.sparkContext.accumulator({}, counts)
        self._runs = 0
        self._statements: tuple[str, ...] = ()
        self._partitioning = ""
        self._has_metrics = True

    def connect(self) -> Client:
        """Open a connection for small queries and for few rows."""
        return connect(self._address, ConnectionSettings.of(self._spec, has_few_rows=True))

    def frame(
        self,
        statements: tuple[str, ...],
        schema: t.StructType,
        partitioning: str,
        *,
        has_few_rows: bool,
        snapshot: str | None = None,
    ) -> DataFrame:
        """Return the rows of some statements, one per task. `partitioning` explains their number in the report."""
        metrics, run = self._metrics, self._runs
        self._runs += 1
        self._statements, self._partitioning, self._has_metrics = statements, partitioning, True

        def report(number: int, partition: PartitionMetrics) -> None:
            metrics.add({(run, number): partition})

        fields = tuple(arrow_fields(schema, self._table))
        settings = ConnectionSettings.of(self._spec, snapshot=snapshot, has_few_rows=has_few_rows)
        reader = PartitionReader(self._address, statements, fields, settings, report)
        return self._spark.range(0, len(statements), 1, len(statements)).mapInArrow(reader, schema)

    def fetch_local(self, client: Client, statement: str, schema: t.StructType) -> DataFrame | None:
        """Fetch the rows of a statement, or None if they exceed the limits. Raises what the client raises."""
        fields = arrow_fields(schema, self._table)
        batches = _within_limits(client.batches(statement, fields))
        if batches is None:
            return None
        metrics = PartitionMetrics(sum(batch.num_rows for batch in batches), sum(batch.nbytes for batch in batches))
        self._metrics.add({(self._runs, 0): metrics})
        self._runs += 1
        self._statements, self._partitioning = (statement,), "the driver fetched the few rows"
        self._has_metrics = True
        arrow_schema = pa.schema([field.remove_metadata() for field in fields])
        rows = pa.Table.from_batches([spark_batch(batch, fields) for batch in batches], arrow_schema)
        return arrow_dataframe(self._spark, rows, schema)

    def jdbc_frame(self, frame: DataFrame, statements: tuple[str, ...], partitioning: str) -> DataFrame:
        """Return a DataFrame of Spark's JDBC source, which reports no metrics of its statements."""
        self._statements, self._partitioning, self._has_metrics = statements, partitioning, False
        return frame

    def report(self, plan: SourceReport, statement: str) -> SourceReport:
        """Return the plan with the metrics and the statements of the last run. Before a run, it shows `statement`."""
        last_run = max((run for run, _ in self._metrics.value), default=0)
        partitions = [partition for (run, _), partition in self._metrics.value.items() if run == last_run]
        changes: dict[str, object] = {"statements": _shown_statements(self._statements or (statement,))}
        if partitions and self._has_metrics:
            outcomes = {"read": len(partitions), "retried": sum(partition.retries for partition in partitions)}
            changes["bytes_read"] = sum(partition.bytes for partition in partitions)
            changes["rows_decoded"] = sum(partition.rows for partition in partitions)
            changes["rows_after_pushdown"] = changes["rows_decoded"]
            changes["units"] = {"partitions": outcomes}
        if self._partitioning and (partitions or not self._has_metrics):
            changes["notes"] = (*plan.notes, f"partitions: {self._partitioning}")
        return plan.model_copy(update=changes)


def arrow_fields(schema: t.StructType, table: RemoteTable) -> list[pa.Field]:
    """Return the fields that Spark expects, with the type in the database as metadata for error messages."""
    return [_arrow_field(field, table) for field in schema.fields]


def _arrow_field(field: t.StructField, table: RemoteTable) -> pa.Field:
    column = table.column(field.name, name_rule=EXACT_NAMES)
    remote_type = "" if column is None else column.remote_type
    return pa.field(field.name, utc_arrow_type(field.dataType), metadata={REMOTE_TYPE: remote_type})


def _within_limits(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch] | None:
    """Return all batches. None as soon as they exceed the limits of a local fetch."""
    small_batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > MAX_LOCAL_ROWS or size > _MAX_LOCAL_BYTES:
            return None
        small_batches.append(batch)
    return small_batches


def _shown_statements(statements: Sequence[str]) -> tuple[str, ...]:
    more = len(statements) - _MAX_SHOWN_STATEMENTS
    first = [shorten(statement, _MAX_SHOWN_CHARACTERS) for statement in statements[:_MAX_SHOWN_STATEMENTS]]
    return (*first, *([f"... and {more} similar statements"] if more > 0 else []))
