"""Expressions, sort orders, groups and queries whose meaning differs between databases and Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest
from databases import Server
from every_type import sqlite_file
from pyspark.sql import SparkSession
from session_settings import session_settings

from pushdown_spark.session import PushdownSession

Connection = dict[str, object]
Rows = list[tuple[object, ...]]

DECIMALS = (
    "CREATE TABLE decimals (id int, a {0}(38,0), b {0}(38,30), m {0}(28,10), n {0}(38,18), l bigint, i int, "
    "s varchar(9))",
    "INSERT INTO decimals VALUES (1, 2, 1.4, 0.0000000001, 1, 1, 1, 'x'), (2, 1, 1.4, 1, 1.5, NULL, NULL, NULL), "
    "(3, NULL, NULL, NULL, NULL, 5, 7, 'abc')",
)
DECIMAL_CONDITIONS = (
    "a = 1.5",
    "NOT (a = 1.5)",
    "a = b",
    "a BETWEEN 1.5 AND 1.9",
    "a <=> 1.5",
    "l = 1.0000000000000000001",
    "i + 1 < 99999999999999999999.5",
    "NOT (i + 1 > 99999999999999999999.5)",
    "length(s) < 99999999999999999999.5",
    "m * -(5) = -0.000000001",
    "m * -5 = -0.0000000005",
)


def both(spark: SparkSession, connection: Connection, **table: object) -> tuple[PushdownSession, PushdownSession]:
    """Return sessions over one table: one pushes what it can, the other lets Spark evaluate everything."""
    sessions = PushdownSession(spark), PushdownSession(spark)
    for session, pushes in zip(sessions, (True, False), strict=True):
        session.add_remote("t", connection, **table, filter_pushdown=pushes)
    return sessions


def rows(session: PushdownSession, query: str) -> Rows:
    return [tuple(row) for row in session.sql(query).df.collect()]


def assert_same(spark: SparkSession, connection: Connection, *queries: str, **table: object) -> None:
    """Assert that each query returns Spark's rows, in order if it has ORDER BY."""
    pushed, plain = both(spark, connection, **table)
    for query in queries:
        actual, expected = rows(pushed, query), rows(plain, query)
        if "ORDER BY" in query:
            assert actual == expected, query
        else:
            assert Counter(map(str, actual)) == Counter(map(str, expected)), query


def where(*conditions: str) -> list[str]:
    return [f"SELECT id FROM t WHERE {condition}" for condition in conditions]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
def test_decimals_without_a_common_type_are_compared_as_spark_does(
    kind: str, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    word = "numeric" if kind == "postgresql" else "decimal"
    server.execute("DROP TABLE IF EXISTS decimals", *(statement.format(word) for statement in DECIMALS))
    assert_same(spark, server.connection(), *where(*DECIMAL_CONDITIONS), table="decimals")


def test_long_numbers_are_ordered_as_numbers(spark: SparkSession, postgresql_server: Server) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS wide",
        "CREATE TABLE wide (id int, a numeric(20,0), b numeric(38,10))",
        "INSERT INTO wide VALUES (1, 9, 9), (2, 10, 10.5), (3, 100, -3), (4, -5, -20), (5, NULL, NULL)",
    )
    queries = (
        "SELECT a FROM t ORDER BY a LIMIT 3",
        "SELECT id, a FROM t ORDER BY a DESC LIMIT 2",
        "SELECT b FROM t ORDER BY b DESC LIMIT 2",
    )
    assert_same(spark, postgresql_server.connection(), *queries, table="wide")


def test_composite_values_of_nulls_are_not_null(spark: SparkSession, postgresql_server: Server) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS places",
        "DROP TYPE IF EXISTS address",
        "CREATE TYPE address AS (street text, number int)",
        "CREATE TABLE places (id int, a address)",
        "INSERT INTO places VALUES (1, ROW(NULL, NULL)), (2, NULL), (3, ROW('x', NULL)), (4, ROW('y', 2))",
    )
    conditions = where("a IS NULL", "a IS NOT NULL", "NOT isnotnull(a)")
    assert_same(spark, postgresql_server.connection(), *conditions, table="places")


def test_groups_equal_those_of_spark(
    spark: SparkSession, postgresql_server: Server, mariadb_server: Server, mysql_server: Server
) -> None:
    postgresql_server.execute(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "DROP TABLE IF EXISTS cases",
        "CREATE TABLE cases (id int, c citext)",
        "INSERT INTO cases VALUES (1, 'ABC'), (2, 'abc'), (3, 'b'), (4, 'B'), (5, NULL)",
    )
    assert_same(spark, postgresql_server.connection(), "SELECT c, count(*) FROM t GROUP BY c", table="cases")
    for server in (mariadb_server, mysql_server):
        server.execute(
            "DROP TABLE IF EXISTS zeros",
            "CREATE TABLE zeros (id int, d date)",
            "SET SESSION sql_mode = ''",
            "INSERT INTO zeros VALUES (1, '0000-00-00'), (2, NULL), (3, '2020-00-00'), (4, '2020-01-01')",
        )
        query = "SELECT d, count(*) FROM t GROUP BY d"
        assert_same(spark, server.connection(), query, table="zeros", zero_dates_as_null=True)


