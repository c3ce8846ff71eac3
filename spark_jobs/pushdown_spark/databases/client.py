"""The interface of database clients, and the settings that they take.

Spark pickles the settings for its Python workers, so this module imports little and its classes hold plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

if TYPE_CHECKING:
    from pushdown_spark.contract import RemoteConnection

Row = tuple[object, ...]


@dataclass(frozen=True)
class Address:
    """The connection parameters of a database.

    Workers receive them inside a pickled function, which no plan, page or log shows.
    """

    kind: str
    database: str
    host: str
    port: int | None
    user: str | None
    password: str | None = field(repr=False)
    tls_mode: str
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    options: str | None
    connect_timeout: int

    @property
    def display_name(self) -> str:
        """The name of the database in messages."""
        if self.kind == "sqlite":
            return self.database
        port = f":{self.port}" if self.port else ""
        return f"{self.kind}://{self.host}{port}/{self.database}"

    def without_secrets(self, text: str) -> str:
        """Return a text as one line, with the password replaced if a driver quoted it."""
        line = " ".join(text.split())
        return line.replace(self.password, "***") if self.password else line


@dataclass(frozen=True)
class ConnectionSettings:
    """How a connection reads: rows per fetch, seconds per statement, and the snapshot to read.

    If `few` is set, the client uses the method that is faster for some thousand rows.
    """

    fetch_size: int = 10_000
    statement_timeout: float | None = None
    snapshot: str | None = None
    few: bool = False


class Client(Protocol):
    """An open connection. Its methods raise RemoteRefusedError or RemoteFailedError: one line, without secrets."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a small query. `values` are bound to its parameters."""

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches, with the types that the driver delivers.

        `columns` are the fields that Spark needs. The caller converts the batches to them.
        """

    def close(self) -> None:
        """Close the connection. Never raises."""


@runtime_checkable
class SupportsSnapshots(Protocol):
    """A client whose snapshot of the database other connections can read."""

    def export_snapshot(self) -> str:
        """Return the name of the snapshot, which is valid until the client closes."""


def address_of(connection: RemoteConnection) -> Address:
    """Return the connection parameters as plain values."""
    tls = connection.tls
    return Address(
        connection.kind.value,
        connection.database,
        connection.host or "",
        connection.port,
        connection.user,
        connection.password,
        tls.mode.value,
        tls.ca_file,
        tls.cert_file,
        tls.key_file,
        connection.options,
        connection.connect_timeout,
    )
