"""Scans of remote tables on the databases of the tests."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

KINDS = ("postgresql", "mariadb", "mysql", "sqlite")
SERVERS = ("postgresql", "mariadb", "mysql")
MYSQLS = ("mariadb", "mysql")
Connection = dict[str, object]
ENCRYPTED = {
    "postgresql": "SELECT ssl AS used FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mariadb": "SELECT variable_value > '' AS used FROM information_schema.session_status "
    "WHERE variable_name = 'ssl_cipher'",
    "mysql": "SELECT variable_value > '' AS used FROM performance_schema.session_status "
    "WHERE variable_name = 'Ssl_cipher'",
}
"""Whether a connection has TLS, as the server sees it."""


def numbers(quote: str = '"') -> tuple[str, ...]:
    """Create a table of 1,000 rows: `k` with NULLs, `g` of 10 groups, string `s`."""
    rows = ", ".join(f"({k if k % 50 else 'NULL'}, {k % 10}, 's{k}')" for k in range(1000))
    return (
        f"DROP TABLE IF EXISTS {quote}numbers{quote}",
        f"CREATE TABLE {quote}numbers{quote} (k int, g int, s varchar(10))",
        f"INSERT INTO {quote}numbers{quote} VALUES {rows}",
    )


def quote_of(kind: str) -> str:
    """Return the quote character for names in a kind of database."""
    return "`" if kind in MYSQLS else '"'


def scanner(spark: SparkSession, connection: Connection, **table: object) -> Callable[..., PushdownResult]:
    """Return a function that scans one remote table."""
    session = PushdownSession(spark)
    session.add_remote("source", connection, **table)
    return lambda **query: session.scan("source", **query)


def rows_of(result: PushdownResult) -> list[dict[str, object]]:
    """Return the rows of a result after running it."""
    return result.run(lambda frame: frame.toArrow().to_pylist())


def count(result: PushdownResult) -> int:
    return result.run(DataFrame.count)
