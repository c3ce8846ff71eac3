"""The client of PostgreSQL: psycopg queries the catalog and copies few rows as CSV, ADBC copies many in binary form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
from adbc_driver_manager import Error
from psycopg.conninfo import make_conninfo

from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, Row, postgresql_options
from pushdown_spark.databases.clients.arrow_conversion import REMEDY, CsvRows
from pushdown_spark.errors import (
    LostConnectionError,
    PushdownError,
    RemoteFailedError,
    RemoteRefusedError,
    SchemaConflictError,
)

_REFUSED = ("28", "3D", "3F", "42", "0A", "0L", "0P")
"""SQLSTATE classes of permanent errors: privileges, names, syntax."""
_LOST = ("08", "53", "57P", "40", "25P03")
"""SQLSTATE classes of temporary errors: connections, resources, shutdowns, serialization."""
_VALUES = ("22003", "22007", "22008", "22P02")
"""SQLSTATEs of values that do not fit a type."""
_REFUSED_MESSAGES = (
    "authentication failed",
    "pg_hba.conf",
    "SSL",
    "certificate",
    "no password supplied",
    "does not exist",
)
_LOST_TLS = re.compile(r"SSL (?:connection has been closed|SYSCALL error)|unexpected eof")
"""Messages about the end of a connection that uses TLS, other than those about TLS itself."""
_LOST_SNAPSHOT = re.compile(r"invalid snapshot identifier|snapshot \S+ does not exist")
"""PostgreSQL's messages for a snapshot whose connection is closed: before version 17, and since."""
_BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_REPLACED = """
SELECT l.relation::regclass::text
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND (
    c.relkind IN ('r', 'm') AND c.relfilenode <> 0 AND c.relfilenode <> pg_catalog.pg_relation_filenode(c.oid)
    OR c.oid IS NULL AND pg_catalog.pg_get_indexdef(l.relation) IS NULL
        AND coalesce(pg_catalog.pg_partition_root(l.relation) = l.relation, true)
    OR c.relkind = 'p' AND EXISTS (
        SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid
        AND pg_catalog.pg_partition_root(i.inhrelid) IS DISTINCT FROM pg_catalog.pg_partition_root(c.oid)))
"""
"""The relations that the transaction has read and of which its snapshot may miss rows. The catalog's rows are those of
the snapshot, the functions return the current state. In this order:

- The file was replaced, as TRUNCATE does. The snapshot has no row of the new file.
- The snapshot does not know the relation, because another one got its name. New partitions and indexes do no harm.
- A partition was detached or dropped.
"""
_BATCH_BYTES = 4 << 20
_CSV_BYTES = 1 << 20
LONG_DIGITS = 18
"""Decimals with up to this number of digits fit 64 bits. They are selected as unscaled integers."""
NESTED_ARRAY = ", which has several dimensions"
"""The end of the string that stands for an array in a failing query, after the name of its column."""
_NESTED = re.compile(rf'"(column .*{NESTED_ARRAY})"', re.DOTALL)
_NAN = "cannot convert NaN to bigint"
_PREFIX = re.compile(
    r"^(?:[A-Z_]+: (?=\[|Failed))?(?:\[libpq\] )?(?:(?:Failed to|could not) [\w ]+: |Execution error \[\w+\]: )*"
)
"""What ADBC adds before a message of the server or of libpq."""
_STATE = re.compile(r"SQLSTATE: (\w{5})")
"""Where ADBC reports the SQLSTATE of an error that occurs while rows arrive."""
_SUFFIX = re.compile(r"\n(?:LINE \d+:|\nQuery was|connection to server at|\. SQLSTATE|Query was).*", re.DOTALL)
"""What follows the first message: the statement, or the second attempt to connect."""


