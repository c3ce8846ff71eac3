"""Rows over Spark's JDBC source equal the rows over Arrow. Without the driver's jar, Arrow is used.

The nightly tests need the drivers, which `make nightly` passes to Spark. They are skipped without drivers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from databases import Server
from every_type import EveryType, create_tables, sqlite_file
from jdbc_drivers import KINDS, NEEDS_DRIVERS, error_of
from nasty_tables import mysql_table, postgres_table
from pyspark.sql import SparkSession
from remote_scans import rows_of
from semantics_rows import GROUPS
from sqlglot import exp

from pushdown_spark.contract import DatabaseKind, ErrorCode, RemoteConnection, RemoteSourceSpec, Transport
from pushdown_spark.databases import database_scan as scan_of_table
from pushdown_spark.databases.client import ConnectionSettings, address_of, connect, describe_table
from pushdown_spark.databases.database_scan import DatabaseScan, DatabaseScanPlan
from pushdown_spark.databases.read import partition_splits
from pushdown_spark.databases.read.jdbc import DRIVERS, JdbcTransport, choose_transport
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.errors import BadSpecError, RemoteFailedError
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.session import PushdownSession

MYSQLS = KINDS[1:]
ODD = 'select "x" -- `y`'
SLOW = {
    "postgresql": "SELECT seq AS i, pg_sleep(0.02)::text AS slept FROM {numbers}",
    "mysql": "SELECT seq AS i, sleep(0.02) AS slept FROM {numbers}",
}
MANY = (
    "DROP TABLE IF EXISTS many",
    "CREATE TABLE many AS SELECT i AS k, ARRAY[i] AS a FROM generate_series(1, 20000) i",
    "ANALYZE many",
)
WITH_TLS = {"mysql": {"sslMode": "trust"}}
"""Without it MySQL 8 has no way for a password that MariaDB's driver takes unasked."""
OTHER_IN_SPARK = {"postgresql": {"b4", "tm", "ts"}, "mysql": {"b", "b9", "c", "tm", "ts", "tz", "yr"}}
"""Columns that Spark's own source makes another type of, or pads."""


