"""The client of MySQL and MariaDB. The server sends each row as one CSV line, which pyarrow parses."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO, NamedTuple, Self

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor, SSCursor

from pushdown_spark.databases.client import MYSQL_SESSION, ConnectionSettings, DatabaseAddress, Row, mysql_timeout
from pushdown_spark.databases.clients.arrow_conversion import CsvRows
from pushdown_spark.databases.sql.identifiers import quote_mysql
from pushdown_spark.errors import LostConnectionError, PushdownError, RemoteFailedError, RemoteRefusedError

_LOST = frozenset(
    {1040, 1047, 1053, 1077, 1079, 1152, *range(1158, 1162), 1203, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2055, 4031}
)
"""Temporary errors: too many connections, shutdown, network, locks, ended sessions, a node that joins its cluster."""
_INTERRUPTED = frozenset({1020, 1021, 1030, 1037, 1041, 1114, 1180, 1206, 1226, 1290, 1317, 1836, 1969, 3024, 3101})
"""Errors that a statement may not meet again: changed rows, full disks and other limits, canceled statements, timeouts,
servers that are read-only during a failover."""
_TLS_MESSAGES = ("SSL", "certificate", "CERTIFICATE")
_LOST_TLS = re.compile(r"(?i)(?<![a-z])eof(?![a-z])|connection reset|broken pipe")
"""Messages about the end of a connection that uses TLS, other than those about TLS itself."""
_READ_BYTES = 1 << 20
_MIN_OUTPUT_BYTES = 1 << 20
"""Bytes of lines to collect before they are parsed. A server that uses TLS sends 16 KB at a time."""
_MAX_PAYLOAD = 0xFFFFFF
"""A payload of this length continues in the next packet."""
_HEADER_BYTES = 4
_NULL, _TWO_BYTES, _THREE_BYTES, _EIGHT_BYTES, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_PREFIXES = {_TWO_BYTES: 3, _THREE_BYTES: 4, _EIGHT_BYTES: 9}
"""Bytes before the string by the first byte of the payload. Strings of up to 250 bytes have one byte before them."""
_END_SIZE = 9
"""A payload that starts like an 8-byte length and is shorter than this ends the result."""


class RowTooLongError(Exception):
    """A row, as one string, exceeds the server's maximum packet size."""


class ResultColumn(NamedTuple):
    """A column of a result. Type, flags and collation are codes of the protocol."""

    name: str
    type_code: int
    flags: int
    length: int
    scale: int
    collation: int


