"""The connection that writes to PostgreSQL. COPY takes the rows of a batch in binary form, or as CSV for some types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import psycopg
import pyarrow as pa

from pushdown_spark.databases.client import DatabaseAddress, Row, postgresql_options
from pushdown_spark.databases.clients.postgresql import connection_string, postgresql_error
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.sql.identifiers import POSTGRESQL_NAME_BYTES, quote_ansi
from pushdown_spark.databases.write.row_binary import binary_rows
from pushdown_spark.databases.write.row_text import POSTGRESQL_CSV
from pushdown_spark.databases.write.write_connection import LOCK_SECONDS, WriteConnection
from pushdown_spark.errors import BadSpecError, PushdownError, RemoteRefusedError, UnwritableValueError

_TABLE = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_END_WRITERS = """
SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_locks
WHERE database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
AND relation = %s::regclass AND mode = 'RowExclusiveLock' AND granted AND pid <> pg_backend_pid()
"""
_INVALID_VALUE = "22"
"""SQLSTATE class of values that do not fit a type."""
_COPIED_VALUE = re.compile(r"^COPY .*, line \d+, (column .*)$", re.MULTILINE)
"""The line of an error's context with the column and the value."""
_CONSTRAINT = "23"
"""SQLSTATE class of rows that violate a constraint of the table."""


class PostgresqlWriter(WriteConnection):
    """A connection that writes."""

    def __init__(self, address: DatabaseAddress, connection: psycopg.Connection[Row]) -> None:
        self._address = address
        self._connection = connection

    @classmethod
    def open(cls, address: DatabaseAddress) -> Self:
        """Open a connection."""
        # A task that is not reachable any more could keep its locks on a staging table for hours. Without array_nulls,
        # NULL in an array of strings would become the string NULL.
        settings = f"-c lock_timeout={LOCK_SECONDS}s -c array_nulls=on"
        options = f"{postgresql_options(address.options, read_only=False)} {settings}"
        try:
            return cls(address, psycopg.connect(connection_string(address, options), autocommit=True))
        except psycopg.Error as problem:
            raise postgresql_error(address, problem, problem.sqlstate) from None

    def locate(self, schema: str | None, table: str) -> tuple[str, str, str]:
        """Return the table that the search path finds. A new one is in the first schema of the path."""
        if len(table.encode()) > POSTGRESQL_NAME_BYTES:
            # PostgreSQL cuts off longer names, so that a retry would not find the table of its run.
            raise BadSpecError(
                f"output_table: {table!r} is longer than {POSTGRESQL_NAME_BYTES} bytes; use a shorter name"
            )
        name = ".".join(quote_ansi(part) for part in (schema, table) if part is not None)
        for found_schema, found_table in self.rows(_TABLE, name):
            return "postgres", str(found_schema), str(found_table)
        if schema is None:
            ((current,),) = self.rows("SELECT current_schema()")
            if current is None:
                raise BadSpecError(f"output_table: {table!r}: the search path has no schema; give schema.table")
            schema = str(current)
        return "postgres", schema, table

    def server_id(self) -> str:
        """Return the start of the server and the name of the database."""
        ((start_time, database),) = self.rows("SELECT pg_postmaster_start_time(), current_database()")
        return f"{start_time} {database}"

    def end_writers(self, table: str) -> None:
        """Terminate the sessions with an open transaction that has added rows."""
        self.rows(_END_WRITERS, table)

    def _load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Copy the rows of a batch into a table."""
        content = binary_rows(columns, batch)
        form = "csv" if content is None else "binary"
        names = ", ".join(quote_ansi(column.name) for column in columns)
        try:
            # psycopg takes a statement without parameters as bytes.
            statement = f"COPY {table} ({names}) FROM STDIN (FORMAT {form})".encode()
            with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
                for part in content or [POSTGRESQL_CSV.encode(batch.columns)]:
                    copy.write(part)
        except psycopg.Error as problem:
            raise self._error(problem) from None

    def begin(self, lock: str = "") -> None:
        """Begin a transaction. Each of its statements sees what others have committed before the statement."""
        self.rows("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        # A task may wait for rows of Spark between two batches.
        self.rows("SET LOCAL idle_in_transaction_session_timeout = 0")
        if lock:
            self.rows(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            self.rows("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", lock)

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self._connection.close()

    def _execute(self, sql: str, values: Sequence[object]) -> psycopg.Cursor[Row]:
        try:
            return self._connection.execute(sql.encode(), values or None)
        except psycopg.Error as problem:
            raise self._error(problem) from None

    def _error(self, problem: psycopg.Error) -> PushdownError:
        state, context = problem.sqlstate, problem.diag.context or ""
        if state is not None and state.startswith(_CONSTRAINT):
            return RemoteRefusedError(f"{self._address.display_name}: {' '.join(str(problem).split())}")
        if state is None or not state.startswith(_INVALID_VALUE):
            return postgresql_error(self._address, problem, state)
        match = _COPIED_VALUE.search(context)
        where = match[1] if match else "a value"
        return UnwritableValueError(
            f"{where}: {problem.diag.message_primary}. Nothing was committed; convert the value in the query, or "
            "change the type of the column"
        )
