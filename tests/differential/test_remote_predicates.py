"""Databases return Spark's rows for random predicates over difficult values.

The SQL of each random predicate runs on real servers. Spark filters all rows for comparison.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pymysql
import pytest
from arrow_schemas import utc_arrow_schema
from constant_cache import ConstantCache
from databases import Server
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from random_predicates import leaves
from remote_values import (
    ENUM,
    SPOILS,
    computed_predicate,
    declared_columns,
    for_database,
    random_value,
    read_back,
    remote_column,
)
from seeds import few_and_many, over_seeds
from session_settings import session_settings
from sqlglot import exp
from typed_rows import ROW, random_predicate

from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate, SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_query import row_query
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.parser import parse_predicate

ROWS = 50
PREDICATES = 60
Query = Callable[[str], Sequence[Sequence[object]]]
_STORAGE = {t.LongType: "INTEGER", t.DoubleType: "REAL", t.BooleanType: "INTEGER", t.BinaryType: "BLOB"}


@dataclass(frozen=True)
class Loaded:
    """A random table in a database, and its rows in Spark."""

    table: RemoteTable
    rows: list[tuple[object, ...]]
    query: Query

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a local relation, which Spark filters without a job."""
        schema = utc_arrow_schema(self.table.spark_schema)
        columns = zip(zip(*self.rows, strict=True), schema.types, strict=True)
        return spark.createDataFrame(pa.Table.from_arrays([pa.array(*column) for column in columns], schema=schema))


@contextmanager
def _connect(dialect: Dialect, server: Server | None) -> Iterator[tuple[Query, Callable[[str, list[tuple]], object]]]:
    """Yield functions that query and fill a database over one connection."""
    if server is None:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
            yield lambda sql: file.execute(sql).fetchall(), file.executemany
        return
    parts = server.connection()
    login = {key: parts[key] for key in ("host", "port", "user", "password")}
    if dialect is Dialect.POSTGRES:
        with psycopg.connect(**login, dbname=parts["database"], autocommit=True, options="-c timezone=UTC") as remote:
            yield lambda sql: _fetch_all(remote.execute(sql.encode())), remote.cursor().executemany
        return
    with closing(pymysql.connect(**login, database=parts["database"], charset="utf8mb4", autocommit=True)) as remote:
        cursor = remote.cursor()
        cursor.execute("SET time_zone = '+00:00'")

        def run_query(sql: str) -> Sequence[Sequence[object]]:
            cursor.execute(sql)
            return cursor.fetchall()

        yield run_query, cursor.executemany


def _fetch_all(cursor: psycopg.Cursor) -> Sequence[Sequence[object]]:
    return cursor.fetchall() if cursor.description is not None else []


