"""The client of SQLite: ADBC reads rows as Arrow, the standard library's module runs small queries."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import Error

from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, Row
from pushdown_spark.databases.sql.identifiers import quote_ansi
from pushdown_spark.errors import LostConnectionError, RemoteFailedError, RemoteRefusedError

_BUSY = ("database is locked", "database table is locked", "disk I/O error")


class SqliteClient:
    """A read-only connection."""

    def __init__(self, address: DatabaseAddress, settings: ConnectionSettings) -> None:
        self._display_name = address.display_name
        self._settings = settings
        self._uri = file_uri(database_path(address), "ro")
        self._connection = sqlite3.connect(self._uri, uri=True, timeout=address.connect_timeout)
        self._reader: adbc.Connection | None = None

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
        started = time.monotonic()
        try:
            self._reader = adbc.connect(self._uri, autocommit=True)
            with self._reader.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(self._settings.fetch_size)})
                cursor.execute(f"SELECT {typed_row} UNION ALL SELECT * FROM ({sql})")  # noqa: S608 -- built as a tree
                rows_to_drop = 1
                for batch in cursor.fetch_record_batch():
                    yield batch.slice(rows_to_drop)
                    rows_to_drop = 0
                    self._check_timeout(started)
        except (Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        if self._reader is not None:
            self._reader.close()

    def _check_timeout(self, started: float) -> None:
        """Raise RemoteFailedError after the timeout. SQLite has none itself, so it is checked after each batch."""
        limit = self._settings.statement_timeout
        if limit is not None and time.monotonic() - started > limit:
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


def file_uri(path: Path, mode: str) -> str:
    """Return the URI with which SQLite opens an existing file. The mode is `ro` or `rw`."""
    return f"file:{quote(str(path))}?mode={mode}"


def sqlite_error(display_name: str, problem: BaseException) -> RemoteFailedError | RemoteRefusedError:
    """Return an error of a driver as a typed error of one line."""
    text = " ".join(str(problem).partition("\nquery:")[0].split())
    error_class = LostConnectionError if any(message in text for message in _BUSY) else RemoteRefusedError
    return error_class(f"{display_name}: {text}")


def _type_example(arrow_type: pa.DataType) -> str:
    """Return a constant of the storage class in which values of a type arrive."""
    if pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type):
        return "0"
    if pa.types.is_floating(arrow_type):
        return "0.0"
    return "x'00'" if pa.types.is_binary(arrow_type) else "''"