@pytest.fixture
def little_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the threshold so that results of some kilobytes use JDBC with several partitions."""
    monkeypatch.setattr(partition_splits, "_MIN_PARTITIONED_BYTES", 1 << 10)
    monkeypatch.setattr(partition_splits, "_MIN_JDBC_BYTES", 1 << 10)


def scanner(spark: SparkSession, server: Server, transport: str, **table: object) -> Callable[..., PushdownResult]:
    session = PushdownSession(spark)
    session.add_remote("source", server.connection(), transport=transport, **table)
    return lambda **query: session.scan("source", **query)


def comparable_values(row: dict[str, object]) -> list[str]:
    """Return the values of a row as strings. NaN equals NaN, and zones with the same offset are equal."""
    zoned = (value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value for value in row.values())
    return list(map(repr, zoned))


def outcome(scan: Callable[..., PushdownResult], predicate: str | None) -> list[str]:
    """Return the rows that a predicate keeps, or the class of the error that it raises."""
    try:
        return sorted(map(repr, rows_of(scan(where=predicate))))
    except Exception as problem:
        return [classify(problem).code]


def test_jdbc_without_a_driver_raises_one_line(tmp_path: Path, spark: SparkSession) -> None:
    session = PushdownSession(spark)
    session.add_remote("s", sqlite_file(tmp_path, "CREATE TABLE t (k int)"), table="t", transport="jdbc")
    with pytest.raises(BadSpecError, match="transport: 'jdbc' is not possible: sqlite is read as Arrow"):
        session.scan("s")


def test_statements_have_no_names_that_spark_must_quote(spark: SparkSession) -> None:
    """Spark does not escape quotes in the names that it quotes."""
    table = RemoteTable(
        Dialect.POSTGRES,
        "t",
        (RemoteColumn(name=ODD, remote_type="integer", spark_type=spark.range(1).schema["id"].dataType),),
    )
    address = address_of(RemoteConnection(kind=DatabaseKind.POSTGRESQL, host="db", database="shop", password="hush-1"))
    jdbc = JdbcTransport(spark, table, "jdbc:postgresql://db/shop", {"password": "hush-1"}, "", address)
    select = exp.select(exp.column(exp.to_identifier(ODD, quoted=True))).from_("t")
    assert jdbc.statement(select) == 'SELECT "select ""x"" -- `y`" AS "c0" FROM t'
    assert "hush-1" not in repr(jdbc)


class TestOverJdbc:
    """Tests that need the drivers."""

    pytestmark = NEEDS_DRIVERS

    @pytest.mark.parametrize("kind", KINDS)
    def test_values_of_every_type_are_returned(
        self, kind: str, server: Server, tmp_path: Path, spark: SparkSession
    ) -> None:
        expected, _ = create_tables(server, tmp_path)
        columns = [name for name, type_name in expected.types.items() if not type_name.startswith("array")]
        result = scanner(spark, server, "jdbc", table="every_type")(columns=columns)
        types = {field.name: field.dataType.simpleString() for field in result.df.schema}
        assert types == {name: expected.types[name] for name in columns}
        expected_rows = EveryType((), {name: expected.columns[name] for name in columns}).rows
        assert list(map(comparable_values, sorted(rows_of(result), key=lambda row: int(str(row["id"]))))) == list(
            map(comparable_values, expected_rows)
        )
        report = result.report()["source"]
        assert any("Spark's JDBC source" in note for note in report.notes)
        assert (report.rows_decoded, result.rows) == (len(expected_rows), len(expected_rows))

    @pytest.mark.parametrize("in_utc", [False, True])
    @pytest.mark.parametrize("kind", KINDS[:-1])
    def test_values_are_those_of_sparks_own_source(
        self, kind: str, in_utc: bool, server: Server, tmp_path: Path, spark: SparkSession
    ) -> None:
        """Columns to which Spark's source gives another type or value are left out.

        With `in_utc`, MariaDB's driver has the options with which timestamps are those of the server.
        """
        expected, connection = create_tables(server, tmp_path)
        columns = [name for name, type_name in expected.types.items() if not type_name.startswith("array")]
        scheme, more = ("mysql", "?permitMysqlScheme") if kind in ("mariadb", "mysql") else (server.kind, "")
        if in_utc and scheme == "mysql":
            more += "&connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true"
        driver = DRIVERS[Dialect(server.product) if server.kind == "mysql" else Dialect.POSTGRES][0]
        login = {
            "user": str(connection["user"]),
            "password": server.password,
            "driver": driver,
            **WITH_TLS.get(kind, {}),
        }
        url = f"jdbc:{scheme}://{connection['host']}:{connection['port']}/{connection['database']}{more}"
        theirs = spark.read.jdbc(url, "every_type", properties=login).select(*columns).toArrow().to_pylist()
        ours = rows_of(scanner(spark, server, "jdbc", table="every_type")(columns=columns))
        by_column = (
            {name: {row["id"]: comparable_values({"": row[name]}) for row in rows} for name in columns}
            for rows in (ours, theirs)
        )
        one, other = by_column
        different = OTHER_IN_SPARK[server.kind] - ({"tz"} if in_utc else set())
        assert {name for name in columns if one[name] != other[name]} == different

    @pytest.mark.parametrize("kind", KINDS)
    def test_rows_over_jdbc_equal_rows_over_arrow(self, kind: str, server: Server, spark: SparkSession) -> None:
        """The whole table of difficult values, and the rows of predicates of every kind."""
        make = postgres_table if kind == "postgresql" else lambda found: mysql_table(found, "utf8mb4_bin")
        nasty = make(server)
        scans = [scanner(spark, server, way, table=nasty.table.name) for way in ("jdbc", "arrow")]
        predicates = [
            None,
            *(group.rows[0].predicate for group in GROUPS),
            *(row.predicate for row in GROUPS[0].rows[::5]),
        ]
        different = []
        for predicate in predicates:
            over_jdbc, as_arrow = (outcome(scan, predicate) for scan in scans)
            if over_jdbc != as_arrow:
                different.append(predicate)
        nasty.close()
        assert not different

    @pytest.mark.parametrize(
        ("kind", "query"),
        [
            (
                "postgresql",
                "SELECT 'ab  '::bpchar AS p, CAST(NULL AS bpchar) AS n, current_setting('TimeZone') AS z, "
                "tstzrange('2024-05-15 12:00:00+02', NULL) AS r, 'x'::char(3) AS c, 0.5::real AS f",
            ),
            *((kind, "SELECT c, e, t, b, y, n, i4, yr, tz, @@time_zone AS z FROM every_type") for kind in MYSQLS),
        ],
    )
    def test_session_settings_and_values_over_jdbc_equal_those_over_arrow(
        self, kind: str, query: str, server: Server, tmp_path: Path, spark: SparkSession
    ) -> None:
        """The JVM has another time zone, which drivers send to the server."""
        create_tables(server, tmp_path)
        zones = java_class(spark, "java.util.TimeZone")
        before = zones.getDefault()
        zones.setDefault(zones.getTimeZone("Asia/Tokyo"))
        try:
            results = [scanner(spark, server, way, query=query)() for way in ("jdbc", "arrow")]
            over_jdbc, as_arrow = (sorted(map(comparable_values, rows_of(result))) for result in results)
        finally:
            zones.setDefault(before)
        assert over_jdbc == as_arrow
        assert any("UTC" in value or "+00:00" in value for value in as_arrow[0])

    @pytest.mark.usefixtures("little_is_much")
    def test_auto_uses_jdbc_only_for_many_rows_and_reports_the_reason(
        self, postgresql_server: Server, spark: SparkSession
    ) -> None:
        postgresql_server.execute(*MANY)
        for query, rows, note in (
            ({"columns": ["k"]}, 20_000, "over Spark's JDBC source"),
            ({"columns": ["a"]}, 20_000, "as Arrow: column a (integer[]) can only be read as Arrow"),
            ({"columns": ["k"], "limit": 3}, 3, "the driver fetched the few rows"),
        ):
            result = scanner(spark, postgresql_server, "auto", table="many")(**query)
            assert len(rows_of(result)) == rows
            notes = result.report()["source"].notes
            assert any(note in each for each in notes), notes

    @pytest.mark.usefixtures("little_is_much")
    @pytest.mark.parametrize("transport", [Transport.AUTO, Transport.JDBC])
    def test_auto_uses_arrow_if_the_driver_cannot_connect(
        self, transport: Transport, postgresql_server: Server, spark: SparkSession
    ) -> None:
        postgresql_server.execute(*MANY)
        address = address_of(RemoteConnection.model_validate(postgresql_server.connection()))
        spec = RemoteSourceSpec(table="many", transport=transport)
        client = connect(address, ConnectionSettings())
        table = describe_table(client, DatabaseKind.POSTGRESQL, spec)
        choice = choose_transport(spark, client, replace(address, password="hush-2"), spec, table)
        client.close()
        everything = PushedPredicate(table.dialect, ())
        plan = DatabaseScanPlan(
            table=table,
            columns=("k",),
            predicate=everything,
            conjuncts=(),
            is_exact=True,
            spec=spec,
            address=address,
            transport=choice,
        )
        scan = DatabaseScan(spark, plan)
        if transport is Transport.JDBC:
            with pytest.raises(RemoteFailedError, match="cannot open it") as error:
                scan.frame()
            message = str(error.value)
        else:
            assert scan.frame().count() == 20_000
            (message,) = scan.report().notes
            assert "as Arrow: " in message
        assert "password authentication failed" in message
        assert "hush-2" not in message

    @pytest.mark.parametrize("kind", KINDS)
    def test_names_with_special_characters_limits_and_filters_work_over_jdbc(
        self, kind: str, server: Server, spark: SparkSession
    ) -> None:
        quote = "`" if server.kind == "mysql" else '"'
        name = quote + ODD.replace(quote, quote * 2) + quote
        server.execute(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} ({name} int, c0 varchar(40))",
            f"INSERT INTO {name} VALUES (1, 'B'), (2, 'a'), (3, 'c'), (4, NULL)",
        )
        scan = scanner(spark, server, "jdbc", table='"' + ODD.replace('"', '""') + '"')
        column = f"`{ODD.replace('`', '``')}`"
        assert sorted(map(repr, rows_of(scan(where=f"{column} > 1 AND lower(c0) <> 'c'")))) == [
            repr({ODD: 2, "c0": "a"})
        ]
        result = scan(where=f"{column} > 1", columns=[column], limit=2)
        assert len(rows_of(result)) == 2
        assert result.report()["source"].statements[0].endswith("LIMIT 2")

    @pytest.mark.parametrize(
        ("kind", "declaration", "values"),
        [
            ("postgresql", "d date", "('infinity')"),
            ("postgresql", "d date", "('0044-03-15 BC')"),
            ("postgresql", "d timestamp", "('10000-01-01 00:00:00')"),
            ("postgresql", "d numeric", "('NaN')"),
            ("postgresql", "d numeric(10,2)", "('NaN')"),
            *((kind, "d date", "('2024-00-00')") for kind in MYSQLS),
            *((kind, "d datetime", "('0000-00-00 00:00:00')") for kind in MYSQLS),
        ],
    )
    def test_values_without_a_counterpart_in_spark_raise(
        self, kind: str, declaration: str, values: str, server: Server, spark: SparkSession
    ) -> None:
        before = ["SET sql_mode = ''"] if server.kind == "mysql" else []
        server.execute(
            "DROP TABLE IF EXISTS bad", f"CREATE TABLE bad ({declaration})", *before, f"INSERT INTO bad VALUES {values}"
        )
        scan = scanner(spark, server, "jdbc", table="bad")
        code, message = error_of(lambda: rows_of(scan()))
        assert code is ErrorCode.SCHEMA_CONFLICT, message
        # If the driver rejects a number, its message has no column.
        assert message.startswith(("column d (", "the database or its driver ended the read: "))
        assert values[2:5] in message

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_statement_beyond_the_timeout_is_cancelled(self, kind: str, server: Server, spark: SparkSession) -> None:
        slow = SLOW[server.kind].format(numbers=server.numbers(1000))
        scan = scanner(spark, server, "jdbc", query=slow, statement_timeout=0.5)
        code, message = error_of(lambda: rows_of(scan()))
        assert code is ErrorCode.REMOTE_FAILED, message
        assert server.password not in message

    def test_all_partitions_read_one_snapshot(self, postgresql_server: Server, spark: SparkSession) -> None:
        postgresql_server.execute(
            "DROP TABLE IF EXISTS moments",
            "CREATE TABLE moments AS SELECT i AS k, repeat('x', 500) AS s FROM generate_series(1, 1000) i",
        )
        result = scanner(spark, postgresql_server, "jdbc", table="moments", num_partitions=4)()
        frame = result.df
        postgresql_server.execute("DELETE FROM moments WHERE k > 10")
        assert frame.rdd.getNumPartitions() == 4
        assert frame.count() == 1000


@pytest.mark.nightly
@pytest.mark.usefixtures("drivers")
def test_keys_are_selected_first_in_mariadb_over_jdbc(
    spark: SparkSession, mariadb_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ", ".join(f"c{place} datetime" for place in range(8))
    values = ", ".join(f"'2024-01-0{place + 1}' + INTERVAL seq SECOND" for place in range(8))
    mariadb_server.execute(
        "DROP TABLE IF EXISTS keyed",
        f"CREATE TABLE keyed (c int, k int, found int, {columns}, PRIMARY KEY (c, k))",
        f"INSERT INTO keyed SELECT seq % 7, seq, seq % 1009, {values} FROM seq_1_to_30000",
        "ANALYZE TABLE keyed",
    )
    monkeypatch.setattr(scan_of_table, "_MAX_SAMPLED_ROWS", 10)
    read = {
        way: scanner(spark, mariadb_server, way, table="keyed")(where="found & 511 = 7") for way in ("auto", "jdbc")
    }
    rows = {way: sorted(map(repr, rows_of(result))) for way, result in read.items()}
    assert rows["auto"] == rows["jdbc"]
    assert len(rows["auto"]) == 60
    statements = {way: result.report()["source"].statements[0] for way, result in read.items()}
    assert "STRAIGHT_JOIN" in statements["auto"]
    assert "STRAIGHT_JOIN" not in statements["jdbc"]
    assert any("over Spark's JDBC source" in note for note in read["auto"].report()["source"].notes)
