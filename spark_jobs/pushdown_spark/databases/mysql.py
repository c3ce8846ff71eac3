"""Read MySQL and MariaDB: every row crosses as one CSV text, which pyarrow takes apart."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.cursors import SSCursor

from pushdown_spark.databases.address import Address, Settings
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.csv_rows import CsvRows
from pushdown_spark.databases.mysql_rows import TooLongRowError, row_lines
from pushdown_spark.databases.session_settings import MYSQL_SESSION, mysql_timeout
from pushdown_spark.errors import LostConnectionError, PushdownError, RemoteFailedError, RemoteRefusedError

_LOST = frozenset(
    {1040, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 2002, 2003, 2006, 2013, 2055}
)
"""Errors that may pass: too many connections, shutdown, network, locks."""
_TIMEOUTS = frozenset({1969, 3024})
_REFUSED_TEXTS = ("SSL", "certificate", "CERTIFICATE")
_UNKNOWN_HOST = ("Name or service not known", "nodename nor servname")


@dataclass(frozen=True)
class Described:
    """A column of a result: the protocol's numbers for its type, flags and collation; lengths are the server's."""

    name: str
    type_code: int
    flags: int
    length: int
    scale: int
    collation: int


class MysqlClient:
    """A connection that can only read."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        try:
            self._connection = self._connected()
            self._prepare()
        except (pymysql.Error, OSError, ValueError) as problem:
            raise self._error(problem) from None

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a small query; its parameters are `%s`."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None

    def types(self, query: str) -> list[Described]:
        """The columns of a query, as the server announces them."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}\n) AS `described` LIMIT 0")  # noqa: S608 -- the user's own
                fields = cursor._result.fields  # type: ignore[attr-defined]
        except (pymysql.Error, OSError) as problem:
            raise self._error(problem) from None
        return [
            Described(field.name, field.type_code, field.flags, field.length, field.scale, field.charsetnr)
            for field in fields
        ]

    def batches(self, sql: str, columns: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        """The rows of a query; text, dates and decimals as text, the rest in the wanted types."""
        rows = CsvRows([field.with_type(_wire(field.type)) for field in columns], ("1", "0"), begins_empty=True)
        try:
            cursor = SSCursor(self._connection)
            cursor.execute(_as_csv(sql, columns))
            # The driver must not look for rows when its cursor ends: we take them all from its stream ourselves. It
            # reads row by row, and nothing of it is public that would give many at once.
            cursor._result.unbuffered_active = False  # type: ignore[attr-defined]
            for lines in row_lines(self._connection._rfile):  # type: ignore[attr-defined]
                yield from rows.batches(lines)
        except TooLongRowError:
            raise RemoteRefusedError(
                f"{self._address.place}: a row is longer than the server's max_allowed_packet; raise that, or leave "
                "out the column that is so long"
            ) from None
        except (pymysql.Error, OSError, pa.ArrowException) as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """End the connection at once: whatever the server still sends is not waited for."""
        self._connection._force_close()  # type: ignore[attr-defined]

    def _connected(self) -> Connection[SSCursor]:
        address = self._address
        return pymysql.connect(
            host=address.host,
            port=address.port or 3306,
            user=address.user,
            password=address.password or "",
            database=address.database or None,
            charset="utf8mb4",
            connect_timeout=address.connect_timeout,
            ssl_disabled=address.tls_mode == "disable",
            ssl=_tls(address),
            autocommit=True,
        )

    def _prepare(self) -> None:
        self.rows(MYSQL_SESSION)
        self.rows("SET SESSION TRANSACTION READ ONLY")
        limit = self._settings.statement_timeout
        if limit is not None:
            ((version,),) = self.rows("SELECT version()")
            setting = mysql_timeout(limit, is_mariadb="mariadb" in str(version).lower())
            self.rows(f"SET SESSION {setting}")

    def _error(self, problem: BaseException) -> PushdownError:
        number = problem.args[0] if problem.args and isinstance(problem.args[0], int) else 0
        said = problem.args[1] if len(problem.args) > 1 and isinstance(problem.args[1], str) else str(problem)
        text = self._address.without_secrets(said)
        return _kind(number, text, problem)(f"{self._address.place}: {text}")


def _kind(number: int, text: str, problem: BaseException) -> type[PushdownError]:
    """Whether the same would happen again."""
    if any(sign in text for sign in _REFUSED_TEXTS) or isinstance(problem, ValueError):
        return RemoteRefusedError
    if number in _TIMEOUTS:
        return RemoteFailedError
    lost = number in _LOST or isinstance(problem, OSError | pymysql.err.InterfaceError)
    return LostConnectionError if lost else RemoteRefusedError


def _tls(address: Address) -> ssl.SSLContext | None:
    """What to ask of TLS; None takes it where the server offers it."""
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
    """The query with each row as one text: NULL is empty, text and bytes are in quotes."""
    parts = ", ',', ".join(_field(field) for field in columns)
    return f"SELECT CAST(CONCAT({parts}) AS BINARY) FROM ({sql}) AS `delivered`"  # noqa: S608 -- built as a tree


def _field(field: pa.Field) -> str:
    name = "`" + field.name.replace("`", "``") + "`"
    if pa.types.is_binary(field.type) or pa.types.is_string(field.type):
        # Quotes are looked for among bytes: among characters that takes a tenth of the statement's time more.
        text = name if pa.types.is_binary(field.type) else f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        return f"""IFNULL(CONCAT('"', REPLACE({text}, '"', '""'), '"'), '')"""
    return f"IFNULL({name}, '')"


def _wire(wanted: pa.DataType) -> pa.DataType:
    """What a column is read as; dates and decimals are converted later, where a wrong one can be named."""
    number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted)
    plain = number or pa.types.is_boolean(wanted) or pa.types.is_binary(wanted)
    return wanted if plain else pa.string()
