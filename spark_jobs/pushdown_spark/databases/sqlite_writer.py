"""The connection that writes to SQLite, which has one writer at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.identifiers import quote_ansi
from pushdown_spark.databases.sqlite import sqlite_error
from pushdown_spark.databases.write_connection import LOCK_SECONDS, WriteConnection, check_batch
from pushdown_spark.errors import RemoteRefusedError


class SqliteWriter(WriteConnection):
    """A connection that writes."""

    def __init__(self, address: DatabaseAddress) -> None:
        path = Path(address.database)
        if not path.is_file():
            raise RemoteRefusedError(f"there is no SQLite file {path}; check the connection's path")
        self._display_name = address.display_name
        uri = f"file:{quote(str(path.absolute()))}?mode=rw"
        self._connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
        # Otherwise, a view of a missing table keeps a table from being renamed.
        self.rows("PRAGMA legacy_alter_table = ON")

    def load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Insert the rows of a batch into a table."""
        check_batch(columns, batch)
        names = ", ".join(quote_ansi(column.name) for column in columns)
        parameters = ", ".join("?" * len(columns))
        values = zip(*(_values(array) for array in batch.columns), strict=True)
        try:
            self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({parameters})", values)  # noqa: S608
        except sqlite3.Error as problem:
            raise sqlite_error(self._display_name, problem) from None

    def begin(self, lock: str = "") -> None:
        """Begin a transaction that locks the file."""
        self.rows("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close the connection."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _execute(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql.replace("%s", "?") if values else sql, values)
        except sqlite3.Error as problem:
            raise sqlite_error(self._display_name, problem) from None


def _values(array: pa.Array) -> list[object]:
    """Return values for SQLite. Decimals, dates and timestamps are strings in its forms, as Spark's reader expects."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    elif pa.types.is_date(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.string())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    values: list[object] = array.to_pylist()
    return values
