"""The code that Spark runs in Python workers to read the partitions of a database scan.

Workers import this module for each scan, so it must not import the packages that only the driver needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, connect
from pushdown_spark.databases.clients.arrow_conversion import spark_batch
from pushdown_spark.errors import LostConnectionError, PushdownError
from pushdown_spark.runtime.worker import freeze_imports

_MAX_ATTEMPTS = 3
"""Attempts to read a partition after lost connections."""


@dataclass(frozen=True)
class PartitionMetrics:
    """The metrics of a finished partition: rows, and bytes as the driver delivered them."""

    rows: int = 0
    bytes: int = 0
    retries: int = 0


AddCounts = Callable[[int, PartitionMetrics], None]
"""A function that receives the number and the metrics of a finished partition."""


@dataclass(frozen=True)
class PartitionReader:
    """The statements of a scan, one for each partition. Spark calls it with the numbers of the partitions to read.

    The object holds the address with its credentials. Spark sends it to its workers pickled, and shows it in no plan,
    page, log or event.
    """

    address: DatabaseAddress
    statements: tuple[str, ...]
    fields: tuple[pa.Field, ...]
    settings: ConnectionSettings
    add_counts: AddCounts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partitions whose numbers are in the batches."""
        freeze_imports()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read_with_retries(number)

    def _read_with_retries(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Retry if the connection is lost before the first batch.

        After the first batch, a lost connection fails the task. Spark then drops the task's rows and retries all of
        the partition, so that no row is returned twice.
        """
        for retries in range(_MAX_ATTEMPTS):
            has_yielded = False
            try:
                for batch in self._read(number, retries):
                    has_yielded = True
                    yield batch
                return
            except LostConnectionError:
                if has_yielded or retries + 1 == _MAX_ATTEMPTS:
                    raise

    def _read(self, number: int, retries: int) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        try:
            client = connect(self.address, self.settings)
            try:
                for batch in client.batches(self.statements[number], self.fields):
                    rows += batch.num_rows
                    size += batch.nbytes
                    yield spark_batch(batch, self.fields)
            finally:
                client.close()
        except PushdownError as problem:
            # The cause is the driver's own error, whose message may contain secrets.
            raise problem from None
        self.add_counts(number, PartitionMetrics(rows, size, retries))