class MysqlClient:
    """A read-only connection."""

    def __init__(self, address: DatabaseAddress, connection: Connection[Cursor]) -> None:
        self._address = address
        self._connection = connection

    @classmethod
    def open(cls, address: DatabaseAddress, settings: ConnectionSettings) -> Self:
        """Open a connection and set its session up."""
        with ExitStack() as stack:
            try:
                client = cls(address, connect_to_mysql(address))
            except (pymysql.Error, OSError, ValueError) as problem:
                raise mysql_error(address, problem) from None
            stack.callback(client.close)
            client.rows(MYSQL_SESSION)
            client.rows("SET SESSION TRANSACTION READ ONLY")
            if (limit := settings.statement_timeout) is not None:
                ((version,),) = client.rows("SELECT version()")
                setting = mysql_timeout(limit, is_mariadb="mariadb" in str(version).lower())
                client.rows(f"SET SESSION {setting}")
            stack.pop_all()
        return client

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a small query. Its parameters are `%s`."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None

    def describe(self, query: str) -> list[ResultColumn]:
        """Return the columns of a query as the server describes them. The driver's public description has no flags."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}\n) AS `described` LIMIT 0")  # noqa: S608 -- the user's own
                fields = cursor._result.fields  # type: ignore[attr-defined]
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None
        return [ResultColumn(f.name, f.type_code, f.flags, f.length, f.scale, f.charsetnr) for f in fields]

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query. Strings, dates and decimals arrive as strings, the rest in the requested types."""
        rows = CsvRows([field.with_type(_csv_type(field.type)) for field in columns], ("1", "0"))
        try:
            cursor = SSCursor(self._connection)
            cursor.execute(_as_csv(sql, columns))
            # `row_lines` reads the driver's socket. The driver must not look for more rows when the cursor closes.
            cursor._result.unbuffered_active = False  # type: ignore[attr-defined]
            for lines in row_lines(self._connection._rfile):  # type: ignore[attr-defined]
                yield from rows.batches(lines)
        except RowTooLongError:
            raise RemoteRefusedError(
                f"{self._address.display_name}: a row is longer than the server's max_allowed_packet; increase the "
                "setting, or leave the long column out"
            ) from None
        except (pymysql.Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """Close the connection, without waiting for what the server still sends."""
        with suppress(pymysql.Error):
            self._connection.close()

    def _error(self, problem: BaseException) -> PushdownError:
        return mysql_error(self._address, problem)


def connect_to_mysql(address: DatabaseAddress, *, local_infile: bool = False) -> Connection[Cursor]:
    """Open a connection that commits each statement. Raises the driver's exceptions."""
    return pymysql.connect(
        host=address.host,
        port=address.port or 0,  # the driver's default
        user=address.user,
        password=address.password or "",
        database=address.database or None,
        charset="utf8mb4",
        connect_timeout=address.connect_timeout,
        ssl_disabled=address.tls_mode == "disable",
        ssl=_tls(address),
        autocommit=True,
        local_infile=local_infile,
    )


def mysql_error(address: DatabaseAddress, problem: BaseException) -> PushdownError:
    """Return an error of the driver as a typed error: one line, without secrets."""
    number = problem.args[0] if problem.args and isinstance(problem.args[0], int) else 0
    message = problem.args[1] if len(problem.args) > 1 and isinstance(problem.args[1], str) else str(problem)
    text = address.without_secrets(message)
    return _error_class(number, text, problem)(f"{address.display_name}: {text}")


def _error_class(number: int, text: str, problem: BaseException) -> type[PushdownError]:
    """Return the class that says whether a retry can help."""
    is_about_tls = any(message in text for message in _TLS_MESSAGES) and not _LOST_TLS.search(text)
    if is_about_tls or isinstance(problem, ValueError):
        return RemoteRefusedError
    if number in _INTERRUPTED:
        return RemoteFailedError
    is_lost = number in _LOST or isinstance(problem, OSError | pymysql.err.InterfaceError)
    return LostConnectionError if is_lost else RemoteRefusedError


def _tls(address: DatabaseAddress) -> ssl.SSLContext | None:
    """Return the TLS settings, None to use TLS if the server offers it."""
    if address.tls_mode in ("disable", "prefer") and not (address.ca_file or address.cert_file):
        return None
    context = ssl.create_default_context(cafile=address.ca_file)
    context.check_hostname = address.tls_mode == "verify-full"
    if address.tls_mode in ("prefer", "require"):
        context.verify_mode = ssl.CERT_NONE
    if address.cert_file:
        context.load_cert_chain(address.cert_file, address.key_file)
    return context


def _as_csv(sql: str, columns: Sequence[pa.Field]) -> str:
    """Return the query with each row as one CSV line. NULL is empty, and strings and bytes are in quotes."""
    parts = ", ',', ".join(_csv_field(field) for field in columns)
    return f"SELECT CAST(CONCAT({parts}) AS BINARY) FROM ({sql}) AS `delivered`"  # noqa: S608 -- built as a tree


def _csv_field(field: pa.Field) -> str:
    name = quote_mysql(field.name)
    if pa.types.is_binary(field.type) or pa.types.is_string(field.type):
        # REPLACE is faster on bytes than on characters.
        text = name if pa.types.is_binary(field.type) else f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        return f"""IFNULL(CONCAT('"', REPLACE({text}, '"', '""'), '"'), '')"""
    return f"IFNULL({name}, '')"


def _csv_type(target: pa.DataType) -> pa.DataType:
    """Return the type to parse a CSV field as. Dates and decimals are converted later, where errors name the value."""
    is_number = pa.types.is_integer(target) or pa.types.is_floating(target)
    is_parsed = is_number or pa.types.is_boolean(target) or pa.types.is_binary(target)
    return target if is_parsed else pa.string()


def row_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the strings of a result of one column as lines, about a megabyte at a time.

    This reads many packets at once. PyMySQL reads each packet with several calls, which takes longer. A packet has this
    layout:

        3 bytes: length of the payload | 1 byte: sequence number | payload: length of the string, string

    Raises the driver's exceptions for errors that the server sends, and OperationalError if the stream ends early.
    """
    pending = b""
    output: list[bytes] = []
    size = 0
    is_ended = False
    while not is_ended:
        chunk = stream.read1(_READ_BYTES)  # type: ignore[attr-defined]
        if not chunk:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server while it sent rows")
        data = pending + chunk if pending else chunk
        strings, position, is_ended = _parse(data)
        pending = data[position:]
        output += strings
        size += position
        if output and (is_ended or size >= _MIN_OUTPUT_BYTES):
            # The last line ends too: a row of one NULL is an empty line.
            yield b"\n".join([*output, b""])
            output, size = [], 0


def _parse(data: bytes) -> tuple[list[bytes], int, bool]:
    """Return the strings of the complete rows, the position after them, and whether the result has ended."""
    strings: list[bytes] = []
    position, end = 0, len(data)
    while position + _HEADER_BYTES <= end:
        size = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        start = position + _HEADER_BYTES
        if start + size > end:
            break
        if size == _MAX_PAYLOAD:
            payload, next_position = _join_payloads(data, position)
            if next_position is None:
                break
            strings.append(payload[_PREFIXES[payload[0]] :])
            position = next_position
            continue
        first = data[start]
        position = start + size
        if first < _NULL:
            strings.append(data[start + 1 : position])
        elif first in (_TWO_BYTES, _THREE_BYTES):
            strings.append(data[start + _PREFIXES[first] : position])
        else:
            _check_end(first, data[start:position])
            return strings, position, True
    return strings, position, False


def _join_payloads(data: bytes, position: int) -> tuple[bytes, int | None]:
    """Return the payload of a row with several packets and the position after it, or None if it is incomplete."""
    parts = []
    while position + _HEADER_BYTES <= len(data):
        size = int.from_bytes(data[position : position + 3], "little")
        if position + _HEADER_BYTES + size > len(data):
            break
        parts.append(data[position + _HEADER_BYTES : position + _HEADER_BYTES + size])
        position += _HEADER_BYTES + size
        if size < _MAX_PAYLOAD:
            return b"".join(parts), position
    return b"", None


def _check_end(first: int, payload: bytes) -> None:
    """Raise unless the payload marks the end of the result."""
    if first == _ERROR:
        pymysql.err.raise_mysql_exception(payload)
    if first == _NULL:
        raise RowTooLongError
    if first != _EIGHT_BYTES or len(payload) >= _END_SIZE:
        raise pymysql.err.InternalError("the server sent a packet that is neither a row nor the end of the result")
