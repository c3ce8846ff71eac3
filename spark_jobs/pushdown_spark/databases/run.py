"""Statements as frames, and what their tasks counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pushdown_spark.contract import RemoteSourceSpec, SourceReport
from pushdown_spark.databases.address import Settings
from pushdown_spark.databases.arrow import REMOTE_TYPE, spark_batch
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.connections import Connections
from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.tasks import RemoteCount, RemoteReader
from pushdown_spark.gateway import arrow_frame
from pushdown_spark.scan.metrics import TaskCounts

_SHOWN_STATEMENTS = 3
MOST_ROWS = 50_000
_MOST_BYTES = 16 << 20
"""What the driver fetches by itself; should more come than the database expected, tasks do it all."""
_LONGEST = 2_000
"""Characters of a statement that a report shows."""


class RemoteRun:
    """What was read for one query: its statements, and the figures of the tasks that ran them."""

    def __init__(self, spark: SparkSession, connections: Connections, spec: RemoteSourceSpec) -> None:
        self._spark = spark
        self._connections = connections
        self._spec = spec
        self._counts = spark.sparkContext.accumulator({}, TaskCounts[RemoteCount]())
        self._waves = 0
        self._statements: tuple[str, ...] = ()
        self._how = ""
        self._counted_here = True

    def frame(
        self,
        statements: tuple[str, ...],
        fields: Sequence[pa.Field],
        schema: t.StructType,
        settings: Settings,
        how: str,
    ) -> DataFrame:
        """The rows of some statements, each of them a task; `how` says in words how they came to be so many."""
        counts, wave = self._counts, self._waves
        self._waves += 1
        self._statements, self._how, self._counted_here = statements, how, True

        def report(number: int, count: RemoteCount) -> None:
            counts.add({(wave, number): count})

        spec = self._spec
        settings = replace(settings, fetch_size=spec.fetch_size, statement_timeout=spec.statement_timeout)
        reader = RemoteReader(self._connections.address, statements, tuple(fields), settings, report)
        numbers = self._spark.range(0, len(statements), 1, len(statements))
        return numbers.mapInArrow(reader, schema)

    def gathered(
        self, client: Client, statement: str, fields: Sequence[pa.Field], schema: t.StructType
    ) -> DataFrame | None:
        """The rows of a statement, fetched here and now; None where they come to be more than the driver should hold.

        Raises what the client raises.
        """
        batches = _few(client.batches(statement, fields))
        if batches is None:
            return None
        read = RemoteCount(sum(batch.num_rows for batch in batches), sum(batch.nbytes for batch in batches))
        self._counts.add({(self._waves, 0): read})
        self._waves += 1
        self._statements, self._how, self._counted_here = (statement,), "the driver fetched the few rows", True
        kinds = pa.schema([field.remove_metadata() for field in fields])
        rows = pa.Table.from_batches([spark_batch(batch, fields) for batch in batches], kinds)
        return arrow_frame(self._spark, rows, schema)

    def carried(self, frame: DataFrame, statements: tuple[str, ...], how: str) -> DataFrame:
        """A frame that Spark reads by itself from some statements: it counts the rows, and no bytes."""
        self._statements, self._how, self._counted_here = statements, how, False
        return frame

    def report(self, planned: SourceReport, statement: str) -> SourceReport:
        """The plan with what was sent, or would be (`statement`), and the figures of what ran last."""
        latest = max((wave for wave, _ in self._counts.value), default=0)
        counts = [count for (wave, _), count in self._counts.value.items() if wave == latest]
        shown = planned.model_copy(update={"statements": _shown(self._statements or (statement,))})
        if not self._counted_here:
            return shown.model_copy(update={"notes": (*planned.notes, f"partitions: {self._how}")})
        if not counts:
            return shown
        fates = {"read": len(counts), "begun again": sum(count.retries for count in counts)}
        return shown.model_copy(
            update={
                "bytes_read": sum(count.bytes for count in counts),
                "rows_decoded": sum(count.rows for count in counts),
                "units": {"partitions": fates},
                "notes": (*planned.notes, f"partitions: {self._how}") if self._how else planned.notes,
            }
        )


def wanted_field(field: t.StructField, table: RemoteTable) -> pa.Field:
    """The column as Arrow has to have it for Spark; its type in the database goes with it, for messages."""
    column = table.column(field.name, case_sensitive=True)
    remote_type = "" if column is None else column.remote_type
    return pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), metadata={REMOTE_TYPE: remote_type})


def _few(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch] | None:
    """All batches, None where there are too many; the others then are never asked for."""
    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > MOST_ROWS or size > _MOST_BYTES:
            return None
        found.append(batch)
    return found


def _shown(statements: Sequence[str]) -> tuple[str, ...]:
    more = len(statements) - _SHOWN_STATEMENTS
    shown = [statement if len(statement) <= _LONGEST else f"{statement[:_LONGEST]}..." for statement in statements]
    return (*shown[:_SHOWN_STATEMENTS], *([f"... and {more} more like these"] if more > 0 else []))
