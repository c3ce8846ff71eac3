"""Clients and table descriptions by kind of database. A driver is imported when a database of its kind is used.

Python workers import this module, so it must not import modules that only Spark's driver needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pushdown_spark.databases.client import Address, Client, ConnectionSettings
from pushdown_spark.errors import BadSpecError

if TYPE_CHECKING:
    from pushdown_spark.contract import DatabaseKind, RemoteSourceSpec
    from pushdown_spark.databases.remote_table import RemoteTable


def connect(address: Address, settings: ConnectionSettings) -> Client:
    """Open a connection. Raises RemoteRefusedError and LostConnectionError."""
    if address.kind == "sqlite":
        from pushdown_spark.databases.sqlite import SqliteClient

        return SqliteClient(address, settings)
    if address.kind == "postgresql":
        from pushdown_spark.databases.postgresql import PostgresqlClient

        return PostgresqlClient(address, settings)
    from pushdown_spark.databases.mysql import MysqlClient

    return MysqlClient(address, settings)


def describe_table(client: Client, kind: DatabaseKind, spec: RemoteSourceSpec) -> RemoteTable:
    """Return the columns of a source. Raises RemoteRefusedError if the user can see no such table."""
    if spec.query is not None and ";" in spec.query.rstrip().rstrip(";"):
        raise BadSpecError("query: give one statement without a semicolon inside")
    query = None if spec.query is None else spec.query.rstrip().rstrip(";")
    if kind == "sqlite":
        from pushdown_spark.databases.sqlite_catalog import sqlite_table

        return sqlite_table(client, spec.table, query)
    if kind == "postgresql":
        from pushdown_spark.databases.postgresql import PostgresqlClient
        from pushdown_spark.databases.postgresql_catalog import postgresql_table

        assert isinstance(client, PostgresqlClient)
        return postgresql_table(client, spec.table, query, spec.wide_numbers)
    from pushdown_spark.databases.mysql import MysqlClient
    from pushdown_spark.databases.mysql_catalog import mysql_table

    assert isinstance(client, MysqlClient)
    return mysql_table(
        client, spec.table, query, wide_numbers=spec.wide_numbers, zero_dates_as_null=spec.zero_dates_as_null
    )
