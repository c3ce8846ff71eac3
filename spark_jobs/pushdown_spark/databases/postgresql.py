"""Read PostgreSQL: psycopg asks the catalogue and has few rows copied as CSV, ADBC brings many in binary COPY."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import cast

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
from adbc_driver_manager import Error
from psycopg import capabilities
from psycopg.conninfo import make_conninfo

from pushdown_spark.databases.address import Address, Settings
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.csv_rows import CsvRows
from pushdown_spark.databases.session_settings import postgresql_options
from pushdown_spark.errors import (
    LostConnectionError,
    PushdownError,
    RemoteFailedError,
    RemoteRefusedError,
    SchemaConflictError,
)

_REFUSED = ("28", "3D", "3F", "42", "0A", "0L", "0P")
"""Classes of SQLSTATE that the same statement would meet again: rights, names, syntax."""
_LOST = ("08", "53", "57P", "40", "25P03")
"""Classes that may pass: connections, resources, shutdowns, serialization."""
_VALUES = ("22003", "22007", "22008", "22P02")
"""SQLSTATEs of values that a type has no room for."""
_REFUSED_TEXTS = (
    "authentication failed",
    "pg_hba.conf",
    "SSL",
    "certificate",
    "no password supplied",
    "does not exist",
)
_LOST_SNAPSHOT = "invalid snapshot identifier"
_BATCH_BYTES = 4 << 20
_CSV_BYTES = 1 << 20
LONG_DIGITS = 18
"""Decimals of so many digits, which 64 bits always have room for, are selected as whole numbers without their point."""
_CHUNK_ROWS = 1_000
"""Rows that libpq hands over at a time: with more, Python waits for the server where it could take rows apart."""
_PREFIX = re.compile(
    r"^(?:[A-Z_]+: (?=\[|Failed))?(?:\[libpq\] )?(?:(?:Failed to|could not) [\w ]+: |Execution error \[\w+\]: )*"
)
"""What ADBC puts in front of the server's or libpq's own message."""
_STATE = re.compile(r"SQLSTATE: (\w{5})")
"""Where ADBC has the state of errors that come amid the rows."""
_BEHIND = re.compile(r"\n(?:LINE \d+:|\nQuery was|connection to server at|\. SQLSTATE|Query was).*", re.DOTALL)
"""What follows the first thing that a message says: the statement again, and the second try of a connection."""


class PostgresqlClient:
    """A connection that can only read, in the snapshot of the settings where they name one."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._control: psycopg.Connection[Row] | None = None
        self._reader: adbc.Connection | None = None

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a small query; its parameters are `%s`."""
        try:
            with self._controlled().cursor() as cursor:
                cursor.execute(sql, values or None)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as problem:
            raise self._error(problem, problem.sqlstate) from None

    def types(self, query: str) -> list[tuple[str, int, int]]:
        """Name, type and type modifier of the columns of a query, which is not run."""
        try:
            with self._controlled().cursor() as cursor:
                # The server describes what it has parsed.
                cursor.execute(f"SELECT * FROM ({query}\n) AS described LIMIT 0")  # noqa: S608 -- the user's own
                result = cursor.pgresult
                assert result is not None
                return [
                    ((result.fname(place) or b"").decode(), result.ftype(place), result.fmod(place))
                    for place in range(result.nfields)
                ]
        except psycopg.Error as problem:
            raise self._error(problem, problem.sqlstate) from None

    def export_snapshot(self) -> str:
        """The name of a snapshot that others can read until this connection closes."""
        self.rows("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.rows("SET LOCAL idle_in_transaction_session_timeout = 0")
        ((name,),) = self.rows("SELECT pg_export_snapshot()")
        return str(name)

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """The rows of a query, by ADBC or, where few are expected, by the driver that connects sooner."""
        few = self._few if all(_is_told_by_text(field.type) for field in columns) else self._as_values
        try:
            yield from few(sql, columns) if self._settings.few else self._many(sql)
        except (Error, psycopg.Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem, getattr(problem, "sqlstate", None)) from None

    def _many(self, sql: str) -> Iterator[pa.RecordBatch]:
        """By binary COPY. Connecting takes long because ADBC asks for all types of the database first."""
        self._reader = adbc.connect(self._conninfo, autocommit=True)
        with self._reader.cursor() as cursor:
            if self._settings.snapshot is not None:
                cursor.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._settings.snapshot}'")
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def _few(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """As CSV, which takes a fifth of the time that values of Python's take.

        Like values they come in pieces, in case that there are more than were expected.
        """
        rows, lines = CsvRows([field.with_type(_wire(field.type)) for field in columns], ("t", "f")), bytearray()
        # To psycopg a statement is bytes or a literal: this one holds no parameters.
        copied = f"COPY ({sql}) TO STDOUT (FORMAT csv)".encode()
        with self._controlled().cursor() as cursor, cursor.copy(copied) as blocks:
            for line in blocks:
                lines += line
                if len(lines) >= _CSV_BYTES:
                    yield from rows.batches(bytes(lines))
                    lines.clear()
        if lines:
            yield from rows.batches(bytes(lines))

    def _as_values(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """For a cursor the server uses one process alone."""
        names = [field.name for field in columns]
        size = self._settings.fetch_size
        chunk = min(size, _CHUNK_ROWS) if capabilities.has_stream_chunked() else 1
        with self._controlled().cursor() as cursor:
            streamed = cursor.stream(sql, binary=True, size=chunk)
            with closing(cast("Generator[Row]", streamed)) as rows:
                while piece := self._fetched(rows, size):
                    yield pa.RecordBatch.from_arrays([pa.array(values) for values in zip(*piece, strict=True)], names)

    def _fetched(self, rows: Generator[Row], size: int) -> list[Row]:
        """Some rows. Raises SchemaConflictError for dates that Python has not, no more than Spark."""
        try:
            return list(islice(rows, size))
        except psycopg.DataError as problem:
            if problem.sqlstate is not None:
                raise
            raise SchemaConflictError(
                f"{self._address.place}: {problem}; Spark's dates have the years 1 to 9999, and none is infinite: "
                "leave the column out, or give a `query` that converts it"
            ) from None

    def close(self) -> None:
        """End the connections."""
        for connection in (self._control, self._reader):
            if connection is not None:
                connection.close()
        self._control = self._reader = None

    @property
    def _conninfo(self) -> str:
        """The connection in libpq's keywords: an address with the password in it would be shown in messages."""
        address, settings = self._address, self._settings
        parts = {
            "host": address.host,
            "port": address.port,
            "dbname": address.database,
            "user": address.user,
            "password": address.password,
            "sslmode": address.tls_mode,
            "sslrootcert": address.ca_file,
            "sslcert": address.cert_file,
            "sslkey": address.key_file,
            "connect_timeout": address.connect_timeout,
            "client_encoding": "UTF8",
            "application_name": "airflow_pushdown",
            "options": postgresql_options(address.options, settings.statement_timeout),
        }
        return make_conninfo("", **{key: value for key, value in parts.items() if value is not None})

    def _controlled(self) -> psycopg.Connection[Row]:
        if self._control is None:
            self._control = psycopg.connect(self._conninfo, autocommit=True)
        return self._control

    def _error(self, problem: BaseException, state: str | None) -> PushdownError:
        told = _STATE.search(str(problem))
        state = state or (told.group(1) if told else None)
        said = _PREFIX.sub("", _BEHIND.sub("", str(problem)))
        text = self._address.without_secrets(said)
        if _LOST_SNAPSHOT in text:
            text = f"{text}; its holder is gone: keep the result of the query while its frame is used"
        return _kind(text, state)(f"{self._address.place}: {text}")


def _is_told_by_text(kind: pa.DataType) -> bool:
    """Whether Arrow makes the wanted values of a column out of what PostgreSQL writes for them."""
    return not (pa.types.is_binary(kind) or pa.types.is_list(kind))


def _wire(wanted: pa.DataType) -> pa.DataType:
    """What a column is read as; dates and long decimals are converted later, where a wrong one can be named."""
    if pa.types.is_decimal(wanted):
        return pa.int64() if wanted.precision <= LONG_DIGITS else pa.string()
    is_number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted)
    return wanted if is_number or pa.types.is_boolean(wanted) else pa.string()


def _kind(text: str, state: str | None) -> type[PushdownError]:
    """Whether the same would happen again. libpq knows no SQLSTATE of connections that were never made."""
    if state is None or state == "00000":
        return RemoteRefusedError if any(sign in text for sign in _REFUSED_TEXTS) else LostConnectionError
    if state.startswith(_LOST):
        return LostConnectionError
    if state in _VALUES or "NaN" in text or "infinity" in text:
        return SchemaConflictError
    return RemoteRefusedError if state.startswith(_REFUSED) else RemoteFailedError
