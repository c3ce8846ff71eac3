"""Tables with difficult values in every database, and the same tables in Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pymysql
from databases import Server
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable

Record = tuple[object, ...]
INTS = (1, 2, 5, 7, -7, 10, 0, -1, 2147483647, -2147483648, None, 3, 100, -8)
OTHER_INTS = (2, 1, 1, 0, 3, -1, 7, 5, 1, 1, 4, None, 2147483647, 6)
LONGS = (1, 9223372036854775807, -9223372036854775808, 9007199254740993, 9007199254740992, 0, None, -5)
DOUBLES = (0.1, 0.3, 1.5, 2.5, -1.5, 0.0, -0.0, 1e308, 5e-324, 2.675, None, 123456789.125, 0.1 + 0.2, -2.5)
NUMBERS = ("1.50", "2.45", "0.10", "-2.50", "-0.10", "99999999.99", None, "2.50", "0.00", "10.00")
STRINGS = ("abc", "ABC", "abc ", "a_b", "a%b", "axb", "", None, "é", "e", "É", "ss", "ß", "SS", "a\\b", "it's", " pad ")
STRINGS += (
    "b",
    "a",
    "Z",
    "10",
    "7",
    "日本",
    "😀",
    "ab\n",
    "aab",
    "cba",
    "a!b",
    "a*b",
    "a[b",
    "\u00e0b",
    "xx",
    "\u0131",
    "ab ",
)
CHARS = ("abc", "", "ABC", "ab", "abcde", None, "é")
DATES = ("2024-02-29", "2024-01-01", "1970-01-01", "1969-12-31", "1582-10-10", "1000-01-01", "9999-12-31", None)
DATES += ("2024-12-30", "2023-01-02")
TIMES = ("2024-02-29 12:00:00", "2024-05-15 23:30:59.500000", "2024-12-30 00:00:00.123456", None, "1970-01-01 00:00:00")
TIMES += ("1582-10-10 01:02:03", "2024-05-01 00:00:00", "9999-12-31 23:59:59.999999")
NAMES = ("id", "i", "j", "l", "f", "n", "b", "s", "c", "d", "ts")
SIZE = 70
_DOUBLES_OF = {
    Dialect.POSTGRES: (*DOUBLES, float("nan"), float("inf"), float("-inf")),
    Dialect.MARIADB: DOUBLES,
    Dialect.MYSQL: DOUBLES,
    Dialect.SQLITE: (*DOUBLES, float("inf"), float("-inf")),
}


def records(dialect: Dialect) -> list[Record]:
    """Return the rows as Python values. Doubles are limited to those of the database."""

    def pick(pool: Sequence[object], row: int, step: int) -> object:
        return pool[(row * step) % len(pool)] if step else pool[row % len(pool)]

    def row(number: int) -> Record:
        decimal = pick(NUMBERS, number, 0)
        day, moment = pick(DATES, number, 0), pick(TIMES, number, 0)
        return (
            number,
            pick(INTS, number, 0),
            pick(OTHER_INTS, number, 3),
            pick(LONGS, number, 0),
            pick(_DOUBLES_OF[dialect], number, 0),
            None if decimal is None else Decimal(str(decimal)),
            (True, False, None)[number % 3],
            pick(STRINGS, number, 0),
            pick(CHARS, number, 0),
            None if day is None else date.fromisoformat(str(day)),
            None if moment is None else datetime.fromisoformat(str(moment)),
        )

    return [row(number) for number in range(SIZE)]


@dataclass(frozen=True)
class NastyTable:
    """A table of a real database: its description, its rows in Spark, and the rows that a condition keeps."""

    table: RemoteTable
    rows: tuple[Record, ...]
    query: Callable[[str], list[Record]]
    close: Callable[[], None]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the whole table in Spark."""
        return spark.createDataFrame(list(self.rows), self.table.spark_schema)


def _columns(dialect: Dialect, declarations: Sequence[str], kinds: Sequence[t.DataType]) -> tuple[RemoteColumn, ...]:
    return tuple(
        RemoteColumn(name=name, remote_type=remote, spark_type=kind)
        for name, remote, kind in zip(NAMES, declarations, kinds, strict=True)
    )


_KINDS: tuple[t.DataType, ...] = (
    t.IntegerType(),
    t.IntegerType(),
    t.IntegerType(),
    t.LongType(),
    t.DoubleType(),
    t.DecimalType(10, 2),
    t.BooleanType(),
    t.StringType(),
    t.StringType(),
    t.DateType(),
    t.TimestampNTZType(),
)


def postgres_table(server: Server) -> NastyTable:
    """Return a PostgreSQL table. The database has the collation C.UTF-8, the column a language's collation."""
    declarations = ("integer", "integer", "integer", "bigint", "double precision", "numeric(10,2)", "boolean", "text")
    declarations += ("character(5)", "date", "timestamp without time zone")
    columns = _columns(Dialect.POSTGRES, declarations, _KINDS)
    columns = tuple(replace(c, charset="UTF8", collation="de-x-icu") if c.name == "s" else c for c in columns)
    connection = psycopg.connect(**_login(server, "dbname"), autocommit=True)
    definition = ", ".join(
        f"{c.name} {c.remote_type}" + (' COLLATE "de-x-icu"' if c.name == "s" else "") for c in columns
    )
    connection.execute(f"DROP TABLE IF EXISTS nasty; CREATE TABLE nasty ({definition})")
    rows = records(Dialect.POSTGRES)
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO nasty VALUES ({', '.join(['%s'] * len(NAMES))})", rows)
    table = RemoteTable(Dialect.POSTGRES, "nasty", columns)
    read = connection.execute("SELECT * FROM nasty ORDER BY id").fetchall()
    return NastyTable(table, tuple(read), lambda sql: connection.execute(sql.encode()).fetchall(), connection.close)


