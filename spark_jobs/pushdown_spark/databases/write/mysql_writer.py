"""The connection that writes to MySQL and MariaDB: LOAD DATA LOCAL where the server allows it, otherwise INSERT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR
from pymysql.cursors import Cursor

from pushdown_spark.databases.client import MYSQL_EVERY_ROW, DatabaseAddress
from pushdown_spark.databases.clients.mysql import connect_to_mysql, mysql_error
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.sql.identifiers import quote_mysql, with_suffix
from pushdown_spark.databases.write.row_text import MYSQL_CSV, MYSQL_LITERALS
from pushdown_spark.databases.write.write_connection import LOCK_SECONDS, WriteConnection
from pushdown_spark.errors import BadSpecError, PushdownError, RemoteFailedError, UnwritableValueError

_SESSION = (
    # Strict, so that no value is changed; 0 is stored as 0 in a column with AUTO_INCREMENT.
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO', SESSION time_zone = '+00:00', SESSION net_read_timeout = 600, "
    f"SESSION net_write_timeout = 600, SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}, "
    f"SESSION lock_wait_timeout = {LOCK_SECONDS}, {MYSQL_EVERY_ROW}, "
    # Servers may have other defaults. A task may wait for rows of Spark between two batches, a table keeps its
    # constraints, and COMMIT ends neither with a new transaction nor with the connection.
    "SESSION autocommit = 1, SESSION sql_safe_updates = 0, SESSION wait_timeout = 28800, SESSION completion_type = 0, "
    "SESSION foreign_key_checks = 1, SESSION unique_checks = 1 "
    # Only MariaDB runs this comment.
    "/*M!100300 , SESSION check_constraint_checks = 1, SESSION idle_transaction_timeout = 0, "
    "SESSION idle_write_transaction_timeout = 0 */"
)
_ARIA = "ENGINE=Aria TRANSACTIONAL=0"
_NEEDS_INNODB = (
    "SHOW VARIABLES WHERE (variable_name IN ('wsrep_on', 'innodb_encrypt_tables') AND value <> 'OFF') "
    "OR (variable_name = 'enforce_storage_engine' AND value NOT IN ('', 'Aria'))"
)
"""Settings with which tables of Aria would be missing on other servers of a cluster, not encrypted, or refused."""
_CSV = "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
_MAX_PACKET_BYTES = 1 << 20
"""The limit of a packet of rows."""
_QUALIFIER = re.compile(r"`[^`]*`\.`[^`]*`\.(?=`)")
_NOT_ALLOWED = frozenset({1148, 3948, 4166})
"""Errors of servers that do not allow LOAD DATA LOCAL."""
_INVALID_VALUES = frozenset({1264, 1265, 1292, 1366, 1406, 3140, 3141, 4025})
"""Errors about values that do not fit a type."""


@dataclass(frozen=True)
class _Server:
    """What the server allows: LOAD DATA LOCAL, and the bytes of a packet."""

    loads_data: bool
    packet: int
    is_mariadb: bool


class MysqlWriter(WriteConnection):
    """A connection that writes."""

    def __init__(self, address: DatabaseAddress, connection: Connection[Cursor], server: _Server) -> None:
        self._address = address
        self._connection = connection
        self._server = server
        self._loads_data = server.loads_data
        self._lock = ""

    @classmethod
    def open(cls, address: DatabaseAddress) -> Self:
        """Open a connection and set its session up."""
        with ExitStack() as stack:
            try:
                connection = connect_to_mysql(address, local_infile=True)
                stack.callback(_close, connection)
                # The driver would send any file that the server asks for. `_send` only sends rows.
                connection._local_infile = False  # type: ignore[attr-defined]
                writer = cls(address, connection, _start_session(connection))
            except (pymysql.Error, OSError, ValueError) as problem:
                raise mysql_error(address, problem) from None
            stack.pop_all()
        return writer

    def locate(self, schema: str | None, table: str) -> tuple[str, str, str]:
        """Return the table in the given database, by default that of the connection."""
        ((database, ignores_case),) = self.rows("SELECT database(), @@lower_case_table_names")
        if schema is None and database is None:
            raise BadSpecError(f"output_table: {table!r}: give database.table, or set the schema of the connection")
        found_schema = str(database if schema is None else schema)
        if ignores_case:
            found_schema, table = found_schema.lower(), table.lower()
        return "mariadb" if self._server.is_mariadb else "mysql", found_schema, table

    def server_id(self) -> str:
        """Return the host, the port and the directory of the server."""
        ((server,),) = self.rows("SELECT concat_ws(' ', @@hostname, @@port, @@datadir)")
        return str(server)

    def create_part(self, table: str, suffix: str) -> None:
        """Create an empty table like another one. InnoDB would take twice the time of Aria to load and to read it."""
        if self._server.is_mariadb and not self.rows(_NEEDS_INNODB):
            part = with_suffix(table, suffix)
            self.rows(f"CREATE TABLE {part} {_ARIA} AS SELECT * FROM {table} LIMIT 0")  # noqa: S608
        else:
            super().create_part(table, suffix)

    def _load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Load the rows of a batch into a table."""
        values = [_bits_as_integers(column, values) for column, values in zip(columns, batch.columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(values, batch.schema.names)
        try:
            if self._loads_data and self._load_data(table, columns, batch):
                return
            self._loads_data = False
            self._insert(table, columns, batch)
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None

    def begin(self, lock: str = "") -> None:
        """Begin a transaction. Its lock belongs to the connection, and is taken before the snapshot."""
        if lock:
            ((is_locked,),) = self.rows("SELECT GET_LOCK(%s, %s)", lock, LOCK_SECONDS)
            if not is_locked:
                raise RemoteFailedError(
                    f"{self._address.display_name}: another run has locked the table for {LOCK_SECONDS} seconds"
                )
            self._lock = lock
        self.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.rows("START TRANSACTION READ WRITE")

    def commit(self) -> None:
        """Commit the transaction, and release its lock."""
        super().commit()
        self._unlock()

    def rollback(self) -> None:
        """Undo the transaction, and release its lock."""
        super().rollback()
        self._unlock()

    def close(self) -> None:
        """Close the connection."""
        _close(self._connection)

    def _unlock(self) -> None:
        if self._lock:
            # The transaction has ended, and the server releases the lock of a lost connection.
            with suppress(RemoteFailedError):
                self.rows("SELECT RELEASE_LOCK(%s)", self._lock)
            self._lock = ""

    def _load_data(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> bool:
        """Send the rows as the content of a file that exists only in this statement. Return False if it is refused."""
        try:
            rows, warnings = self._send(_load_statement(table, columns, batch), MYSQL_CSV.encode(batch.columns))
        except pymysql.Error as problem:
            if problem.args and problem.args[0] in _NOT_ALLOWED:
                return False
            raise
        # With LOCAL, the server reports invalid values as warnings.
        if warnings or rows != batch.num_rows:
            first = self.rows("SHOW WARNINGS LIMIT 1")
            text = str(first[0][2]) if first else f"{rows} of {batch.num_rows} rows were loaded"
            raise _unwritable(text)
        return True

    def _send(self, statement: str, content: memoryview) -> tuple[int, int]:
        """Run LOAD DATA with a content. Return the numbers of rows and of warnings.

        PyMySQL has no public method that sends anything but a file.
        """
        connection = self._connection
        connection._execute_command(COMMAND.COM_QUERY, statement)  # type: ignore[attr-defined]
        request = connection._read_packet()  # type: ignore[no-untyped-call]
        if not request.is_load_local_packet():
            raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, "the server did not ask for the rows")
        size = min(_MAX_PACKET_BYTES, self._server.packet // 2)
        for start in range(0, len(content), size):
            connection.write_packet(bytes(content[start : start + size]))
        connection.write_packet(b"")
        result = pymysql.connections.MySQLResult(connection)
        result.read()
        return int(result.affected_rows or 0), int(result.warning_count)

    def _insert(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        content = bytes(MYSQL_LITERALS.encode(batch.columns)[:-1])
        statements = -(-2 * len(content) // self._server.packet)
        if statements > 1 and batch.num_rows > 1:
            step = -(-batch.num_rows // statements)
            for start in range(0, batch.num_rows, step):
                self._insert(table, columns, batch.slice(start, step))
            return
        names = ", ".join(quote_mysql(column.name) for column in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ".encode() + content  # noqa: S608
        if len(statement) > self._server.packet:
            raise UnwritableValueError(
                f"a row takes {len(statement):,} bytes in INSERT, and max_allowed_packet of the server is "
                f"{self._server.packet:,}. Nothing was committed; raise that setting, or set local_infile = 1"
            )
        self._connection.query(statement)

    def _execute(self, sql: str, values: Sequence[object]) -> Cursor:
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql, values or None)
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None
        return cursor

    def _error(self, problem: BaseException) -> PushdownError:
        if problem.args and problem.args[0] in _INVALID_VALUES:
            return _unwritable(str(problem.args[1]))
        return mysql_error(self._address, problem)


def _start_session(connection: Connection[Cursor]) -> _Server:
    """Set the session up, and return what the server allows."""
    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
        cursor.execute("SELECT @@GLOBAL.local_infile, @@SESSION.max_allowed_packet, version()")
        ((loads_data, packet, version),) = cursor.fetchall()
    return _Server(bool(loads_data), int(packet), "mariadb" in str(version).lower())


def _close(connection: Connection[Cursor]) -> None:
    with suppress(pymysql.Error):
        connection.close()


def _load_statement(table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> str:
    """Return the statement that loads the rows as CSV. Values that it has to convert go through variables."""
    fields, assignments = [], []
    for number, (column, values) in enumerate(zip(columns, batch.columns, strict=True)):
        name, variable = quote_mysql(column.name), f"@c{number}"
        conversion = ""
        if pa.types.is_binary(values.type):
            conversion = f"UNHEX({variable})"
        elif column.column_type.startswith("bit"):
            conversion = f"CAST({variable} AS UNSIGNED)"
        fields.append(variable if conversion else name)
        if conversion:
            assignments.append(f"{name} = {conversion}")
    set_clause = f" SET {', '.join(assignments)}" if assignments else ""
    return f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} {_CSV} ({', '.join(fields)}){set_clause}"


def _unwritable(message: str) -> UnwritableValueError:
    """Return an error with the message of the server, without the name of the staging table."""
    problem = _QUALIFIER.sub("", message)
    return UnwritableValueError(
        f"{problem}. Nothing was committed; convert the value in the query, or change the type of the column"
    )


def _bits_as_integers(column: TargetColumn, values: pa.Array) -> pa.Array:
    """Return decimals for a column of bits as integers. The server would take a string of digits for the bits."""
    is_decimal = pa.types.is_decimal(values.type) and column.column_type.startswith("bit")
    return values.cast(pa.decimal128(20, 0)).cast(pa.uint64()) if is_decimal else values
