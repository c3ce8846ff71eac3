"""The connection that writes to SQLite, which has one writer at a time.

Tasks therefore load their rows into files next to the database, with a table each. The driver attaches the files and
copies their rows. So tasks need not wait for each other, other programs can write while they load, and the database
file does not grow by the staged rows. ADBC loads the files, because it takes Arrow's rows as they are. It contains
a separate copy of SQLite, so it must never open a file that the module of the standard library has open.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from glob import escape
from pathlib import Path
from typing import Self

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import Error

from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.clients.sqlite import connect_to_sqlite, database_path, file_uri, sqlite_error
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.sql.identifiers import quote_ansi, with_suffix
from pushdown_spark.databases.write.write_connection import LOCK_SECONDS, WriteConnection
from pushdown_spark.errors import BadSpecError, RemoteFailedError

_TABLE_NAME = "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE"
_TABLE = '"rows"'
"""The table in the file of a part."""


class SqliteWriter(WriteConnection):
    """A connection that writes."""

    def __init__(self, display_name: str, path: Path, connection: sqlite3.Connection) -> None:
        self._display_name = display_name
        self._path = path
        self._connection = connection
        self._part: adbc.Connection | None = None
        self._attached: set[str] = set()

    @classmethod
    def open(cls, address: DatabaseAddress) -> Self:
        """Open a file."""
        path = database_path(address)
        connection = connect_to_sqlite(address.display_name, file_uri(path, "rw"), LOCK_SECONDS)
        with ExitStack() as stack:
            writer = cls(address.display_name, path, connection)
            stack.callback(writer.close)
            # Otherwise, a view of a missing table keeps a table from being renamed.
            writer.rows("PRAGMA legacy_alter_table = ON")
            stack.pop_all()
        return writer

    def locate(self, schema: str | None, table: str) -> tuple[str, str, str]:
        """Return the table of the only schema, with the spelling of its name in the file."""
        if schema not in (None, "main"):
            raise BadSpecError(f"output_table: {schema}.{table}: a SQLite file has only the schema main; leave it out")
        names = self.rows(_TABLE_NAME, table)
        return "sqlite", "main", str(names[0][0]) if names else table

    def server_id(self) -> str:
        """Return the number of the file, which all links to it share."""
        status = self._path.stat()
        return f"{status.st_dev} {status.st_ino}"

    def create_part(self, table: str, suffix: str) -> None:
        """Create a file with an empty table like another one, and open it for `load`."""
        name = _name_of(table)
        statements = self.rows("SELECT sql FROM main.sqlite_schema WHERE name = %s", name)
        if not statements:
            raise RemoteFailedError(f"{self._display_name}: there is no table {name}; its run has ended")
        path = self._part_path(_name_of(with_suffix(table, suffix)))
        create_table = str(statements[0][0]).replace(quote_ansi(name), _TABLE, 1)
        ((encoding,),) = self.rows("PRAGMA encoding")
        try:
            # The rows are as readable as those of the database.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, stat.S_IMODE(self._path.stat().st_mode)))
            self._part = adbc.connect(file_uri(path, "rw"), autocommit=True)
            # A file that is not complete is never attached, and one with another encoding cannot be.
            settings = ("journal_mode = OFF", "synchronous = OFF", f"encoding = '{encoding}'")
            for statement in (*(f"PRAGMA {setting}" for setting in settings), create_table, "BEGIN"):
                with self._part.cursor() as cursor:
                    cursor.execute(statement)
                    cursor.fetchall()
        except (Error, OSError) as problem:
            raise sqlite_error(self._display_name, problem) from None

    def attach(self, part: str) -> str:
        """Attach the file of a part."""
        name = _name_of(part)
        if name not in self._attached:
            self.rows(f"ATTACH %s AS {quote_ansi(name)}", file_uri(self._part_path(name), "ro"))
            self._attached.add(name)
        return f"{quote_ansi(name)}.{_TABLE}"

    def parts(self, prefix: str) -> list[str]:
        """Return the names of parts from those of their files."""
        start = f"{self._path.name}-"
        names = self._path.parent.glob(f"{escape(start + prefix)}*")
        return sorted(path.name.removeprefix(start) for path in names)

    def drop(self, table: str) -> None:
        """Delete a table or the file of a part."""
        self._close_part()
        try:
            self._part_path(_name_of(table)).unlink(missing_ok=True)
        except OSError as problem:
            raise sqlite_error(self._display_name, problem) from None
        super().drop(table)

    def _load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Insert the rows of a batch into the part that this connection has created."""
        assert self._part is not None
        names = ", ".join(quote_ansi(column.name) for column in columns)
        parameters = ", ".join("?" * len(columns))
        rows = pa.RecordBatch.from_arrays([_storage(values) for values in batch.columns], batch.schema.names)
        try:
            with self._part.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {_TABLE} ({names}) VALUES ({parameters})", rows)  # noqa: S608
        except Error as problem:
            raise sqlite_error(self._display_name, problem) from None

    def begin(self, lock: str = "") -> None:
        """Begin a transaction. With `lock`, it locks the file at once, otherwise at its first change."""
        self.rows("BEGIN IMMEDIATE" if lock else "BEGIN")

    def commit(self) -> None:
        """Complete the part, then commit the transaction."""
        if self._part is not None:
            try:
                with self._part.cursor() as cursor:
                    cursor.execute("COMMIT")
            except Error as problem:
                raise sqlite_error(self._display_name, problem) from None
            self._close_part()
        super().commit()

    def close(self) -> None:
        """Close the connection."""
        self._close_part()
        with suppress(sqlite3.Error):
            self._connection.close()

    def _close_part(self) -> None:
        if self._part is not None:
            with suppress(Error):
                self._part.close()
            self._part = None

    def _part_path(self, name: str) -> Path:
        return self._path.with_name(f"{self._path.name}-{name}")

    def _execute(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql.replace("%s", "?") if values else sql, values)
        except sqlite3.Error as problem:
            raise sqlite_error(self._display_name, problem) from None


def _name_of(table: str) -> str:
    """Return the name of a table without its schema and quotes."""
    return table.rsplit('"', 2)[1]


def _storage(values: pa.Array) -> pa.Array:
    """Return values for SQLite. Decimals, dates and timestamps are strings in its forms, as Spark's reader expects."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    return values.cast(pa.int8()) if pa.types.is_boolean(kind) else values
