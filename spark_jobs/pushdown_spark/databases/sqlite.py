"""Read SQLite files: ADBC for rows as Arrow, the standard library's module for everything small."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import Error

from pushdown_spark.databases.address import Address, Settings
from pushdown_spark.databases.client import Row
from pushdown_spark.errors import LostConnectionError, RemoteFailedError, RemoteRefusedError

_BUSY = ("database is locked", "database table is locked", "disk I/O error")


class SqliteClient:
    """A connection that can only read."""

    def __init__(self, address: Address, settings: Settings) -> None:
        path = Path(address.database)
        if not path.is_file():
            raise RemoteRefusedError(f"there is no SQLite file {path}; check the connection's path")
        self._place = address.place
        self._settings = settings
        self._uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        self._connection = sqlite3.connect(self._uri, uri=True, timeout=address.connect_timeout)
        self._reader: adbc.Connection | None = None

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a small query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as problem:
            raise self._error(problem) from None

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """The rows behind one of our own.

        SQLite's columns have no types, so the driver takes those of the first rows it sees and refuses others. The row
        in front has the right ones.
        """
        names = ", ".join(f"{_example(field.type)} AS {_quoted(field.name)}" for field in columns)
        started = time.monotonic()
        try:
            self._reader = adbc.connect(self._uri, autocommit=True)
            with self._reader.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(self._settings.fetch_size)})
                cursor.execute(f"SELECT {names} UNION ALL SELECT * FROM ({sql})")  # noqa: S608 -- built as a tree
                skipped = 1
                for batch in cursor.fetch_record_batch():
                    yield batch.slice(skipped)
                    skipped = 0
                    self._check_time(started)
        except (Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        if self._reader is not None:
            self._reader.close()

    def _check_time(self, started: float) -> None:
        """SQLite has nobody else to ask: the time is looked at between batches."""
        limit = self._settings.statement_timeout
        if limit is not None and time.monotonic() - started > limit:
            raise RemoteFailedError(f"{self._place}: the statement took longer than {limit:g} s (statement_timeout)")

    def _error(self, problem: BaseException) -> RemoteFailedError | RemoteRefusedError:
        text = " ".join(str(problem).partition("\nquery:")[0].split())
        kind = LostConnectionError if any(sign in text for sign in _BUSY) else RemoteRefusedError
        return kind(f"{self._place}: {text}")


def _example(wanted: pa.DataType) -> str:
    """A constant of the storage class in which values for this type arrive."""
    if pa.types.is_integer(wanted) or pa.types.is_boolean(wanted):
        return "0"
    if pa.types.is_floating(wanted):
        return "0.0"
    return "x'00'" if pa.types.is_binary(wanted) else "''"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
