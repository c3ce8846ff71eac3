"""The driver fetches small results of servers when an action runs. Everything else equals a scan with tasks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from databases import Server, wait_until
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.read import transport
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate, SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_table import RemoteTable
from pushdown_spark.errors import PushdownError, RemoteFailedError
from pushdown_spark.relations import database_relation
from pushdown_spark.relations.database_relation import AnalysisScan
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

FETCHED = "the driver fetched the few rows"
ROWS = 1000


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    """Yield each server with a table `t` of 1,000 rows: indexed key `k`, `g` of 10 groups, string `s`."""
    database: Server = request.getfixturevalue(request.param)
    strings = ["NULL" if k % 7 == 0 else f"'s{k}'" for k in range(ROWS)]
    rows = ", ".join(f"({k}, {k % 10}, {text})" for k, text in enumerate(strings))
    database.execute(
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (k int PRIMARY KEY, g int, s varchar(10))",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t" if database.kind == "mysql" else "ANALYZE t",
    )
    return database


@pytest.fixture
def over(server: Server, spark: SparkSession) -> Callable[..., PushdownSession]:
    """Return a session that declares the table."""

    def session(**options: object) -> PushdownSession:
        pushdown = PushdownSession(spark)
        pushdown.add_remote("t", server.connection(), table="t", **options)
        return pushdown

    return session


def was_fetched(result: PushdownResult) -> bool:
    """Return whether the driver read the rows of a result that has run."""
    return any(FETCHED in note for report in result.report().values() for note in report.notes)


def rows_of(result: PushdownResult) -> list[str]:
    return sorted(map(str, result.run(DataFrame.collect)))


@pytest.mark.parametrize(
    ("where", "limit"),
    [
        ("k = 77", None),
        ("k IN (3, 5, 2000)", None),
        ("k = -1", None),
        ("k < 20 AND s LIKE 's%'", None),
        ("k < 50 AND length(reverse(s)) = 3 AND rand(3) >= 0", None),
        (None, 10_000),
        ("g = 3", 2000),
    ],
)
def test_locally_fetched_rows_equal_rows_read_by_tasks(
    where: str | None, limit: int | None, over: Callable[..., PushdownSession]
) -> None:
    here = over().scan("t", where=where, limit=limit)
    there = over(num_partitions=1).scan("t", where=where, limit=limit)
    assert rows_of(here) == rows_of(there)
    assert was_fetched(here)
    assert not was_fetched(there)
    assert here.rows == there.rows
    assert here.report()["t"].rows_decoded == there.report()["t"].rows_decoded


@pytest.mark.parametrize("server", ["postgresql_server"], indirect=True)
def test_a_result_without_rows_may_have_arrays(spark: SparkSession, server: Server) -> None:
    session = PushdownSession(spark)
    session.add_remote("q", server.connection(), query="SELECT ARRAY[k] AS ks, now() AS moment FROM t WHERE k < 0")
    result = session.scan("q")
    assert rows_of(result) == []
    assert was_fetched(result)


def test_a_small_table_is_fetched_completely(over: Callable[..., PushdownSession]) -> None:
    result = over().scan("t", columns=["s", "k"])
    assert result.run(lambda frame: frame.columns) == ["s", "k"]
    assert len(rows_of(result)) == ROWS == result.rows
    assert was_fetched(result)


BIG = 60_000


@pytest.fixture(scope="module")
def big_table(mariadb_server: Server) -> Server:
    """Create MariaDB tables of 60,000 rows. `n` divides 997 into equal parts, and `bare` has no index."""
    mariadb_server.execute(
        "DROP TABLE IF EXISTS big, bare",
        "CREATE TABLE big (k int PRIMARY KEY, n int, s text, `to ``be`` or` int)",
        f"INSERT INTO big SELECT seq, seq % 997, concat('s', seq), seq % 3 FROM seq_1_to_{BIG}",
        "CREATE TABLE bare AS SELECT * FROM big",
        "ANALYZE TABLE big, bare",
    )
    return mariadb_server


@pytest.mark.parametrize(
    ("table", "where", "is_fetched"),
    [
        ("big", "n & 1023 = 7", True),
        ("big", "n % 10 = 3 AND length(reverse(s)) > 0", True),
        ("big", "`to ``be`` or` + n = 2000", True),
        ("big", "n & 1 = 1", False),
        ("big", "s LIKE 's77%'", False),
        ("big", "rand(3) >= 0", False),
        ("bare", "n & 1023 = 7", False),
    ],
)
def test_mariadbs_rows_are_fetched_if_a_sample_shows_that_they_are_few(
    spark: SparkSession, big_table: Server, table: str, where: str, is_fetched: bool
) -> None:
    session = PushdownSession(spark)
    session.add_remote("here", big_table.connection(), table=table)
    session.add_remote("there", big_table.connection(), table=table, num_partitions=1)
    here, there = (session.scan(name, columns=["k"], where=where) for name in ("here", "there"))
    assert rows_of(here) == rows_of(there)
    assert was_fetched(here) is is_fetched
    assert not was_fetched(there)


@pytest.fixture(scope="module")
def wide_table(mariadb_server: Server) -> Server:
    """Create a MariaDB table of 30,000 rows with a key of two columns, a view of it, and a MyISAM copy."""
    columns = ", ".join(f"c{place} int" for place in range(8))
    values = ", ".join(f"seq * {place}" for place in range(8))
    mariadb_server.execute(
        "DROP TABLE IF EXISTS wide, wide_myisam",
        "DROP VIEW IF EXISTS wide_view",
        f"CREATE TABLE wide (`key_0` int, `a ``key` varchar(20) COLLATE utf8mb4_general_ci, n int, found int, "
        f"{columns}, PRIMARY KEY (`a ``key`, `key_0`), KEY by_n (n))",
        f"INSERT INTO wide SELECT seq, concat('Ä', seq % 9, ' '), seq, seq % 1009, {values} FROM seq_1_to_30000",
        "CREATE TABLE wide_myisam (PRIMARY KEY (`a ``key`, `key_0`), KEY by_n (n)) ENGINE=MyISAM AS SELECT * FROM wide",
        "CREATE VIEW wide_view AS SELECT * FROM wide",
        "ANALYZE TABLE wide, wide_myisam",
    )
    return mariadb_server


@pytest.mark.parametrize(
    ("table", "columns", "where", "by_keys"),
    [
        ("wide", None, "found & 1023 = 7", True),
        ("wide", None, "found % 1000 = 3 AND hash(found) IS NOT NULL", True),
        ("wide", ["a `key", "c3", "c4", "c5"], "found + 1 = 8", True),
        ("wide", ["a `key", "key_0", "found"], "found + 1 = 8", False),
        ("wide", None, "found & 1 = 1", False),
        ("wide", None, "n = 77", False),
        ("wide_myisam", None, "found & 1023 = 7", False),
        ("wide_view", None, "found & 1023 = 7", False),
    ],
)
def test_keys_are_selected_first_for_few_rows_of_many_columns(
    spark: SparkSession, wide_table: Server, table: str, columns: list[str] | None, where: str, by_keys: bool
) -> None:
    session = PushdownSession(spark)
    session.add_remote("here", wide_table.connection(), table=table)
    session.add_remote("there", wide_table.connection(), table=table, num_partitions=1)
    names = None if columns is None else [f"`{name.replace('`', '``')}`" for name in columns]
    here, there = (session.scan(name, columns=names, where=where) for name in ("here", "there"))
    assert rows_of(here) == rows_of(there)
    (statement,) = here.report()["here"].statements
    assert ("STRAIGHT_JOIN" in statement) is by_keys
    assert "STRAIGHT_JOIN" not in there.report()["there"].statements[0]


def test_aggregates_are_fetched(over: Callable[..., PushdownSession]) -> None:
    result = over().sql("SELECT g, count(*) AS n, max(k) AS last FROM t GROUP BY g")
    assert rows_of(result) == sorted(f"Row(g={g}, n=100, last={990 + g})" for g in range(10))
    assert was_fetched(result)


def test_more_rows_than_estimated_are_read_by_tasks(
    over: Callable[..., PushdownSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_LOCAL_ROWS", 20)
    result = over(fetch_size=7).scan("t")
    assert len(rows_of(result)) == ROWS == result.rows
    assert not was_fetched(result)


def test_rows_are_fetched_when_the_dataframe_runs(over: Callable[..., PushdownSession], server: Server) -> None:
    frame = over().scan("t", where="k >= 990").df
    server.execute("INSERT INTO t VALUES (5000, 1, 'new')")
    assert frame.count() == 11


def test_all_connections_are_closed_after_a_fetch(
    over: Callable[..., PushdownSession], postgresql_server: Server
) -> None:
    assert over().scan("t", where="k = 1").run(DataFrame.count) == 1
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow_pushdown'"
    assert wait_until(lambda: postgresql_server.execute(query).strip() == "0")


def test_a_local_fetch_from_postgresql_uses_no_cursor(spark: SparkSession, postgresql_server: Server) -> None:
    session = PushdownSession(spark)
    session.add_remote("c", postgresql_server.connection(), query="SELECT name FROM pg_cursors WHERE name <> ''")
    result = session.scan("c")
    assert result.run(DataFrame.collect) == [], "what a cursor fetches is computed by one process"
    assert any(FETCHED in note for note in result.report()["c"].notes)


@pytest.mark.parametrize("server", ["postgresql_server"], indirect=True)
def test_an_error_during_the_fetch_has_the_servers_message(spark: SparkSession, server: Server) -> None:
    session = PushdownSession(spark)
    session.add_remote("c", server.connection(), query="SELECT 1 / (k - 5) AS x FROM t")
    with pytest.raises(RemoteFailedError, match="division by zero"):
        session.scan("c").run(DataFrame.collect)


def test_the_placeholder_of_a_table_cannot_be_read(spark: SparkSession) -> None:
    schema = t.StructType([t.StructField("a`b", t.LongType()), t.StructField("c", t.ArrayType(t.DecimalType(38, 18)))])
    analysis_scan = AnalysisScan(spark, "the table 'x'", schema)
    assert analysis_scan.frame().schema.simpleString() == schema.simpleString()
    for action in (DataFrame.collect, DataFrame.count, lambda frame: frame.limit(1).collect()):
        with pytest.raises(PySparkException, match=r"the analysis placeholder for table [0-9a-f]+ was read"):
            action(analysis_scan.frame())


def test_analysis_scans_of_two_tables_are_different_queries(spark: SparkSession) -> None:
    schema = t.StructType([t.StructField("a", t.LongType())])
    one, two = (AnalysisScan(spark, name, schema).frame() for name in ("one", "two"))
    assert one.sameSemantics(one.select("a"))
    assert not one.sameSemantics(two)


@pytest.fixture
def sqlite_session(spark: SparkSession, tmp_path: Path) -> PushdownSession:
    """Return a session that declares a SQLite table of ten integers."""
    with closing(sqlite3.connect(tmp_path / "numbers.db")) as connection, connection:
        connection.execute("CREATE TABLE t (k integer PRIMARY KEY)")
        connection.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(10)])
    session = PushdownSession(spark)
    session.add_remote("t", {"kind": "sqlite", "database": str(tmp_path / "numbers.db")}, table="t")
    return session


@pytest.mark.parametrize("where", ["k ISNULL", "k = 1 AND k NOTNULL", "k = 'x y' = 3 LIMIT", "nobody = 3"])
def test_predicates_that_spark_rejects_raise_even_if_the_database_evaluates_them(
    where: str, sqlite_session: PushdownSession
) -> None:
    with pytest.raises(PushdownError, match="where"):
        sqlite_session.scan("t", where=where)


def test_no_analysis_scan_is_planned_if_the_database_evaluates_all(
    sqlite_session: PushdownSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnalysisScan, "frame", lambda _: pytest.fail("Spark analyses what the database takes over"))
    assert sqlite_session.scan("t", where="k IN (3, 4)").run(DataFrame.collect) == [(3,), (4,)]


def test_a_predicate_is_pushed_once_if_the_database_cannot_run_the_whole_query(
    sqlite_session: PushdownSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = []

    def count(conjuncts: Iterable[exp.Expr], table: RemoteTable, rules: SparkRules) -> PushedPredicate:
        statements.append(table.name)
        return push_predicate(conjuncts, table, rules)

    monkeypatch.setattr(database_relation, "push_predicate", count)
    assert sqlite_session.sql("SELECT k FROM t WHERE k > 7").run(DataFrame.collect) == [(8,), (9,)]
    assert statements == ["t"]
