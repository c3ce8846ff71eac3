"""Remote tables in joins: databases report their size, and the driver fetches small tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from databases import Server
from pyspark.sql import DataFrame, SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.relations.database_relation import DatabaseRelation
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.table_statistics import TableStatistics

SALES, SHOPS, CITIES = 30_000, 500, 50
FETCHED = "the driver fetched the few rows"
TABLES = {
    "sale": ("k int PRIMARY KEY, shop int, amount int", [(k, k % SHOPS, k % 97) for k in range(SALES)]),
    "shop": ("k int PRIMARY KEY, city int, name varchar(20)", [(k, k % CITIES, f"shop {k}") for k in range(SHOPS)]),
    "city": ("k int PRIMARY KEY, name varchar(20)", [(k, f"city {k}") for k in range(CITIES)]),
    "rent": ('"Shop" int PRIMARY KEY, "Paid" int', [(k, k % 9) for k in range(SHOPS)]),
}
QUERY = """SELECT s.k, s.amount, p.name, c.name AS city FROM sale s, shop p, city c
    WHERE s.shop = p.k AND p.city = c.k AND c.k = 7 AND s.amount > 40"""


def statements() -> Sequence[str]:
    sql = []
    for name, (columns, rows) in TABLES.items():
        sql += [f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})"]
        values = ", ".join(map(str, rows))
        sql.append(f"INSERT INTO {name} VALUES {values}")
    return [*sql, "CREATE INDEX sale_shop ON sale (shop)"]


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server", "sqlite"], scope="module")
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Yield the connection of each database with the tables."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("joins") / "shops.db"
        with sqlite3.connect(path) as database:
            for statement in [*statements(), "ANALYZE"]:
                database.execute(statement)
        return {"kind": "sqlite", "database": str(path)}
    server: Server = request.getfixturevalue(request.param)
    if server.kind == "mysql":
        mysql_statements = [statement.replace('"', "`") for statement in statements()]
        server.execute(*mysql_statements, *(f"ANALYZE TABLE {name}" for name in TABLES))
    else:
        server.execute(*statements(), "ANALYZE")
    return server.connection()


@pytest.fixture
def session(connection: dict[str, object], spark: SparkSession) -> PushdownSession:
    session = PushdownSession(spark)
    for name in TABLES:
        session.add_remote(name, connection, table=name)
    return session


def statistics(session: PushdownSession, name: str, where: str | None, *columns: str) -> TableStatistics:
    relation = DatabaseRelation.open(session._spark, session._sources[name])  # type: ignore[arg-type]
    actual = relation.statistics(None if where is None else Predicate.parse(where), columns)
    assert actual is not None
    return actual


def test_databases_report_the_size_of_a_table(session: PushdownSession) -> None:
    whole = statistics(session, "sale", None, "shop", "k")
    assert whole.rows == pytest.approx(SALES, rel=0.1)
    assert whole.expected_rows == pytest.approx(whole.rows, rel=0.1)
    # InnoDB looks at a few pages only.
    assert SHOPS / 3 <= (whole.columns["shop"].distinct or 0) <= SHOPS * 3
    assert whole.columns["k"].distinct == pytest.approx(SALES, rel=0.1)
    needle = statistics(session, "sale", "k = 77", "shop")
    assert needle.rows == pytest.approx(SALES, rel=0.1)
    assert needle.is_fetched
    assert not statistics(session, "sale", "amount > 1", "shop").is_fetched
    assert statistics(session, "city", "k < 3").is_fetched


def test_missing_table_statistics_are_unknown(connection: dict[str, object], spark: SparkSession) -> None:
    session = PushdownSession(spark)
    session.add_remote("some", connection, query="SELECT k, shop FROM sale WHERE shop < 3")
    relation = DatabaseRelation.open(spark, session._sources["some"])  # type: ignore[arg-type]
    actual = relation.statistics(Predicate.parse("k < 100"), ["shop"])
    assert (actual is not None) == (connection["kind"] == "postgresql")


def test_joins_of_remote_tables_are_reordered_and_small_tables_are_fetched(session: PushdownSession) -> None:
    result = session.sql(QUERY, JoinOptions(min_bytes=0))
    (report,) = result.joins()
    assert report.reason.startswith("about"), "the size of each table is known"
    plans: list[str] = []

    def action(frame: DataFrame) -> list[str]:
        actual = sorted_rows(frame)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return actual

    expected = [
        f"Row(k={k}, amount={k % 97}, name='shop {k % SHOPS}', city='city 7')"
        for k in range(SALES)
        if k % SHOPS % CITIES == 7 and k % 97 > 40
    ]
    assert result.run(action) == sorted(expected)
    reports = result.report()
    assert any(FETCHED in note for note in reports["city"].notes)
    assert reports["city"].rows_decoded == 1
    assert "SortMergeJoin" not in plans[0]


def test_join_keys_may_have_capital_letters(session: PushdownSession) -> None:
    query = "SELECT s.k FROM sale s JOIN rent r ON s.shop = r.shop JOIN shop p ON p.k = r.SHOP WHERE r.paid = 4"
    result = session.sql(query, JoinOptions(min_bytes=0))
    assert result.joins()[0].reason.startswith("about"), "the size of each table is known"
    expected = [f"Row(k={k})" for k in range(SALES) if k % SHOPS % 9 == 4]
    assert result.run(sorted_rows) == sorted(expected)


def test_small_tables_are_read_when_the_dataframe_runs(session: PushdownSession) -> None:
    result = session.sql("SELECT c.name FROM city c JOIN shop p ON p.city = c.k WHERE c.k = 3 AND p.k < 60")
    assert sorted_rows(result.df) == ["Row(name='city 3')"] * 2
    assert not any(FETCHED in note for report in result.report().values() for note in report.notes)
    assert result.run(sorted_rows) == ["Row(name='city 3')"] * 2
    assert any(FETCHED in note for note in result.report()["city"].notes)


def test_a_join_of_a_file_and_a_small_remote_table_returns_sparks_rows(
    session: PushdownSession, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "visits")
    spark.range(1000).selectExpr("cast(id % 500 AS int) AS shop", "id AS visit").write.parquet(path)
    session.add_source("visit", path=path, format="parquet", reader="spark")
    query = "SELECT count(*) AS n FROM visit v JOIN shop p ON v.shop = p.k JOIN city c ON p.city = c.k WHERE c.k = 9"
    result = session.sql(query, JoinOptions(min_bytes=0))
    assert result.run(sorted_rows) == ["Row(n=20)"]
    assert result.joins()[0].reason.startswith("about")
