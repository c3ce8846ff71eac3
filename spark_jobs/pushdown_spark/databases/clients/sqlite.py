"""The client of SQLite: ADBC reads rows as Arrow, the standard library's module runs small queries."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import Error

from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, Row
from pushdown_spark.databases.sql.identifiers import quote_ansi
from pushdown_spark.errors import LostConnectionError, RemoteFailedError, RemoteRefusedError

_TEMPORARY = ("database is locked", "database table is locked", "disk I/O error", "disk is full", "No space left")


class SqliteClient:
    """A read-only connection."""

    def __init__(
        self, display_name: str, settings: ConnectionSettings, uri: str, connection: sqlite3.Connection
    ) -> None:
        self._display_name = display_name
        self._settings = settings
        self._uri = uri
        self._connection = connection
        self._reader: adbc.Connection | None = None

    @classmethod
    def open(cls, address: DatabaseAddress, settings: ConnectionSettings) -> Self:
        """Open a file."""
        uri = file_uri(database_path(address), "ro")
        connection = connect_to_sqlite(address.display_name, uri, address.connect_timeout)
        return cls(address.display_name, settings, uri, connection)

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a small query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as problem:
            raise self._error(problem) from None

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query.

        The driver infers the type of a column from its first rows and rejects values of other types. The statement
        therefore starts with a row of the expected types, which is dropped from the result.
        """
        typed_row = ", ".join(f"{_type_example(field.type)} AS {quote_ansi(field.name)}" for field in columns)
        start = time.monotonic()
        try:
            self._reader = adbc.connect(self._uri, autocommit=True)
            with self._reader.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(self._settings.fetch_size)})
                cursor.execute(f"SELECT {typed_row} UNION ALL SELECT * FROM ({sql})")  # noqa: S608 -- built as a tree
                rows_to_drop = 1
                for batch in cursor.fetch_record_batch():
                    yield batch.slice(rows_to_drop)
                    rows_to_drop = 0
                    self._check_timeout(start)
        except (Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        if self._reader is not None:
            self._reader.close()

    def _check_timeout(self, start: float) -> None:
        """Raise RemoteFailedError after the timeout. SQLite has no timeout of statements, so each batch is checked."""
        limit = self._settings.statement_timeout
        if limit is not None and time.monotonic() - start > limit:
            raise RemoteFailedError(
                f"{self._display_name}: the statement took longer than {limit:g} s (statement_timeout)"
            )

    def _error(self, problem: BaseException) -> RemoteFailedError | RemoteRefusedError:
        return sqlite_error(self._display_name, problem)


def database_path(address: DatabaseAddress) -> Path:
    """Return the absolute path of the database. Raises RemoteRefusedError if there is no such file."""
    path = Path(address.database).absolute()
    if not path.is_file():
        raise RemoteRefusedError(f"there is no SQLite file {address.database}; check the connection's path")
    return path


def connect_to_sqlite(display_name: str, uri: str, timeout: float) -> sqlite3.Connection:
    """Open a file with the module of the standard library. The timeout for locks is in seconds."""
    try:
        return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    except sqlite3.Error as problem:
        raise sqlite_error(display_name, problem) from None


def file_uri(path: Path, mode: str) -> str:
    """Return the URI with which SQLite opens an existing file. The mode is `ro` or `rw`."""
    return f"file:{quote(str(path))}?mode={mode}"


def sqlite_error(display_name: str, problem: BaseException) -> RemoteFailedError | RemoteRefusedError:
    """Return an error of a driver as a typed error of one line."""
    text = " ".join(str(problem).partition("\nquery:")[0].split())
    error_class = LostConnectionError if any(message in text for message in _TEMPORARY) else RemoteRefusedError
    return error_class(f"{display_name}: {text}")


def _type_example(arrow_type: pa.DataType) -> str:
    """Return a constant of the storage class in which values of a type arrive."""
    if pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type):
        return "0"
    if pa.types.is_floating(arrow_type):
        return "0.0"
    return "x'00'" if pa.types.is_binary(arrow_type) else "''"
