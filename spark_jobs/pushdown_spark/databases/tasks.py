"""Run a remote scan's partitions: called by Spark in Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from pushdown_spark.databases.address import Address, Settings
from pushdown_spark.databases.arrow import spark_batch
from pushdown_spark.databases.client import connect
from pushdown_spark.errors import LostConnectionError, PushdownError
from pushdown_spark.readers.worker import spare_the_collector

_TRIES = 3
"""How often a partition is begun before its connection is given up."""


@dataclass(frozen=True)
class RemoteCount:
    """Figures of one finished partition: rows, and bytes as they came from the driver."""

    rows: int = 0
    bytes: int = 0
    retries: int = 0


Report = Callable[[int, RemoteCount], None]
"""Receives a partition's number and its figures when the partition is done."""


@dataclass(frozen=True)
class RemoteReader:
    """The statements of a scan, one for each partition. Called by Spark with the numbers of the partitions to run.

    The address, credentials included, is part of this object: Spark sends it to its workers pickled and shows it in no
    plan, page, log or event.
    """

    address: Address
    statements: tuple[str, ...]
    fields: tuple[pa.Field, ...]
    settings: Settings
    report: Report

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partitions whose numbers come in."""
        spare_the_collector()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._run(number)

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        """A partition, begun again while nothing of it was handed on.

        Behind the first batch a lost connection ends the task: Spark drops what it had, and its own retry reads all of
        the partition once more, so that no row comes twice.
        """
        for retries in range(_TRIES):
            begun = False
            try:
                for batch in self._read(number, retries):
                    begun = True
                    yield batch
                return
            except LostConnectionError:
                if begun or retries + 1 == _TRIES:
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
            _raise_alone(problem)
        self.report(number, RemoteCount(rows, size, retries))


def _raise_alone(problem: PushdownError) -> NoReturn:
    """Without what led to it: a driver's own message may show more of a connection than ours does."""
    raise problem from None