def test_long_strings_are_ordered_completely(spark: SparkSession, mariadb_server: Server) -> None:
    """MySQL and MariaDB sort by the first 1,024 bytes."""
    long = "x" * 1100
    values = ", ".join(f"({n}, '{long}{end}', '{long}{end}')" for n, end in enumerate("cab"))
    mariadb_server.execute(
        "DROP TABLE IF EXISTS longs",
        "CREATE TABLE longs (id int, s text CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, b blob)",
        f"INSERT INTO longs VALUES {values}",
    )
    queries = ("SELECT id FROM t ORDER BY s LIMIT 2", "SELECT id FROM t ORDER BY b DESC LIMIT 2")
    assert_same(spark, mariadb_server.connection(), *queries, table="longs")


@pytest.mark.parametrize(("encoding", "characters"), [("KOI8R", "Юцяzж"), ("LATIN1", "éßzÿ"), ("WIN1252", "€éŽz")])
def test_strings_in_other_encodings_are_compared_by_characters(
    encoding: str, characters: str, spark: SparkSession, postgresql_server: Server
) -> None:
    name = encoding.lower()
    postgresql_server.execute(
        f"DROP DATABASE IF EXISTS {name}",
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    )
    connection = postgresql_server.connection(database=name)
    access = {key: str(connection[key]) for key in ("host", "port", "user", "password")}
    with psycopg.connect(**access, dbname=name, autocommit=True, client_encoding="utf8") as database:
        database.execute("CREATE TABLE words (id int, s text)")
        for number, text in enumerate(characters):
            database.execute("INSERT INTO words VALUES (%s, %s)", (number, text))
    conditions = (
        f"trim(s) < '{characters[1]}'",
        f"substring(s, 1, 1) >= '{characters[2]}'",
        "octet_length(trim(s)) = 2",
        "s = '😀'",
        "s <> '😀'",
        "s LIKE '%😀'",
        f"s = '{characters[0]}'",
        f"coalesce(s, '') < '{characters[1]}'",
        "instr(s, '😀') > 0",
        f"instr(s, '{characters[0]}') > 0",
        "replace(s, '😀', 'x') = 'z'",
        "replace(s, 'z', '😀') = '😀'",
    )
    assert_same(spark, connection, *where(*conditions), table="words")


def test_sort_keys_that_differ_by_case_are_different_columns(spark: SparkSession, tmp_path: Path) -> None:
    connection = sqlite_file(
        tmp_path,
        "CREATE TABLE words (id int, a int)",
        "INSERT INTO words VALUES (1, 9), (2, 8), (3, 7)",
    )
    query = "SELECT id AS A, count(*) FROM t GROUP BY id, a ORDER BY a LIMIT 1"
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}):
        assert_same(spark, connection, query, table="words")


def test_a_pattern_that_is_too_long_for_sqlite_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    long = "x" * 60_000
    connection = sqlite_file(
        tmp_path, "CREATE TABLE words (id int, s text)", f"INSERT INTO words VALUES (1, '{long}'), (2, 'y')"
    )
    assert_same(spark, connection, *where(f"s LIKE 'x_{long[2:]}'"), table="words")


def test_utf16_strings_are_compared_by_characters(spark: SparkSession, tmp_path: Path) -> None:
    connection = sqlite_file(
        tmp_path,
        "PRAGMA encoding = 'UTF-16'",
        "CREATE TABLE words (id int, s text)",
        "INSERT INTO words VALUES (1, 'ab'), (2, ' b'), (3, 'zz'), (4, 'é')",
    )
    conditions = (
        "s LIKE '%b'",
        "endswith(s, 'b')",
        "ltrim(s) > 'b'",
        "concat(s, 'x') < 'zz'",
        "octet_length(trim(s)) = 2",
    )
    assert_same(spark, connection, *where(*conditions), table="words")


@pytest.mark.parametrize(
    ("columns", "values", "expected"),
    [
        ("(id integer PRIMARY KEY DESC, c text)", "(1.5, 'a'), ('x', 'b')", [(1, "a"), (0, "b")]),
        ("(id integer PRIMARY KEY, c any) STRICT", "(1, 1.5), (2, 1e20)", [(1, "1.5"), (2, "1.0e+20")]),
    ],
    ids=["a key that is not the row id", "a strict column of any type"],
)
def test_columns_of_sqlite_without_a_storage_class_are_cast(
    spark: SparkSession, tmp_path: Path, columns: str, values: str, expected: Rows
) -> None:
    connection = sqlite_file(tmp_path, f"CREATE TABLE kept {columns}", f"INSERT INTO kept VALUES {values}")
    session, _ = both(spark, connection, table="kept")
    assert sorted(rows(session, "SELECT * FROM t"), key=str) == sorted(expected, key=str)
    conditions = where("id = 1", "id < 1", "id IN (0, 1)", "c = '1.5'", "c > '1'", "c LIKE '1%'")
    assert_same(spark, connection, *conditions, "SELECT max(id), min(c) FROM t", table="kept")