def _login(server: Server, database: str) -> dict[str, object]:
    parts = server.connection()
    return {key: parts[key] for key in ("host", "port", "user", "password")} | {database: parts["database"]}


def mysql_table(server: Server, collation: str) -> NastyTable:
    """Return a table of MariaDB or MySQL whose strings have a given collation."""
    dialect = Dialect(server.product)
    declarations = ("int(11)", "int(11)", "int(11)", "bigint(20)", "double", "decimal(10,2)", "bit(1)", "varchar(20)")
    declarations += ("char(5)", "date", "datetime(6)")
    columns = _columns(dialect, declarations, _KINDS)
    columns = tuple(replace(c, charset="utf8mb4", collation=collation) if c.name in "sc" else c for c in columns)
    connection = pymysql.connect(**_login(server, "database"), charset="utf8mb4", autocommit=True)
    name = f"nasty_{collation}"
    definition = ", ".join(
        f"{c.name} {c.remote_type}" + (f" COLLATE {collation}" if c.name in "sc" else "") for c in columns
    )
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"CREATE TABLE {name} ({definition}) CHARACTER SET utf8mb4")
        cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(NAMES))})", records(dialect))

    def query(sql: str) -> list[Record]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    read = [
        tuple(
            value == b"\x01" if name == "b" and value is not None else value
            for name, value in zip(NAMES, row, strict=True)
        )
        for row in query(f"SELECT * FROM {name} ORDER BY id")
    ]
    return NastyTable(RemoteTable(dialect, name, columns), tuple(read), query, connection.close)


def mysql_tables(server: Server, collations: Mapping[str, int]) -> list[tuple[int, NastyTable]]:
    return [(place, mysql_table(server, name)) for name, place in known_collations(server, collations).items()]


def known_collations(server: Server, collations: Mapping[str, int]) -> dict[str, int]:
    names = server.execute("SELECT collation_name FROM information_schema.collations").split()
    return {name: place for name, place in collations.items() if name in names}


def sqlite_table(directory: Path) -> NastyTable:
    """Return an ordinary SQLite table, some of whose values do not have the declared type."""
    declarations = ("integer", "int", "integer", "bigint", "real", "decimal(10,2)", "boolean", "text", "char(5)")
    declarations += ("date", "timestamp")
    wide = tuple(t.LongType() if isinstance(kind, t.IntegerType) else kind for kind in _KINDS)
    columns = _columns(Dialect.SQLITE, declarations, wide)
    columns = tuple(replace(c, has_one_storage_class=c.name == "id") for c in columns)
    connection = sqlite3.connect(directory / "nasty.db", isolation_level=None)
    definition = ", ".join(f"{c.name} {c.remote_type}" + (" PRIMARY KEY" if c.name == "id" else "") for c in columns)
    connection.execute(f"CREATE TABLE nasty ({definition})")
    marks = ", ".join("?" * len(NAMES))
    connection.executemany(
        f"INSERT INTO nasty VALUES ({marks})", [tuple(map(_for_sqlite, row)) for row in records(Dialect.SQLITE)]
    )
    _spoil(connection)
    casts = ("INTEGER",) * 4 + ("REAL", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT")
    names = ", ".join(f"CAST({name} AS {cast})" for name, cast in zip(NAMES, casts, strict=True))
    read = [_from_sqlite(row) for row in connection.execute(f"SELECT {names} FROM nasty ORDER BY id")]
    table = RemoteTable(Dialect.SQLITE, "nasty", columns)
    return NastyTable(table, tuple(read), lambda sql: connection.execute(sql).fetchall(), connection.close)


def _spoil(connection: sqlite3.Connection) -> None:
    """Insert values of other storage classes than the columns', and strings with a NUL."""
    connection.execute("UPDATE nasty SET i = 'many', j = 2.5, l = x'31', f = 'none' WHERE id = 60")
    connection.execute("UPDATE nasty SET i = '12abc', j = -1.5, s = x'616263', n = 1.005 WHERE id = 61")
    connection.execute("UPDATE nasty SET i = 1.5, s = 'abc' || char(0) || 'b', c = 5, n = '1.5' WHERE id = 62")
    connection.execute("UPDATE nasty SET s = 'a' || char(0), b = 2 WHERE id = 63")


def _for_sqlite(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _from_sqlite(row: Sequence[object]) -> Record:
    """Return the strings as a reader decodes them."""
    values = list(row)
    values[5] = None if row[5] is None else Decimal(str(row[5])).quantize(Decimal("0.01"))
    values[6] = None if row[6] is None else row[6] != 0
    values[9] = None if row[9] is None else date.fromisoformat(str(row[9]))
    values[10] = None if row[10] is None else datetime.fromisoformat(str(row[10]))
    return tuple(values)


def local_frame(spark: SparkSession, table: NastyTable) -> DataFrame:
    """Return the rows as a local relation, which Spark evaluates without a read."""
    schema = to_arrow_schema(table.table.spark_schema)
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*table.rows, strict=True), schema.types, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
