"""Tables with a column of every type in each database, and the rows that Spark must return."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from databases import Server

WIDE = Decimal("1234567890123456789012345678.0123456789")


@dataclass(frozen=True)
class EveryType:
    """A table: its definition, its rows in the database's SQL, and the Spark type and values of each column."""

    definition: tuple[str, ...]
    columns: dict[str, tuple[str, tuple[object, ...]]]

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows by column, ordered by id."""
        count = len(self.columns["id"][1])
        return [{name: values[row] for name, (_, values) in self.columns.items()} for row in range(count)]

    @property
    def types(self) -> dict[str, str]:
        """The Spark type of each column."""
        return {name: kind for name, (kind, _) in self.columns.items()}


POSTGRESQL = EveryType(
    (
        "DROP TABLE IF EXISTS every_type; DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('fine', 'it''s bad')",
        """CREATE TABLE every_type (id integer, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision,
        n numeric(10,2), m numeric(20,4), w numeric(38,10), u numeric, t text, v varchar(20), c char(5), y bytea,
        d date, tm time, ts timestamp, tz timestamptz, iv interval, uid uuid, j jsonb, ia integer[], ta text[],
        e mood, b1 bit(1), b4 bit(4))""",
        """INSERT INTO every_type VALUES (1, true, -32768, 9223372036854775807, 1.5, 0.1, 12345678.90,
        -1234567890123456.7891, 1234567890123456789012345678.0123456789, 0.000000000000000001, 'é, "x" \\ ''y''',
        'ünï', 'ab', '\\x00ff22'::bytea, '2024-02-29', '23:59:59.5', '1500-03-01 00:00:00.000001',
        '2024-05-15 12:00:00+02', '1 year 2 mons 03:04:05', '00000000-0000-0000-0000-00000000000a', '{"a": [1]}',
        '{1,NULL,3}', '{a,NULL,"b,c"}', 'it''s bad', B'1', B'0101')""",
        "INSERT INTO every_type (id) VALUES (2)",
        """INSERT INTO every_type (id, f4, f8, n, t, v, d, ts, tz, ia) VALUES (3, 'NaN', '-Infinity', -0.01, '', ' ',
        '9999-12-31', '9999-12-31 23:59:59.999999', '0001-01-01 00:00:00+00', '{}')""",
    ),
    {
        "id": ("int", (1, 2, 3)),
        "b": ("boolean", (True, None, None)),
        "i2": ("smallint", (-32768, None, None)),
        "i8": ("bigint", (9223372036854775807, None, None)),
        "f4": ("float", (1.5, None, float("nan"))),
        "f8": ("double", (0.1, None, float("-inf"))),
        "n": ("decimal(10,2)", (Decimal("12345678.90"), None, Decimal("-0.01"))),
        "m": ("decimal(20,4)", (Decimal("-1234567890123456.7891"), None, None)),
        "w": ("decimal(38,10)", (WIDE, None, None)),
        "u": ("decimal(38,18)", (Decimal("0.000000000000000001"), None, None)),
        "t": ("string", ("é, \"x\" \\ 'y'", None, "")),
        "v": ("string", ("ünï", None, " ")),
        "c": ("string", ("ab   ", None, None)),
        "y": ("binary", (b"\x00\xff\x22", None, None)),
        "d": ("date", (date(2024, 2, 29), None, date(9999, 12, 31))),
        "tm": ("string", ("23:59:59.5", None, None)),
        "ts": (
            "timestamp_ntz",
            (datetime(1500, 3, 1, 0, 0, 0, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ),
        "tz": ("timestamp", (datetime(2024, 5, 15, 10, tzinfo=UTC), None, datetime(1, 1, 1, tzinfo=UTC))),
        "iv": ("string", ("1 year 2 mons 03:04:05", None, None)),
        "uid": ("string", ("00000000-0000-0000-0000-00000000000a", None, None)),
        "j": ("string", ('{"a": [1]}', None, None)),
        "ia": ("array<int>", ([1, None, 3], None, [])),
        "ta": ("array<string>", (["a", None, "b,c"], None, None)),
        "e": ("string", ("it's bad", None, None)),
        "b1": ("boolean", (True, None, None)),
        "b4": ("string", ("0101", None, None)),
    },
)

MYSQL = EveryType(
    (
        "DROP TABLE IF EXISTS every_type",
        """CREATE TABLE every_type (id int, b tinyint(1), i1 tinyint, i2 smallint unsigned, i3 mediumint,
        i4 int unsigned, i8 bigint, u8 bigint unsigned, f4 float, f8 double, n decimal(10,2), w decimal(38,10),
        t text, v varchar(20) CHARACTER SET latin1, c char(5), y varbinary(9), z blob, d date, tm time(1),
        ts datetime(6), tz timestamp(6) NULL, yr year, j json, e enum('fine','it''s bad'), s set('a','b'), b1 bit(1),
        b9 bit(9)) CHARACTER SET utf8mb4""",
        "SET time_zone = '+00:00'",
        """INSERT INTO every_type VALUES (1, 1, -128, 65535, -8388608, 4294967295, -9223372036854775808,
        18446744073709551615, 1.1, 0.1, 12345678.90, 1234567890123456789012345678.0123456789,
        'é, "x" \\\\ ''y''\\n2', 'ünï', 'ab', x'00FF22', x'0A', '2024-02-29', '-100:59:59.5',
        '1500-03-01 00:00:00.000001', '2024-05-15 10:00:00', 2024, '{"a": [1]}', 'it''s bad', 'a,b', b'1', b'101')""",
        "INSERT INTO every_type (id) VALUES (2)",
        """INSERT INTO every_type (id, f8, t, v, y, d, ts) VALUES (3, -1.7976931348623157e308, '', ' ', '',
        '9999-12-31', '9999-12-31 23:59:59.999999')""",
    ),
    {
        "id": ("int", (1, 2, 3)),
        "b": ("tinyint", (1, None, None)),
        "i1": ("tinyint", (-128, None, None)),
        "i2": ("int", (65535, None, None)),
        "i3": ("int", (-8388608, None, None)),
        "i4": ("bigint", (4294967295, None, None)),
        "i8": ("bigint", (-9223372036854775808, None, None)),
        "u8": ("decimal(20,0)", (Decimal(18446744073709551615), None, None)),
        "f4": ("float", (1.100000023841858, None, None)),
        "f8": ("double", (0.1, None, -1.7976931348623157e308)),
        "n": ("decimal(10,2)", (Decimal("12345678.90"), None, None)),
        "w": ("decimal(38,10)", (WIDE, None, None)),
        "t": ("string", ("é, \"x\" \\ 'y'\n2", None, "")),
        "v": ("string", ("ünï", None, " ")),
        "c": ("string", ("ab", None, None)),
        "y": ("binary", (b"\x00\xff\x22", None, b"")),
        "z": ("binary", (b"\n", None, None)),
        "d": ("date", (date(2024, 2, 29), None, date(9999, 12, 31))),
        "tm": ("string", ("-100:59:59.5", None, None)),
        "ts": (
            "timestamp_ntz",
            (datetime(1500, 3, 1, 0, 0, 0, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ),
        "tz": ("timestamp", (datetime(2024, 5, 15, 10, tzinfo=UTC), None, None)),
        "yr": ("int", (2024, None, None)),
        "j": ("string", ('{"a": [1]}', None, None)),
        "e": ("string", ("it's bad", None, None)),
        "s": ("string", ("a,b", None, None)),
        "b1": ("boolean", (True, None, None)),
        "b9": ("bigint", (5, None, None)),
    },
)

SQLITE = EveryType(
    (
        """CREATE TABLE every_type (id integer PRIMARY KEY, b boolean, i int, f real, n decimal(10,2), t text,
        v varchar(20), y blob, d date, ts timestamp)""",
        """INSERT INTO every_type VALUES (1, 1, 9223372036854775807, 0.1, 12345678.90, 'é, "x" \\ ''y''', 'ünï',
        x'00FF22', '2024-02-29', '1500-03-01 00:00:00.000001')""",
        "INSERT INTO every_type (id) VALUES (2)",
        """INSERT INTO every_type VALUES (3, 0, '12', 7, '1.5', 1.5, x'6162', 'ab', '9999-12-31',
        '9999-12-31 23:59:59')""",
    ),
    {
        "id": ("bigint", (1, 2, 3)),
        "b": ("boolean", (True, None, False)),
        "i": ("bigint", (9223372036854775807, None, 12)),
        "f": ("double", (0.1, None, 7.0)),
        "n": ("decimal(10,2)", (Decimal("12345678.90"), None, Decimal("1.50"))),
        "t": ("string", ("é, \"x\" \\ 'y'", None, "1.5")),
        "v": ("string", ("ünï", None, "ab")),
        "y": ("binary", (b"\x00\xff\x22", None, b"ab")),
        "d": ("date", (date(2024, 2, 29), None, date(9999, 12, 31))),
        "ts": ("timestamp_ntz", (datetime(1500, 3, 1, 0, 0, 0, 1), None, datetime(9999, 12, 31, 23, 59, 59))),
    },
)


def sqlite_file(directory: Path, *statements: str) -> dict[str, object]:
    """Create a SQLite file with some statements, and return its connection."""
    path = directory / "shop.db"
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return {"kind": "sqlite", "database": str(path)}


def create_tables(server: Server | None, directory: Path) -> tuple[EveryType, dict[str, object]]:
    """Create the table in a server's database or in a new SQLite file. Return it with its connection."""
    if server is None:
        return SQLITE, sqlite_file(directory, *SQLITE.definition)
    every_type = POSTGRESQL if server.kind == "postgresql" else MYSQL
    server.execute(*every_type.definition)
    return every_type, server.connection()
