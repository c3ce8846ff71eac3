"""Database clients by kind of database, their interface, and the settings that they and the JDBC transport take.

A driver is imported when a database of its kind is used. Spark pickles the settings for its Python workers, so this
module imports little and its classes hold plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from pushdown_spark.errors import BadSpecError
from pushdown_spark.secret_text import redact_line

if TYPE_CHECKING:
    from pushdown_spark.contract import DatabaseKind, RemoteConnection, RemoteSourceSpec
    from pushdown_spark.databases.sql.remote_table import RemoteTable

Row = tuple[object, ...]
_POSTGRESQL_OPTIONS = (
    "-c standard_conforming_strings=on -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=1 -c timezone=UTC -c quote_all_identifiers=off -c client_connection_check_interval=2000"
)
"""The server checks every 2 s whether the client is alive, so that the statements of killed tasks end. This needs
PostgreSQL 14. With quote_all_identifiers, the names of types would be in quotes."""
_REMOVED_MODES = ("PAD_CHAR_TO_FULL_LENGTH", "EMPTY_STRING_IS_NULL", "ORACLE")
"""SQL modes that change values. The other modes stay, because a user's query may depend on them."""


def _remove_mode(sql_mode: str, mode_to_remove: str) -> str:
    return f"TRIM(',' FROM REPLACE(CONCAT(',', {sql_mode}, ','), ',{mode_to_remove},', ','))"


_SQL_MODE = reduce(_remove_mode, _REMOVED_MODES, "@@SESSION.sql_mode")
MYSQL_EVERY_ROW = "SESSION sql_select_limit = 18446744073709551615"
"""The setting without which a server may cut off the rows of a query."""
MYSQL_SESSION = (
    f"SET SESSION time_zone = '+00:00', SESSION net_write_timeout = 600, {MYSQL_EVERY_ROW}, "
    f"SESSION sql_mode = {_SQL_MODE}"
)


@dataclass(frozen=True, kw_only=True)
class DatabaseAddress:
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
        return redact_line(text, (self.password or "",))


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of a connection that reads: rows per fetch, seconds per statement, and the snapshot.

    With `has_few_rows`, the client uses the method that is faster for some thousand rows.
    """

    fetch_size: int = 10_000
    statement_timeout: float | None = None
    snapshot: str | None = None
    has_few_rows: bool = False

    @classmethod
    def of(
        cls, spec: RemoteSourceSpec, *, snapshot: str | None = None, has_few_rows: bool = False
    ) -> ConnectionSettings:
        """Return the settings of a source."""
        return cls(spec.fetch_size, spec.statement_timeout, snapshot, has_few_rows)


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


def address_of(connection: RemoteConnection) -> DatabaseAddress:
    """Return the connection parameters as plain values."""
    tls = connection.tls
    return DatabaseAddress(
        kind=connection.kind.value,
        database=connection.database,
        host=connection.host or "",
        port=connection.port,
        user=connection.user,
        password=connection.password,
        tls_mode=tls.mode.value,
        ca_file=tls.ca_file,
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        options=connection.options,
        connect_timeout=connection.connect_timeout,
    )


def postgresql_options(
    user_options: str | None, statement_timeout: float | None = None, *, read_only: bool = True
) -> str:
    """Return the user's options, and those of every connection, in the syntax of libpq. The timeout is in seconds."""
    access = f"-c default_transaction_read_only={'on' if read_only else 'off'}"
    options = f"{user_options or ''} {_POSTGRESQL_OPTIONS} {access}"
    if statement_timeout is not None:
        options += f" -c statement_timeout={max(1, round(statement_timeout * 1000))}"
    return options.strip()


def mysql_timeout(seconds: float, *, is_mariadb: bool) -> str:
    """Return the assignment that limits the duration of statements."""
    return f"max_statement_time = {seconds}" if is_mariadb else f"max_execution_time = {max(1, round(seconds * 1000))}"


def connect(address: DatabaseAddress, settings: ConnectionSettings) -> Client:
    """Open a connection. Raises RemoteRefusedError and LostConnectionError."""
    if address.kind == "sqlite":
        from pushdown_spark.databases.clients.sqlite import SqliteClient

        return SqliteClient.open(address, settings)
    if address.kind == "postgresql":
        from pushdown_spark.databases.clients.postgresql import PostgresqlClient

        return PostgresqlClient(address, settings)
    from pushdown_spark.databases.clients.mysql import MysqlClient

    return MysqlClient.open(address, settings)


def describe_table(client: Client, kind: DatabaseKind, spec: RemoteSourceSpec) -> RemoteTable:
    """Return the columns of a source. Raises RemoteRefusedError if the user can see no such table."""
    query = spec.query
    if query is not None and ";" in query:
        raise BadSpecError("query: give one statement without a semicolon inside")
    if kind == "sqlite":
        from pushdown_spark.databases.clients.sqlite_catalog import sqlite_table

        return sqlite_table(client, spec.table, query)
    if kind == "postgresql":
        from pushdown_spark.databases.clients.postgresql import PostgresqlClient
        from pushdown_spark.databases.clients.postgresql_catalog import postgresql_table

        assert isinstance(client, PostgresqlClient)
        return postgresql_table(client, spec.table, query, spec.wide_numbers)
    from pushdown_spark.databases.clients.mysql import MysqlClient
    from pushdown_spark.databases.clients.mysql_catalog import mysql_table

    assert isinstance(client, MysqlClient)
    return mysql_table(
        client, spec.table, query, wide_numbers=spec.wide_numbers, zero_dates_as_null=spec.zero_dates_as_null
    )
