"""Pushed sorting, limits, counts, extremes and groups return Spark's rows, or are not pushed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from databases import Server
from every_type import sqlite_file
from nasty_tables import NAMES, NastyTable, local_frame, mysql_table, postgres_table, sqlite_table
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pushdown_spark.databases.sql.remote_query import (
    Aggregate,
    AggregateFunction,
    Ordering,
    RemoteQuery,
    aggregate_query,
    row_query,
)
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

COLLATIONS = {
    "mariadb ci": "utf8mb4_general_ci",
    "mariadb binary": "utf8mb4_bin",
    "mariadb no pad": "utf8mb4_nopad_bin",
    "mysql ci": "utf8mb4_0900_ai_ci",
    "mysql binary": "utf8mb4_bin",
}
PLACES = ("postgresql", *COLLATIONS, "sqlite")
STRING_COLUMNS, SQLITE_DOUBTS = ("s", "c"), ("n", "d", "ts")
NOT_ORDERED = {
    "postgresql": (),
    "mariadb ci": STRING_COLUMNS,
    "mariadb binary": STRING_COLUMNS,
    "mariadb no pad": (),
    "mysql ci": STRING_COLUMNS,
    "mysql binary": STRING_COLUMNS,
    "sqlite": SQLITE_DOUBTS,
}
"""Columns whose order is not sent, by what documentation says of them."""


@pytest.fixture(scope="module")
def tables(
    postgresql_server: Server, mariadb_server: Server, mysql_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, NastyTable]]:
    servers = {"mariadb": mariadb_server, "mysql": mysql_server}
    mysql = [mysql_table(servers[place.split()[0]], collation) for place, collation in COLLATIONS.items()]
    databases = [postgres_table(postgresql_server), *mysql, sqlite_table(tmp_path_factory.mktemp("sqlite"))]
    yield dict(zip(PLACES, databases, strict=True))
    for table in databases:
        table.close()


def aggregates(table: NastyTable, aggregations: list[Aggregate], group_by: Sequence[str] = ()) -> RemoteQuery | None:
    """Return the query, or None if the database's result may differ from Spark's."""
    try:
        return aggregate_query(table.table, None, aggregations, group_by)
    except UnsupportedError:
        return None


@pytest.mark.parametrize("place", PLACES)
def test_pushed_order_by_returns_sparks_order(place: str, tables: dict[str, NastyTable], spark: SparkSession) -> None:
    table = tables[place]
    frame = local_frame(spark, table)
    for name in NAMES:
        for descending, nulls_first in ((False, None), (True, None), (False, False), (True, True)):
            keys = (Ordering(name, descending, nulls_first), Ordering("id"))
            query = row_query(table.table, ["id"], limit=30, order_by=keys)
            assert query.is_limited == (name not in NOT_ORDERED[place]), name
            if not query.is_limited:
                assert "ORDER BY" not in query.sql
                continue
            first = (not descending) if nulls_first is None else nulls_first
            key = getattr(f.col(name), f"{'desc' if descending else 'asc'}_nulls_{'first' if first else 'last'}")()
            expected = [row[0] for row in frame.orderBy(key, "id").select("id").limit(30).collect()]
            assert [int(str(row[0])) for row in table.query(query.sql)] == expected, query.sql


@pytest.mark.parametrize("place", PLACES)
def test_pushed_group_by_returns_sparks_groups(place: str, tables: dict[str, NastyTable], spark: SparkSession) -> None:
    table = tables[place]
    frame = local_frame(spark, table)
    counts = [Aggregate(AggregateFunction.COUNT_ALL, "n"), Aggregate(AggregateFunction.MAX, "last", "id")]
    not_grouped = {"f", *NOT_ORDERED[place]} - ({"s", "c"} if place == "mariadb no pad" else set())
    for name in NAMES:
        query = aggregates(table, counts, group_by=[name])
        assert (query is not None) == (name not in not_grouped), name
        if query is not None:
            expected = frame.groupBy(name).agg(f.count(f.lit(1)), f.max("id")).select("count(1)", "max(id)").collect()
            actual = [(int(str(row[-2])), int(str(row[-1]))) for row in table.query(query.sql)]
            assert sorted(actual) == sorted(tuple(row) for row in expected), query.sql


@pytest.mark.parametrize("place", PLACES)
def test_pushed_minima_and_maxima_equal_those_of_spark(
    place: str, tables: dict[str, NastyTable], spark: SparkSession
) -> None:
    table = tables[place]
    frame = local_frame(spark, table)
    for name in NAMES:
        aggregations = [Aggregate(AggregateFunction.MIN, "low", name), Aggregate(AggregateFunction.MAX, "high", name)]
        query = aggregates(table, aggregations)
        assert (query is not None) == (name not in ("b", *NOT_ORDERED[place])), name
        if query is not None:
            (expected,) = frame.agg(f.min(name), f.max(name)).collect()
            ((low, high),) = table.query(query.sql)
            assert (str(low), str(high)) == tuple(map(str, expected)), query.sql


ROWS = ", ".join(f"({k if k % 50 else 'NULL'}, {k % 10}, 's{k}')" for k in range(1, 1000))
NUMBERS = (
    "DROP TABLE IF EXISTS counted",
    "CREATE TABLE counted (k int, g int, s varchar(10))",
    f"INSERT INTO counted VALUES {ROWS}",
)


SERVERS = ("postgresql_server", "mariadb_server", "mysql_server", "sqlite")


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> PushdownSession:
    """Return a session with the table as `source`, and as `plain` without pushdown."""
    if request.param != "sqlite":
        server = request.getfixturevalue(request.param)
        server.execute(*NUMBERS)
        connection = server.connection()
    else:
        connection = sqlite_file(tmp_path, *NUMBERS)
    session = PushdownSession(spark)
    session.add_remote("source", connection, table="counted")
    session.add_remote("plain", connection, table="counted", filter_pushdown=False)
    return session


def rows(result: PushdownResult) -> list[tuple[object, ...]]:
    return result.run(lambda frame: [tuple(row) for row in frame.collect()])


def columns(result: PushdownResult) -> list[tuple[object, ...]]:
    return [(field.name, field.dataType, field.nullable) for field in result.df.schema]


DATABASE_QUERIES = [
    ("SELECT count(*) FROM {}", 1),
    ("SELECT count(1) AS n, count(k), min(k), max(k) AS top FROM {} WHERE g = 3", 1),
    ("SELECT g, count(*) FROM {} GROUP BY g ORDER BY g", 10),
    ("SELECT max(k) AS m, g AS grp FROM {} t WHERE t.k > 100 GROUP BY t.g ORDER BY m DESC LIMIT 3", 10),
    ("SELECT g FROM {} WHERE k <=> NULL GROUP BY g", 1),
    ("SELECT k, s, k FROM {} WHERE k % 3 = 1 ORDER BY k DESC LIMIT 7", 7),
    ("SELECT * FROM {} WHERE k > 7 ORDER BY k NULLS LAST LIMIT 5", 5),
    ("SELECT s AS name FROM {} ORDER BY g DESC, k LIMIT 4", 4),
    ("SELECT min(k) FROM {} WHERE g = 11", 1),
]


@pytest.mark.parametrize("pair", SERVERS, indirect=True)
@pytest.mark.parametrize(("query", "crossing"), DATABASE_QUERIES)
def test_supported_queries_run_completely_in_the_database(query: str, crossing: int, pair: PushdownSession) -> None:
    result = pair.sql(query.format("source"))
    assert rows(result) == rows(pair.sql(query.format("plain")))
    assert columns(result) == columns(pair.sql(query.format("plain")))
    report = result.report()["source"]
    assert report.rows_decoded == crossing, report.statements
    assert report.residual == ()


SPARK_QUERIES = [
    "SELECT sum(k) FROM {}",
    "SELECT count(DISTINCT g) FROM {}",
    "SELECT DISTINCT g FROM {} ORDER BY g LIMIT 3",
    "SELECT g, count(*) FROM {} GROUP BY g HAVING count(*) > 99 ORDER BY g",
    "SELECT g + 1, count(*) FROM {} GROUP BY g + 1 ORDER BY 1",
    "SELECT g, count(*) FROM {} GROUP BY ROLLUP (g) ORDER BY g",
    "SELECT count(*) FROM {} WHERE upper(s) = 'S1'",
    "SELECT count(*) FILTER (WHERE g = 1) FROM {}",
    "SELECT -k AS k FROM {} ORDER BY k LIMIT 3",
    "SELECT k, row_number() OVER (ORDER BY k) FROM {} ORDER BY k DESC LIMIT 3",
    "SELECT k FROM {} ORDER BY k DESC LIMIT 3 OFFSET 2",
    "SELECT k FROM {} ORDER BY abs(k) DESC LIMIT 3",
    "SELECT count(*) FROM {} TABLESAMPLE (100 PERCENT)",
]


@pytest.mark.parametrize("pair", SERVERS, indirect=True)
@pytest.mark.parametrize("query", SPARK_QUERIES)
def test_other_queries_run_in_spark(query: str, pair: PushdownSession) -> None:
    result = pair.sql(query.format("source"))
    assert rows(result) == rows(pair.sql(query.format("plain")))
    assert result.report()["source"].rows_decoded == 999


@pytest.mark.parametrize("pair", SERVERS, indirect=True)
@pytest.mark.parametrize("name", ["source", "Source"])
def test_a_query_with_only_a_limit_pushes_the_limit(pair: PushdownSession, name: str) -> None:
    result = pair.sql(f"SELECT {name}.s, g FROM {name} WHERE {name}.g = 3 LIMIT 5")
    assert [row[1] for row in rows(result)] == [3] * 5
    assert result.report()["source"].rows_decoded == 5
    assert result.report()["source"].statements[0].endswith(" LIMIT 5")
