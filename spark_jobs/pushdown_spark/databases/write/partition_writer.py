"""The code that Spark runs in Python workers to load the partitions of a DataFrame into a staging table.

Each attempt of a task loads its rows in one transaction, which ends by recording the partition. The record is unique,
so that the rows of one attempt count, whatever number of attempts Spark starts. An attempt that finds its partition
recorded undoes its transaction. Each attempt of a run has its own tables, so that tasks of an earlier attempt cannot
add rows.

Spark may accept another attempt than the recorded one, if an executor is lost before it can report. If the rows of a
query depend on chance, those of the two attempts may differ. Each attempt therefore has a random suffix, which it
records and returns, and the driver compares both.

In MySQL, MariaDB and SQLite, the staging table stays empty: each attempt of a task creates its own part, a table
like it whose name has the suffix. In SQLite, a part is a file next to the database.

Workers import this module, so it must not import the packages that only the driver needs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import TaskContext

from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.sql.identifiers import with_suffix
from pushdown_spark.databases.write.write_connection import WriteConnection, connect_to_write
from pushdown_spark.errors import PushdownError
from pushdown_spark.runtime.worker import freeze_imports

LOADED = "partition int, row_count bigint, suffix string"
"""The columns that a task returns."""
_SCHEMA = pa.schema([("partition", pa.int32()), ("row_count", pa.int64()), ("suffix", pa.string())])
_REPORT_SECONDS = 5
"""How long an attempt whose rows do not count waits, so that the recorded one reports first. Spark then ends it."""


@dataclass(frozen=True)
class PartitionWriter:
    """The staging table and the table of recorded partitions. Spark calls it with the rows of each partition.

    `record` is a statement that adds a row to the table of partitions, and changes nothing if the partition has one.
    `has_parts` is whether each attempt of a task has its own table.
    """

    address: DatabaseAddress
    table: str
    record: str
    columns: tuple[TargetColumn, ...]
    has_parts: bool
    connect: Callable[[DatabaseAddress], WriteConnection] = connect_to_write

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Load the rows of the current partition, and return their number."""
        freeze_imports()
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        try:
            suffix, rows, is_recorded = self.load(partition, batches)
        except PushdownError as problem:
            # The cause is the driver's own error, whose message may contain secrets.
            raise problem from None
        if not is_recorded:
            time.sleep(_REPORT_SECONDS)
        yield pa.RecordBatch.from_pylist([{"partition": partition, "row_count": rows, "suffix": suffix}], _SCHEMA)

    def load(self, partition: int, batches: Iterator[pa.RecordBatch]) -> tuple[str, int, bool]:
        """Load the rows of a partition, unless another attempt has.

        Return this attempt's suffix, the number of its rows, and whether they count.
        """
        suffix = f"_{uuid.uuid4().hex[:8]}"
        table, rows, is_recorded = with_suffix(self.table, suffix if self.has_parts else ""), 0, False
        with closing(self.connect(self.address)) as connection:
            try:
                if self.has_parts:
                    connection.create_part(self.table, suffix)
                connection.begin()
                for batch in batches:
                    connection.load(table, self.columns, _with_short_offsets(batch))
                    rows += batch.num_rows
                is_recorded = connection.change(self.record, partition, rows, suffix) > 0
                if is_recorded:
                    connection.commit()
            finally:
                # Closing the connection undoes the transaction.
                if self.has_parts and not is_recorded:
                    # DROP would commit the transaction.
                    for undo in (connection.rollback, partial(connection.drop, table)):
                        with suppress(PushdownError):
                            undo()
        return suffix, rows, is_recorded


def _with_short_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without large strings and binaries, which a setting of Spark turns on."""
    types = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    fields = [field.with_type(types.get(field.type, field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields))
