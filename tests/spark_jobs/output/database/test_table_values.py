"""Values written to databases arrive as they were, or raise an error that names the column and the kind of value."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as t
from table_databases import Database, open_database, output_of, write

from pushdown_spark.contract import OutputMode, TableOutputSpec
from pushdown_spark.errors import BadSpecError, UnwritableValueError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.output.database.table_attempt import TableAttempt
from pushdown_spark.runtime.error_classification import classify, pushdown_error
from pushdown_spark.session import PushdownSession

PRODUCTS = ["sqlite", "postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.nightly)]
SERVERS = ["postgresql", "mariadb", "mysql"]
EVERY_TYPE = {
    "id": ("1", "2", "3", "4"),
    "b": ("true", "NULL", "false", "NULL"),
    "i1": ("-128Y", "NULL", "127Y", "0Y"),
    "i2": ("-32768S", "NULL", "32767S", "0S"),
    "i4": ("-2147483648", "NULL", "2147483647", "0"),
    "i8": ("-9223372036854775808", "NULL", "9223372036854775807", "0L"),
    "f4": ("CAST(1.1 AS float)", "NULL", "CAST(-3.4028235e38 AS float)", "CAST(1e-45 AS float)"),
    "f8": ("0.1D", "NULL", "1.7976931348623157e308D", "5e-324D"),
    "n": ("CAST(12345678.90 AS decimal(10,2))", "NULL", "CAST(-0.01 AS decimal(10,2))", "CAST(0 AS decimal(10,2))"),
    "t": (
        r"""'é, "x" \\ \'y\'\\N'""",
        "NULL",
        "''",
        "concat('two', char(10), 'lines', char(13), char(9), 'NULL', '\U0001f600', '\\\\.')",
    ),
    "u": ("'NULL'", "NULL", "' '", "'\\N'"),
    "y": ("X'00FF225C0A'", "NULL", "X''", "X'27'"),
    "d": ("DATE'2024-02-29'", "NULL", "DATE'0001-01-01'", "DATE'9999-12-31'"),
    "ts": (
        "TIMESTAMP_NTZ'1500-03-01 00:00:00.000001'",
        "NULL",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'2024-03-31 02:30:00'",
    ),
    "tz": (
        "TIMESTAMP'2024-05-15 12:00:00+02:00'",
        "NULL",
        "TIMESTAMP'1970-01-01 00:00:01Z'",
        "TIMESTAMP'2038-01-19 03:14:07.999999Z'",
    ),
    "j": ("""'{"a": [1, null]}'""", "NULL", "'{}'", "'[]'"),
}
ARRAYS = {
    "ia": ("array(1, NULL, -3)", "NULL", "CAST(array() AS array<int>)", "array(0)"),
    "sa": (
        r"""array('a', NULL, 'b,"c"\\{}', '', 'NULL', 'é')""",
        "NULL",
        "CAST(array() AS array<string>)",
        "array('')",
    ),
    "fa": ("array(0.5D, NULL)", "NULL", "CAST(array() AS array<double>)", "array(double('NaN'))"),
    "da": ("array(DATE'2024-02-29')", "NULL", "CAST(array() AS array<date>)", "array(CAST(NULL AS date))"),
    "ba": ("array(true, NULL, false)", "NULL", "CAST(array() AS array<boolean>)", "array(true)"),
}
WIDE = {
    "w": (
        "CAST('1234567890123456789012345678.0123456789' AS decimal(38,10))",
        "NULL",
        "CAST(1 AS decimal(38,10))",
        "NULL",
    )
}
SPECIAL = {"s": ("double('NaN')", "double('Infinity')", "double('-Infinity')", "NULL")}
DOMAINS = [
    "CREATE DOMAIN code AS varchar(3)",
    "CREATE DOMAIN short_code AS code",
    "CREATE DOMAIN moment AS time(0)",
    "CREATE DOMAIN whole_time AS moment",
]
"""Domains over domains."""


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


def query(columns: dict[str, tuple[str, ...]]) -> str:
    rows = ", ".join(f"({', '.join(values[row] for values in columns.values())})" for row in range(4))
    return f"SELECT * FROM VALUES {rows} AS t({', '.join(columns)})"


def read(spark: SparkSession, database: Database) -> list[Row]:
    session = PushdownSession(spark)
    session.add_remote("t", database.connection.model_dump(mode="json"), table="t")
    return session.scan("t").df.orderBy("id").collect()


def comparable(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("database", PRODUCTS, indirect=True)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_reads_back_as_written(spark: SparkSession, database: Database, zone: str) -> None:
    columns = dict(EVERY_TYPE)
    if database.product == "postgresql":
        columns |= ARRAYS | WIDE | SPECIAL
    if database.is_mysql:
        columns |= WIDE
    if database.product == "sqlite":
        # SQLite has timestamps without a zone only.
        del columns["tz"]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql(query(columns))
        assert write(output_of(spark, database), frame)
        for actual, expected in zip(read(spark, database), frame.orderBy("id").collect(), strict=True):
            for name in columns:
                assert comparable(actual[name]) == comparable(expected[name]), name
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("database", PRODUCTS, indirect=True)
def test_rows_with_a_single_null_column_are_written(spark: SparkSession, database: Database) -> None:
    assert write(
        output_of(spark, database), spark.sql("SELECT * FROM VALUES (CAST(NULL AS string)), (''), ('a') AS t(x)")
    )
    assert sorted(map(str, database.rows("SELECT x FROM t"))) == ["('',)", "('a',)", "(None,)"]
    # An existing column gives NULLs without a type their type.
    assert write(output_of(spark, database, "second"), spark.sql("SELECT NULL AS x"))
    assert len(database.rows("SELECT x FROM t WHERE x IS NULL")) == 2


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_arrays_of_times_decimals_and_bytes_are_stored_in_postgresqls_notation(
    spark: SparkSession, database: Database
) -> None:
    select = """array(TIMESTAMP_NTZ'2024-01-01 00:00:00.5', NULL) AS a, array(TIMESTAMP'2024-01-01 00:00:00Z') AS b,
        array(CAST(1.50 AS decimal(9,2))) AS c, array(X'00FF', X'') AS d"""
    assert write(output_of(spark, database), spark.sql(f"SELECT {select}"))
    assert database.rows("SELECT a::text, b::text, c::text, d::text FROM t") == [
        ('{"2024-01-01 00:00:00.5",NULL}', '{"2024-01-01 00:00:00+00"}', "{1.50}", r'{"\\x00ff","\\x"}')
    ]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_strings_are_written_to_columns_of_postgresqls_own_types(spark: SparkSession, database: Database) -> None:
    database.execute(
        "DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('fine', 'bad')",
        """CREATE TABLE t (id int, j jsonb, u uuid, m mood, iv interval, tm time, b4 bit(4), n numeric, v varchar(3),
        g int GENERATED ALWAYS AS (id * 2) STORED)""",
    )
    row = (
        """1, '{"a": 1}', '00000000-0000-0000-0000-00000000000a', 'fine', '1 day', '23:59:59.5', '0101', 1.50, 'é€x'"""
    )
    names = "id, j, u, m, iv, tm, b4, n, v"
    assert write(output_of(spark, database), spark.sql(f"SELECT * FROM VALUES ({row}) AS t({names})"))
    actual = database.rows("SELECT id, j::text, u::text, m::text, iv::text, tm::text, b4::text, n::text, v, g FROM t")
    uuid = "00000000-0000-0000-0000-00000000000a"
    assert actual == [(1, '{"a": 1}', uuid, "fine", "1 day", "23:59:59.5", "0101", "1.50", "é€x", 2)]


@pytest.mark.parametrize(
    ("database", "declaration", "value", "problem"),
    [
        ("postgresql", "text", "'a\\0b'", "a string with a NUL character"),
        ("postgresql", "text", "CAST(X'C328' AS string)", "a string that is not valid UTF-8"),
        ("postgresql", "varchar(3)", "'abc '", "a value of 4 characters, and takes at most 3"),
        ("postgresql", "char(3)", "'a '", "a string that ends with a space"),
        ("postgresql", "integer", "2147483648", "an integer outside the range -2147483648 to 2147483647"),
        ("postgresql", "numeric(4,1)", "1.55", "a decimal with more digits than the type holds"),
        ("postgresql", "numeric(4,1)", "1000", "an integer outside the range -999 to 999"),
        ("postgresql", "real", "0.1D", "a double that is not a float"),
        (
            "postgresql",
            "timestamp(3)",
            "TIMESTAMP_NTZ'2024-01-01 00:00:00.0001'",
            "a timestamp with more fractional",
        ),
        ("postgresql", "date", "DATE'+10000-01-01'", "a date outside the years 1 to 9999"),
        ("postgresql", "time(1)", "'12:00:00.55'", "a time with more fractional digits"),
        ("postgresql", "name", "repeat('a', 64)", "a value of 64 bytes, and takes at most 63"),
        ("postgresql", "name[]", "array(repeat('a', 64))", "a value of 64 bytes, and takes at most 63"),
        ("postgresql", "short_code", "'abc '", "a value of 4 characters, and takes at most 3"),
        ("postgresql", "whole_time", "'12:00:00.5'", "a time with more fractional digits"),
        ("postgresql", "jsonb", "'{'", "column x: .*invalid input syntax for type json"),
        ("mariadb", "double", "double('NaN')", "NaN"),
        ("mariadb", "float", "float('Infinity')", "infinity"),
        ("mariadb", "int unsigned", "-1", "an integer outside the range 0 to 4294967295"),
        ("mariadb", "tinytext", "repeat('é', 128)", "a value of 256 bytes, and takes at most 255"),
        ("mariadb", "varchar(3) CHARACTER SET latin1", "'€й'", "column `x`"),
        ("mariadb", "timestamp(6) NULL", "TIMESTAMP'2039-01-01 00:00:00Z'", "a timestamp outside the range"),
        ("mariadb", "datetime", "TIMESTAMP_NTZ'2024-01-01 00:00:00.1'", "a timestamp with more fractional digits"),
        ("mariadb", "time", "'12:00:00.5'", "a time with more fractional digits"),
        ("mariadb", "varbinary(2)", "X'000102'", "a value of 3 bytes, and takes at most 2"),
        ("mariadb", "binary(4)", "X'0102'", "a value of 2 bytes, to which the type adds bytes"),
        ("mariadb", "bit(8)", "256", "an integer outside the range 0 to 255"),
        ("mariadb", "bit(8)", "-1", "an integer outside the range 0 to 255"),
        ("mariadb", "bit(64)", "-1", "an integer outside the range 0 to 18446744073709551615"),
        (
            "mariadb",
            "bit(64)",
            "CAST(-1 AS decimal(20,0))",
            "a decimal outside the range 0 to 18446744073709551615",
        ),
        ("mariadb", "bit(64)", "99999999999999999999", "a decimal outside the range 0 to 18446744073709551615"),
        ("mariadb", "year", "1", "an integer outside the range 1901 to 2155"),
        ("mariadb", "enum('a','it''s')", "'1'", "a string that is not one of its labels"),
        ("mariadb", "enum('a','b')", "'A'", "a string that is not one of its labels"),
        ("mariadb", "set('a','b')", "'b,a'", "a string that is not one of its labels"),
        ("mariadb", "int NOT NULL", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("mariadb", "timestamp NOT NULL", "CAST(NULL AS timestamp)", "column x .* cannot hold NULL"),
        ("mariadb", "int AUTO_INCREMENT PRIMARY KEY", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("postgresql", "int NOT NULL", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("postgresql", "int PRIMARY KEY", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("postgresql", "int GENERATED BY DEFAULT AS IDENTITY", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("sqlite", "INTEGER PRIMARY KEY", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("sqlite", "int NOT NULL ON CONFLICT REPLACE DEFAULT 1", "CAST(NULL AS int)", "column x .* cannot hold NULL"),
        ("sqlite", "double", "double('NaN')", "NaN"),
        (
            "sqlite",
            "decimal(38,10)",
            "CAST('123456.0123456789' AS decimal(38,10))",
            "a decimal of more than 15 digits",
        ),
        ("sqlite", "json", "' 1.50'", "a string that the column would store as a number"),
    ],
    indirect=["database"],
)
def test_values_that_would_change_are_typed_errors(
    spark: SparkSession, database: Database, declaration: str, value: str, problem: str
) -> None:
    if database.product == "postgresql":
        database.execute("DROP DOMAIN IF EXISTS code, moment CASCADE", *DOMAINS)
    database.execute(f"CREATE TABLE t (x {declaration})")
    with pytest.raises(PySparkException) as failure:
        write(output_of(spark, database), spark.sql(f"SELECT {value} AS x"))
    error = pushdown_error(failure.value)
    assert isinstance(error, UnwritableValueError), classify(failure.value)
    assert re.search(problem, str(error)), str(error)
    assert database.rows("SELECT * FROM t") == []
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "declaration", ['"char"', "oid", "xid", "interval day", "interval second(3)", "interval day to second(3)", "oid[]"]
)
def test_types_of_postgresql_that_change_strings_are_errors(database: Database, declaration: str) -> None:
    database.execute(f"CREATE TABLE t (x {declaration})")
    kind = t.ArrayType(t.StringType()) if declaration.endswith("]") else t.StringType()
    attempt = TableAttempt(database.address, TableOutputSpec(table="t", mode=OutputMode.APPEND), "run")
    assert attempt.prepare()
    with pytest.raises(BadSpecError, match=r"column x is .* in the table, which does not take"):
        attempt.stage(t.StructType().add("x", kind), attempt.existing_table(), name_rule=ANY_CASE)
    attempt.abort()
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_trigger_of_postgresql_may_replace_null(spark: SparkSession, database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int NOT NULL)",
        "CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.id := coalesce(NEW.id, 7); RETURN NEW; END'",
        "CREATE TRIGGER fill BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fill()",
    )
    assert write(output_of(spark, database), spark.sql("SELECT CAST(NULL AS int) AS id"))
    assert database.rows("SELECT id FROM t") == [(7,)]


@pytest.mark.parametrize("database", ["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)], indirect=True)
@pytest.mark.parametrize("local_infile", [True, False])
def test_exact_values_are_written_to_columns_of_mysqls_own_types(
    spark: SparkSession, database: Database, local_infile: bool
) -> None:
    """Small decimals have an exponent as text, doubles a sign of zero, and bits more digits than a double."""
    before = database.rows("SELECT @@GLOBAL.local_infile")[0][0]
    database.execute(
        f"SET GLOBAL local_infile = {int(local_infile)}",
        """CREATE TABLE t (n decimal(38,30), f double, b binary(2), e enum('A','it''s'), s set('x','Y'), i bit(60),
        j bit(64))""",
    )
    try:
        row = {
            "n": "CAST('1.23456789012345678901234E-7' AS decimal(38,30))",
            "f": "-0.0D",
            "b": "X'0102'",
            "e": '"it\'s"',
            "s": "'x,Y'",
            "i": "9007199254740993",
            "j": "CAST(18446744073709551615 AS decimal(22,2))",
        }
        select = ", ".join(f"{value} AS {name}" for name, value in row.items())
        assert write(output_of(spark, database), spark.sql(f"SELECT {select}"))
        actual = database.rows("SELECT CAST(n AS char), CAST(f AS char), hex(b), e, s, i + 0, j + 0 FROM t")
        expected = ("0.000000123456789012345678901234", "-0", "0102", "it's", "x,Y", 2**53 + 1, 2**64 - 1)
        assert actual == [expected]
    finally:
        database.execute(f"SET GLOBAL local_infile = {before}")


@pytest.mark.parametrize("database", ["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)], indirect=True)
def test_rows_longer_as_text_than_in_memory_fit_into_the_packets_of_a_server(
    spark: SparkSession, database: Database
) -> None:
    """A boolean takes a bit in memory, and two bytes in INSERT."""
    before = database.rows("SELECT @@GLOBAL.local_infile, @@GLOBAL.max_allowed_packet")[0]
    database.execute("SET GLOBAL local_infile = 0, GLOBAL max_allowed_packet = 65536")
    try:
        frame = spark.range(10_000).selectExpr(*(f"id % 2 = 0 AS b{number}" for number in range(20))).coalesce(1)
        assert write(output_of(spark, database), frame)
        assert database.rows("SELECT count(*), sum(b0), sum(b19) FROM t") == [(10_000, 5_000, 5_000)]
        long_row = spark.sql("SELECT repeat('x', 100000) AS x")
        with pytest.raises(PySparkException) as problem:
            write(output_of(spark, database, "long", mode="overwrite", table="long"), long_row)
        assert re.search("a row takes 100,[0-9]+ bytes in INSERT", str(pushdown_error(problem.value)))
    finally:
        database.execute("SET GLOBAL local_infile = {}, GLOBAL max_allowed_packet = {}".format(*before))


@pytest.mark.parametrize(
    ("database", "value", "message"),
    [
        ("postgresql", "struct(1 AS a)", "column x is struct<a:int>, for which PostgreSQL has no type; use to_json"),
        ("postgresql", "map('a', 1)", "has no type"),
        ("postgresql", "array(array(1))", "has no type"),
        ("postgresql", "NULL", "column x is void, for which PostgreSQL has no type; cast it in the query"),
        ("mariadb", "array(1)", "column x is array<int>, for which MariaDB has no type"),
        ("sqlite", "INTERVAL '1' DAY", "has no type"),
    ],
    indirect=["database"],
)
def test_types_without_an_equivalent_are_errors(
    spark: SparkSession, database: Database, value: str, message: str
) -> None:
    with pytest.raises(BadSpecError, match=message):
        write(output_of(spark, database), spark.sql(f"SELECT {value} AS x"))
    assert database.tables() == []


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_rows_whose_columns_do_not_fit_the_table_are_errors(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE t (id int, x varchar(9))")
    for select, message in {
        "1 AS id": "the rows have no column x",
        "1 AS id, 'a' AS x, 2 AS extra": "the table has no column extra",
        "1 AS id, 'a' AS x, 'b' AS X": "two columns of the rows have one name",
        "'a' AS id, 'a' AS x": "column id is .*int.* in the table, which does not take string",
    }.items():
        with pytest.raises(BadSpecError, match=message):
            write(output_of(spark, database), spark.sql(f"SELECT {select}"))
    assert write(output_of(spark, database), spark.sql("SELECT 'a' AS X, 1 AS ID"))
    assert database.rows("SELECT id, x FROM t") == [(1, "a")]
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["sqlite", "mariadb"], indirect=True)
def test_timestamp_becomes_local_time_in_a_column_without_zone(spark: SparkSession, database: Database) -> None:
    database.execute(f"CREATE TABLE t (x {'datetime' if database.is_mysql else 'timestamp'})")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        write(output_of(spark, database), spark.sql("SELECT TIMESTAMP'2024-05-15 10:00:00Z' AS x"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    ((actual,),) = database.rows("SELECT x FROM t")
    assert str(actual).startswith("2024-05-15 19:00:00")
