"""What every database's client offers, and how one is connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pushdown_spark.databases.address import Address, Settings

Row = tuple[object, ...]


class Client(Protocol):
    """One open connection. Its methods raise RemoteRefusedError or RemoteFailedError: one line, without secrets."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a small query; `values` take the place of its parameters."""

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """The rows of a query as the driver delivers them, a batch at a time.

        `columns` are the fields that are wanted in the end; what arrives may still have to be converted to them.
        """

    def close(self) -> None:
        """End the connection; never raises."""


def connect(address: Address, settings: Settings) -> Client:
    """A new connection; drivers are loaded only where they are needed."""
    if address.kind == "sqlite":
        from pushdown_spark.databases.sqlite import SqliteClient

        return SqliteClient(address, settings)
    if address.kind == "postgresql":
        from pushdown_spark.databases.postgresql import PostgresqlClient

        return PostgresqlClient(address, settings)
    from pushdown_spark.databases.mysql import MysqlClient

    return MysqlClient(address, settings)