def _load(rng: random.Random, dialect: Dialect, query: Query, insert: Callable[[str, list[tuple]], object]) -> Loaded:
    strict = dialect is Dialect.SQLITE and rng.random() < 0.4
    declared = declared_columns(rng, dialect, strict=strict)
    columns = [_row_column(dialect)]
    columns += [remote_column(f"c{place}", one, dialect, strict=strict) for place, one in enumerate(declared)]
    parts = [
        f"{column.name} {column.remote_type} {one.suffix}" for column, one in zip(columns[1:], declared, strict=True)
    ]
    if dialect is Dialect.POSTGRES:
        query("DROP TABLE IF EXISTS drawn; DROP TYPE IF EXISTS label; DROP COLLATION IF EXISTS ignoring_case")
        query(f"CREATE TYPE label AS ENUM ({', '.join(_quote(name) for name in ENUM)})")
        query("CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    else:
        query("DROP TABLE IF EXISTS drawn")
    # MySQL reserves the word.
    row = f"`{ROW}`" if dialect.is_mysql else ROW
    query(f"CREATE TABLE drawn ({row} integer PRIMARY KEY, {', '.join(parts)}){' STRICT' if strict else ''}")
    mark = "?" if dialect is Dialect.SQLITE else "%s"
    values = [(number, *(random_value(rng, one, dialect) for one in declared)) for number in range(ROWS)]
    database_rows = [tuple(for_database(value, dialect) for value in row) for row in values]
    if dialect is Dialect.SQLITE and not strict:
        database_rows = [
            tuple(_spoil(rng, value) if place else value for place, value in enumerate(row)) for row in database_rows
        ]
    insert(f"INSERT INTO drawn VALUES ({', '.join([mark] * len(columns))})", database_rows)
    names = ", ".join([row, *(_read(column, dialect, strict=strict) for column in columns[1:])])
    read = query(f"SELECT {names} FROM drawn ORDER BY {row}")
    rows = [
        (row[0], *(read_back(value, one, dialect) for value, one in zip(row[1:], declared, strict=True)))
        for row in read
    ]
    return Loaded(RemoteTable(dialect, "drawn", tuple(columns)), rows, query)


def _quote(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _row_column(dialect: Dialect) -> RemoteColumn:
    kind = t.LongType() if dialect is Dialect.SQLITE else t.IntegerType()
    return RemoteColumn(name=ROW, remote_type="int(11)" if dialect.is_mysql else "integer", spark_type=kind)


def _spoil(rng: random.Random, value: object) -> object:
    return rng.choice(SPOILS) if rng.random() < 0.05 else value


def _read(column: RemoteColumn, dialect: Dialect, *, strict: bool) -> str:
    """Return SQLite's values cast to the declared types."""
    is_cast = dialect is Dialect.SQLITE and not strict
    return f"CAST({column.name} AS {_STORAGE.get(type(column.spark_type), 'TEXT')})" if is_cast else column.name


def _ids_where(frame: DataFrame, predicate: str) -> frozenset[int] | PySparkException:
    try:
        return frozenset(row[0] for row in frame.where(predicate).select(ROW).collect())
    except PySparkException as problem:
        return problem


def _check(
    spark: SparkSession, loaded: Loaded, frame: DataFrame, predicate: str, fold: ConstantCache, tally: Counter[str]
) -> None:
    tree = parse_predicate(predicate)
    assert tree is not None, predicate
    predicate_pushdown = push_predicate(conjuncts(tree), loaded.table, SparkRules(is_trusted=True, fold=fold))
    tally.update(conjunct.exactness.value for conjunct in predicate_pushdown.conjuncts)
    if predicate_pushdown.where is None:
        return
    sql = row_query(loaded.table, [ROW], predicate_pushdown).sql
    actual = frozenset(int(str(row[0])) for row in loaded.query(sql))
    expected = _ids_where(frame, predicate)
    if isinstance(expected, PySparkException):
        _check_raises(frame, predicate, expected, actual, predicate_pushdown, sql)
        tally["raised"] += 1
        return
    tally["dropped"] += len(loaded.rows) - len(actual)
    assert not expected - actual, _explain(loaded, predicate, sql, expected - actual)
    if predicate_pushdown.is_exact:
        assert actual == expected, _explain(loaded, predicate, sql, actual - expected)


def _check_raises(
    frame: DataFrame,
    predicate: str,
    problem: PySparkException,
    kept: frozenset[int],
    predicate_pushdown: PushedPredicate,
    sql: str,
) -> None:
    """Assert that a predicate that raises in Spark also raises on the returned rows, unless a conjunct drops them."""
    if isinstance(problem, AnalysisException) or len(predicate_pushdown.conjuncts) > 1:
        return
    if any(_has_conjunction(conjunct.conjunct) for conjunct in predicate_pushdown.conjuncts):
        return
    left = frame.where(f.col(ROW).isin(*kept)) if kept else frame.limit(0)
    again = _ids_where(left, predicate)
    assert isinstance(again, PySparkException), f"{predicate} raises, which {sql} hides"


def _has_conjunction(node: exp.Expr, *, negated: bool = False) -> bool:
    """Return whether all parts of a condition must be true: an AND, or a negated OR."""
    node = node.unnest()
    if isinstance(node, exp.Not):
        return _has_conjunction(node.this, negated=not negated)
    if not isinstance(node, exp.And | exp.Or):
        return False
    if isinstance(node, exp.And) is not negated:
        return True
    return any(_has_conjunction(part, negated=negated) for part in node.flatten())


def _explain(loaded: Loaded, predicate: str, sql: str, rows: frozenset[int]) -> str:
    types = {column.name: (column.remote_type, column.collation) for column in loaded.table.columns}
    return f"{predicate}\n{sql}\n{types}\n{[loaded.rows[row] for row in sorted(rows)[:2]]}"


def check_case(spark: SparkSession, seed: int, dialect: Dialect, server: Server | None, tally: Counter[str]) -> None:
    """Check one random table with many predicates."""
    rng = random.Random(seed)
    ansi = rng.random() < 0.5
    conf = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": str(ansi).lower()}
    with _connect(dialect, server) as (query, insert), session_settings(spark, conf):
        loaded = _load(rng, dialect, query, insert)
        columns = list(leaves(loaded.table.spark_schema))
        predicates = [random_predicate(rng, columns, mixed=not ansi) for _ in range(PREDICATES // 2)]
        predicates += [computed_predicate(rng, columns) for _ in range(PREDICATES // 2)]
        fold = ConstantCache(spark)
        trees = [tree for tree in map(parse_predicate, predicates) if tree is not None]
        fold.prepare(trees, loaded.table.spark_schema)
        frame = loaded.frame(spark)
        for predicate in predicates:
            _check(spark, loaded, frame, predicate, fold, tally)


def _require_enough_comparisons(tally: Counter[str]) -> None:
    exact, inexact = tally["exact"], tally["inexact"]
    conjunct_count = exact + inexact
    assert conjunct_count > (conjunct_count + tally["unsupported"]) * 0.3, tally
    assert exact > 10, tally
    assert inexact > 5, tally
    assert tally["dropped"] > conjunct_count * ROWS * 0.1, tally


def _server(request: pytest.FixtureRequest, dialect: Dialect) -> Server | None:
    return None if dialect is Dialect.SQLITE else request.getfixturevalue(f"{SERVERS[dialect]}_server")


SERVERS = {Dialect.POSTGRES: "postgresql", Dialect.MARIADB: "mariadb", Dialect.MYSQL: "mysql"}
DATABASES = (*SERVERS, Dialect.SQLITE)


@pytest.mark.parametrize("cases", few_and_many(2, 150))
@pytest.mark.parametrize("dialect", DATABASES)
def test_databases_return_sparks_rows(
    spark: SparkSession, dialect: Dialect, request: pytest.FixtureRequest, cases: int
) -> None:
    server, tally = _server(request, dialect), Counter[str]()
    over_seeds(cases, lambda seed: check_case(spark, seed, dialect, server, tally))
    _require_enough_comparisons(tally)