@pytest.mark.parametrize("charset", ["latin1", "ucs2", "utf8mb3"])
def test_predicates_return_the_same_rows_for_all_character_sets(
    charset: str, spark: SparkSession, mariadb_server: Server
) -> None:
    mariadb_server.execute(
        "DROP TABLE IF EXISTS sets",
        f"CREATE TABLE sets (id int, a varchar(20) CHARACTER SET {charset}, u uuid)",
        "INSERT INTO sets VALUES (1, 'abc', '123e4567-e89b-12d3-a456-426655440000'), (2, 'é', NULL), (3, NULL, NULL)",
    )
    conditions = where("a = 'abc'", "a = 'é'", "a = '日'", "a IN ('abc', '😀')", "a LIKE 'a%'", "length(a) = 1")
    assert_same(spark, mariadb_server.connection(), *conditions, table="sets")
    conditions += where("u = '123e4567-e89b-12d3-a456-426655440000'")
    assert_same(spark, mariadb_server.connection(), *conditions, query="SELECT * FROM sets")


def test_a_query_is_sent_unchanged(spark: SparkSession, mariadb_server: Server, tmp_path: Path) -> None:
    mariadb_server.execute(
        "DROP TABLE IF EXISTS flags",
        "CREATE TABLE flags (id int, f int)",
        "INSERT INTO flags VALUES (1, 16), (2, 17), (3, 1)",
    )
    queries = ("SELECT id FROM flags WHERE f = 0x10", "SELECT id, IFNULL(f, 1) FROM flags WHERE f & 0x10 -- end")
    for query, expected in zip(queries, ([(1,)], [(1, 16), (2, 17)]), strict=True):
        session = PushdownSession(spark)
        session.add_remote("t", mariadb_server.connection(), query=f"{query};" if "--" not in query else query)
        assert sorted(rows(session, "SELECT * FROM t")) == expected
    connection = sqlite_file(tmp_path, "CREATE TABLE r (x real)", "INSERT INTO r VALUES (7.5)")
    session = PushdownSession(spark)
    session.add_remote("t", connection, query="SELECT CAST(mod(x, 2) AS real) AS m FROM r")
    assert rows(session, "SELECT * FROM t") == [("1.5",)]


def test_empty_strings_and_nulls_differ_in_oracle_mode(spark: SparkSession, mariadb_server: Server) -> None:
    mariadb_server.execute(
        "DROP TABLE IF EXISTS empties",
        "CREATE TABLE empties (id int, s varchar(9), b varbinary(9))",
        "INSERT INTO empties VALUES (1, '', ''), (2, NULL, NULL), (3, ' ', 'x')",
        "SET GLOBAL sql_mode = 'ORACLE'",
    )
    try:
        conditions = where("trim(s) = ''", "s IS NULL", "substring(s, 1, 0) = ''")
        session, _ = both(spark, mariadb_server.connection(), table="empties")
        assert sorted(rows(session, "SELECT * FROM t"))[1] == (2, None, None)
        assert [rows(session, each) for each in conditions[:2]] == [[(1,), (3,)], [(2,)]]
    finally:
        mariadb_server.execute("SET GLOBAL sql_mode = DEFAULT")


def test_a_plus_sign_converts_strings_to_numbers(spark: SparkSession, tmp_path: Path) -> None:
    connection = sqlite_file(
        tmp_path, "CREATE TABLE plus (id int, s text)", "INSERT INTO plus VALUES (1, '10'), (2, '10.0')"
    )
    assert_same(spark, connection, *where("+s = '10'", "s || +s = '1010.0'"), table="plus")


@pytest.mark.parametrize(
    ("setting", "value", "condition"),
    [
        ("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "true", "d > '2024'"),
        ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "true", "l = 9007199254740993e0"),
        ("spark.sql.legacy.literal.pickMinimumPrecision", "false", "n * 5 = 0.000000001"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'id = "l"'),
    ],
)
def test_settings_that_change_a_predicates_meaning_are_handled(
    setting: str, value: str, condition: str, spark: SparkSession, postgresql_server: Server
) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS settings",
        "CREATE TABLE settings (id bigint, d date, n numeric(28,10), l bigint)",
        "INSERT INTO settings VALUES (1, '2024-01-01', 0.0000000001, 9007199254740992), (2, '2024-02-01', 1, 2)",
    )
    before, ansi = spark.conf.get(setting), spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true" if "ansi" in setting else "false")
    spark.conf.set(setting, value)
    try:
        assert_same(spark, postgresql_server.connection(), *where(condition), table="settings")
    finally:
        spark.conf.set(setting, str(before))
        spark.conf.set("spark.sql.ansi.enabled", str(ansi))
