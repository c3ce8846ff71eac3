"""The databases of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from databases import Server
from every_type import sqlite_file
from jdbc_drivers import KINDS, OWN_DRIVER
from pyspark.sql import SparkSession
from remote_scans import Connection

from pushdown_spark.databases.read.jdbc import DRIVERS
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.runtime.jvm_gateway import has_class


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server | None:
    """Return the server of a test's database, or None for SQLite. Select the JDBC driver that reads it."""
    kind = str(request.node.callspec.params["kind"])
    if kind == "sqlite":
        return None
    if kind == KINDS[-1]:
        monkeypatch.setitem(DRIVERS, Dialect.MYSQL, (OWN_DRIVER,))
    database: Server = request.getfixturevalue(f"{kind.partition(' ')[0]}_server")
    return database


@pytest.fixture(scope="module")
def drivers(spark: SparkSession) -> None:
    """Skip the test if a driver is not on Spark's class path."""
    if missing := [name for names in DRIVERS.values() for name in names if not has_class(spark, name)]:
        pytest.skip(f"{', '.join(missing)} not on Spark's class path: make nightly submits the drivers")


@pytest.fixture
def fill(server: Server | None, tmp_path: Path) -> Callable[..., Connection]:
    """Return a function that runs statements in a test's database and returns its connection."""

    def run_statements(*statements: str) -> Connection:
        if server is None:
            return sqlite_file(tmp_path, *statements)
        server.execute(*statements)
        return server.connection()

    return run_statements