class PostgresqlClient:
    """A read-only connection. It reads the snapshot that the settings name, if any."""

    def __init__(self, address: DatabaseAddress, settings: ConnectionSettings) -> None:
        self._address = address
        self._settings = settings
        self._control: psycopg.Connection[Row] | None = None
        self._reader: adbc.Connection | None = None

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a small query. Its parameters are `%s`."""
        try:
            with self._control_connection().cursor() as cursor:
                cursor.execute(sql, values or None)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as problem:
            raise self._error(problem, problem.sqlstate) from None

    def describe(self, query: str) -> list[tuple[str, int, int]]:
        """Return name, type OID and type modifier of the columns of a query, without running it."""
        try:
            with self._control_connection().cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}\n) AS described LIMIT 0")  # noqa: S608 -- the user's own
                result = cursor.pgresult
                assert result is not None
                return [
                    ((result.fname(index) or b"").decode(), result.ftype(index), result.fmod(index))
                    for index in range(result.nfields)
                ]
        except psycopg.Error as problem:
            raise self._error(problem, problem.sqlstate) from None

    def export_snapshot(self) -> str:
        """Return the name of a snapshot that other connections can read until this one closes."""
        self.rows(_BEGIN)
        self.rows("SET LOCAL idle_in_transaction_session_timeout = 0")
        ((name,),) = self.rows("SELECT pg_export_snapshot()")
        return str(name)

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query: with ADBC, or with psycopg if few are expected, which connects sooner."""
        as_csv = self._settings.has_few_rows and all(_has_csv_form(field.type) for field in columns)
        try:
            yield from self._copy_csv(sql, columns) if as_csv else self._copy_binary(sql)
        except (Error, psycopg.Error, OSError, pa.ArrowException) as problem:
            conflict = _conflicting_value(str(problem), columns)
            if conflict is not None:
                raise SchemaConflictError(f"{self._address.display_name}: {conflict}; {REMEDY}") from None
            raise self._error(problem, getattr(problem, "sqlstate", None)) from None

    def _copy_binary(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a binary COPY. ADBC connects slowly, because it reads all types of the database first."""
        self._reader = adbc.connect(self._conninfo, autocommit=True)
        with self._reader.cursor() as cursor:
            cursor.execute(_BEGIN)
            if self._settings.snapshot is not None:
                cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._settings.snapshot}'")
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()
            cursor.execute(_REPLACED)
            self._check_same_tables(cursor.fetchall())

    def _copy_csv(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a CSV COPY, which is faster than Python values, in small batches."""
        rows, lines = CsvRows([field.with_type(_csv_type(field.type)) for field in columns], ("t", "f")), bytearray()
        # psycopg takes a statement without parameters as bytes.
        statement = f"COPY ({sql}) TO STDOUT (FORMAT csv)".encode()
        self.rows(_BEGIN)
        with self._control_connection().cursor() as cursor, cursor.copy(statement) as blocks:
            for line in blocks:
                lines += line
                if len(lines) >= _CSV_BYTES:
                    yield from rows.batches(bytes(lines))
                    lines.clear()
        if lines:
            yield from rows.batches(bytes(lines))
        self._check_same_tables(self.rows(_REPLACED))
        self.rows("COMMIT")

    def _check_same_tables(self, tables: Sequence[Row]) -> None:
        """Raise LostConnectionError if relations were replaced after the snapshot, so that a new snapshot is read."""
        if tables:
            names = ", ".join(str(name) for (name,) in tables)
            raise LostConnectionError(
                f"{self._address.display_name}: {names} was truncated or replaced during the read; run the task again"
            )

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._control, self._reader):
            if connection is not None:
                connection.close()
        self._control = self._reader = None

    @property
    def _conninfo(self) -> str:
        options = postgresql_options(self._address.options, self._settings.statement_timeout)
        return connection_string(self._address, options)

    def _control_connection(self) -> psycopg.Connection[Row]:
        if self._control is None:
            self._control = psycopg.connect(self._conninfo, autocommit=True)
        return self._control

    def _error(self, problem: BaseException, state: str | None) -> PushdownError:
        return postgresql_error(self._address, problem, state)


def connection_string(address: DatabaseAddress, options: str) -> str:
    """Return the connection string with keywords. Error messages would show a URI with its password."""
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
        "options": options,
    }
    return make_conninfo("", **{key: value for key, value in parts.items() if value is not None})


def postgresql_error(address: DatabaseAddress, problem: BaseException, state: str | None) -> PushdownError:
    """Return an error of a driver as a typed error: one line, without secrets."""
    state_in_text = _STATE.search(str(problem))
    state = state or (state_in_text.group(1) if state_in_text else None)
    text = address.without_secrets(_PREFIX.sub("", _SUFFIX.sub("", str(problem))))
    if _LOST_SNAPSHOT.search(text):
        text = f"{text}; the exporting connection is closed: keep the result of the query while its frame is used"
    return _error_class(text, state)(f"{address.display_name}: {text}")


def _conflicting_value(text: str, columns: Sequence[pa.Field]) -> str | None:
    """Return what an error of the server says about a value of a column that Spark cannot represent, or None."""
    if nested := _NESTED.search(text):
        return " ".join(nested.group(1).split())
    # The server does not name the column. Only these columns are cast to integers.
    names = [field.name for field in columns if pa.types.is_decimal(field.type) and field.type.precision <= LONG_DIGITS]
    if _NAN not in text or not names:
        return None
    holder = f"column {names[0]} holds" if len(names) == 1 else f"one of the columns {', '.join(names)} holds"
    return f"{holder} NaN, which Spark cannot represent as a decimal"


def _has_csv_form(arrow_type: pa.DataType) -> bool:
    """Return whether Arrow can parse the values of a type from the text that PostgreSQL writes for them."""
    return not (pa.types.is_binary(arrow_type) or pa.types.is_list(arrow_type))


def _csv_type(target: pa.DataType) -> pa.DataType:
    """Return the type to parse a CSV field as. Dates and long decimals are converted later, with better errors."""
    if pa.types.is_decimal(target):
        return pa.int64() if target.precision <= LONG_DIGITS else pa.string()
    is_number = pa.types.is_integer(target) or pa.types.is_floating(target)
    return target if is_number or pa.types.is_boolean(target) else pa.string()


def _error_class(text: str, state: str | None) -> type[PushdownError]:
    """Return the class that says whether a retry can help. libpq has no SQLSTATE for connections that failed."""
    if state is None or state == "00000":
        is_refused = any(message in text for message in _REFUSED_MESSAGES) and not _LOST_TLS.search(text)
        return RemoteRefusedError if is_refused else LostConnectionError
    if state.startswith(_LOST):
        return LostConnectionError
    if state in _VALUES or "NaN" in text or "infinity" in text:
        return SchemaConflictError
    return RemoteRefusedError if state.startswith(_REFUSED) else RemoteFailedError
