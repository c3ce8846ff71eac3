"""Pushed predicates on real databases return Spark's rows, a superset, or are not sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from databases import Server
from nasty_tables import NastyTable, known_collations, local_frame, mysql_tables, postgres_table, sqlite_table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from semantics_rows import COLLATIONS, DATABASES, GROUPS, TRANSLATED_WRONGLY, Group, as_markdown

from pushdown_spark.contract import Exactness
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate, SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_query import row_query
from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.parser import parse_predicate

Tables = list[tuple[int, NastyTable]]
Asked = dict[tuple[int, str], "frozenset[int] | PySparkException"]


@pytest.fixture(scope="module", params=("sqlite", "postgresql", "mariadb", "mysql"))
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """Return the tables of a database, each with the column of the documentation that describes it."""
    product: str = request.param
    if product == "sqlite":
        made = [(DATABASES.index("SQLite"), sqlite_table(tmp_path_factory.mktemp("sqlite")))]
    else:
        server: Server = request.getfixturevalue(f"{product}_server")
        if product == "postgresql":
            made = [(DATABASES.index("PostgreSQL"), postgres_table(server))]
        else:
            made = mysql_tables(server, COLLATIONS[product])
    yield made
    for _, table in made:
        table.close()


@pytest.fixture(scope="module")
def fold(spark: SparkSession) -> Callable[[str], object]:
    """Return a function that returns Spark's value of a constant expression."""

    def cached_fold(sql: str) -> object:
        try:
            row = spark.sql(f"SELECT {sql}").head()
        except (PySparkException, ValueError, OverflowError):
            return None
        return None if row is None else row[0]

    return cached_fold


@pytest.fixture(scope="module")
def known_rows() -> Asked:
    """Return a cache of Spark's results, shared by tables with the same content."""
    return {}


def _ids_where(frame: DataFrame, predicate: str) -> frozenset[int] | PySparkException:
    try:
        return frozenset(row[0] for row in frame.where(predicate).select("id").collect())
    except PySparkException as problem:
        return problem


def _classify(table: NastyTable, predicate: str, fold: Callable[[str], object]) -> PushedPredicate:
    tree = parse_predicate(predicate)
    return push_predicate(conjuncts(tree), table.table, SparkRules(is_trusted=True, fold=fold))


def _description(table: NastyTable) -> str:
    return f"{table.table.name} of {table.table.dialect}"


def _letter(pushdown: PushedPredicate) -> str:
    if pushdown.where is None and pushdown.conjuncts:
        return "U"
    return "E" if pushdown.is_exact else "I"


def _problem(
    frame: DataFrame,
    table: NastyTable,
    predicate: str,
    pushdown: PushedPredicate,
    expected: frozenset[int] | PySparkException,
) -> str | None:
    """Return the difference between the database's rows and Spark's, or None if there is none."""
    sql = row_query(table.table, ["id"], pushdown).sql
    ids = frozenset(int(str(row[0])) for row in table.query(sql))
    if isinstance(expected, PySparkException):
        left = frame.where(f.col("id").isin(*ids)) if ids else frame.limit(0)
        hidden = pushdown.is_exact or not isinstance(_ids_where(left, predicate), PySparkException)
        return f"{predicate}: Spark raises, which {sql} hides" if hidden else None
    if expected - ids:
        return f"{predicate}: {sql} loses {sorted(expected - ids)}"
    return f"{predicate}: {sql} adds {sorted(ids - expected)}" if pushdown.is_exact and ids != expected else None


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_pushed_predicates_return_sparks_rows(
    group: Group, spark: SparkSession, tables: Tables, fold: Callable[[str], object], known_rows: Asked
) -> None:
    problems = []
    for place, table in tables:
        frame = local_frame(spark, table)
        for row in group.rows:
            pushdown = _classify(table, row.predicate, fold)
            if _letter(pushdown) != row.classes[place]:
                reasons = [conjunct.reason for conjunct in pushdown.conjuncts]
                problems.append(f"{row.predicate}: {_letter(pushdown)} in {_description(table)}, {reasons}")
            if pushdown.where is None:
                continue
            key = (hash(table.rows), row.predicate)
            expected = (
                known_rows[key] if key in known_rows else known_rows.setdefault(key, _ids_where(frame, row.predicate))
            )
            if problem := _problem(frame, table, row.predicate, pushdown, expected):
                problems.append(problem)
    assert not problems


def test_pushed_predicates_return_sparks_rows_without_ansi_mode(
    spark: SparkSession, tables: Tables, fold: Callable[[str], object]
) -> None:
    """Rows for which ANSI mode raises must be returned, because the older rules wrap or return NULL."""
    problems = []
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for _, table in tables:
            frame = local_frame(spark, table)
            for group in GROUPS:
                if group.title not in ("Arithmetic", "Division", "Bits", "Casts", "Choices", "Decimals"):
                    continue
                for row in group.rows:
                    pushdown = _classify(table, row.predicate, fold)
                    if pushdown.where is not None:
                        expected = _ids_where(frame, row.predicate)
                        problems.append(_problem(frame, table, row.predicate, pushdown, expected))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert not list(filter(None, problems))


@pytest.mark.parametrize(("places", "predicate"), TRANSLATED_WRONGLY, ids=[row[1] for row in TRANSLATED_WRONGLY])
def test_predicates_that_sqlglot_mistranslates_are_not_pushed(
    places: str, predicate: str, tables: Tables, fold: Callable[[str], object]
) -> None:
    for place, table in tables:
        if places[place] == "x":
            classes = {conjunct.exactness for conjunct in _classify(table, predicate, fold).conjuncts}
            assert classes == {Exactness.UNSUPPORTED}, _description(table)


def test_the_servers_have_all_kinds_of_collations(mariadb_server: Server, mysql_server: Server) -> None:
    servers = (mariadb_server, mysql_server)
    tested = {place for server in servers for place in known_collations(server, COLLATIONS[server.product]).values()}
    assert tested == {DATABASES.index(name) for name in DATABASES if name.startswith("MySQL")}


def test_the_documentation_contains_the_tables(project: Path) -> None:
    assert as_markdown() in (project / "docs" / "remote-reference.md").read_text()
