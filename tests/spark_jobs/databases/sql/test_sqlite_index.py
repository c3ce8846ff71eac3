"""Conditions on SQLite's integer columns use an index, and lose no rows with values of other types."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.sql import types as t

from pushdown_spark.contract import Exactness
from pushdown_spark.databases.sql.builder import to_sql
from pushdown_spark.databases.sql.predicate_pushdown import SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.parser import parse_predicate

VALUES = [
    *range(-6, 7),
    *(n / 4 for n in range(-24, 25)),
    *("", "3", " 3", "3x", "x3", "-4.75", "9999999999999999999999", "'"),
    *(b"", b"3", b"\xff", None),
    *(2**53, -(2**53), 2**63 - 1, -(2**63), 9e999, -9e999, 1e300),
]
TABLE = RemoteTable(
    Dialect.SQLITE,
    "t",
    (RemoteColumn(name="n", remote_type="integer", spark_type=t.LongType(), has_one_storage_class=False),),
)
PREDICATES = [
    *(f"n {op} {value}" for op in ("=", "<", "<=", ">", ">=") for value in (-5, -1, 0, 1, 3, 4)),
    *("n IN (3, 4)", "n IN (-5, 0, 5)", "n IN (0, NULL)", "n BETWEEN -1 AND 2", "n > 2.5", "n < 2.5", "n <= -2.5"),
    *("n = 9007199254740993", "n < 9223372036854775807", "n = 3 OR n < -4", "n = 3 AND n > 1", "n <=> 3"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    """Create an indexed integer column with values of every storage class."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (n integer)")
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in VALUES])
        connection.execute("CREATE INDEX by_n ON t (n)")
        yield connection


def sent(predicate: str) -> str:
    tree = parse_predicate(predicate)
    (conjunct, *rest) = push_predicate(conjuncts(tree), TABLE, SparkRules(is_trusted=True)).conjuncts
    assert conjunct.artifact is not None, conjunct.reason
    assert {each.exactness for each in (conjunct, *rest)} == {Exactness.EXACT}
    return " AND ".join(f"({to_sql(each.artifact, Dialect.SQLITE)})" for each in (conjunct, *rest) if each.artifact)


def matching_rows(database: sqlite3.Connection, condition: str) -> list[int]:
    return sorted(row[0] for row in database.execute(f"SELECT rowid FROM t WHERE {condition}"))


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("turned", [False, True])
def test_conditions_with_index_hints_keep_the_same_rows(
    predicate: str, turned: bool, database: sqlite3.Connection
) -> None:
    whole = f"NOT ({predicate})" if turned else predicate
    plain = whole.replace("<=>", "IS").replace("n ", "CAST(n AS INTEGER) ")
    assert matching_rows(database, sent(whole)) == matching_rows(database, plain)


@pytest.mark.parametrize("predicate", ["n = 3", "n > 4", "n <= -5", "n IN (3, 4)", "n BETWEEN 1 AND 2"])
def test_sqlite_uses_an_index_for_the_hint(predicate: str, database: sqlite3.Connection) -> None:
    plan = [row[-1] for row in database.execute(f"EXPLAIN QUERY PLAN SELECT rowid FROM t WHERE {sent(predicate)}")]
    assert any(step.startswith("SEARCH t USING") for step in plan)
    assert not any(step.startswith("SCAN") for step in plan)


def test_columns_with_one_storage_class_need_no_cast(database: sqlite3.Connection) -> None:
    column = RemoteColumn(name="n", remote_type="integer", spark_type=t.LongType(), has_one_storage_class=True)
    (conjunct,) = push_predicate(
        conjuncts(parse_predicate("n = 3")), RemoteTable(Dialect.SQLITE, "t", (column,)), SparkRules(is_trusted=True)
    ).conjuncts
    assert conjunct.artifact is not None
    assert to_sql(conjunct.artifact, Dialect.SQLITE) == '"n" = 3'
