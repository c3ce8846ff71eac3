"""Databases whose tables the tests write, and the steps of one run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import RemoteConnection, TableOutputSpec
from pushdown_spark.databases.client import DatabaseAddress, address_of
from pushdown_spark.databases.sql.identifiers import quote_ansi, quote_mysql
from pushdown_spark.databases.write.write_connection import connect_to_write
from pushdown_spark.output.database.database_output import DatabaseOutput, open_database_output

KINDS = [
    "sqlite",
    "postgresql",
    pytest.param("mariadb", marks=pytest.mark.nightly),
    pytest.param("mysql", marks=pytest.mark.nightly),
]
"""Values of the parameter of fixtures that call `open_database`. The others run nightly."""


@dataclass(frozen=True)
class Database:
    """A database without tables. `product` is `sqlite`, `postgresql`, `mariadb` or `mysql`."""

    product: str
    connection: RemoteConnection

    @property
    def address(self) -> DatabaseAddress:
        return address_of(self.connection)

    @property
    def is_mysql(self) -> bool:
        return self.product in ("mariadb", "mysql")

    def execute(self, *statements: str) -> None:
        with closing(connect_to_write(self.address)) as connection:
            for statement in statements:
                connection.rows(statement)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with closing(connect_to_write(self.address)) as connection:
            return [tuple(row) for row in connection.rows(sql)]

    def tables(self) -> list[str]:
        """Return the names of all tables and parts except the ledger, in order."""
        sql = {
            "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'",
            "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
        }.get(
            self.product,
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = database() AND table_type = 'BASE TABLE'",
        )
        with closing(connect_to_write(self.address)) as connection:
            names = [*(name for (name,) in connection.rows(sql)), *connection.parts("airflow_pushdown_")]
        return sorted(str(name) for name in names if name != "airflow_pushdown_runs")

    def clear(self) -> None:
        """Drop all tables."""
        quote = quote_mysql if self.is_mysql else quote_ansi
        names = [*self.tables(), "airflow_pushdown_runs"]
        self.execute(*(f"DROP TABLE IF EXISTS {quote(name)}" for name in names))


def open_database(product: str, request: pytest.FixtureRequest, directory: Path) -> Database:
    if product == "sqlite":
        path = directory / "shop.db"
        sqlite3.connect(path).close()
        return Database(product, RemoteConnection(kind="sqlite", database=str(path)))
    server = request.getfixturevalue(f"{product}_server")
    database = Database(product, RemoteConnection.model_validate(server.connection()))
    database.clear()
    return database


def output_of(
    spark: SparkSession, database: Database, run: str = "run", generation: str = "", **spec: object
) -> DatabaseOutput:
    """Return a new attempt of a run to write the table `t`."""
    output = TableOutputSpec.model_validate({"table": "t", "mode": "append", **spec})
    return open_database_output(spark, output, database.connection, run, generation)


def write(output: DatabaseOutput, frame: DataFrame | Callable[[], DataFrame]) -> bool:
    """Make all steps of an attempt. Return whether it wrote."""
    if not output.prepare():
        return False
    with output.transaction():
        output.stage(frame if isinstance(frame, DataFrame) else frame())
    return True
