"""Ask a database for the columns of a table."""

from __future__ import annotations

from pushdown_spark.contract import DatabaseKind, RemoteSourceSpec
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.sqlite_catalog import sqlite_table
from pushdown_spark.errors import BadSpecError


def described(client: Client, kind: DatabaseKind, spec: RemoteSourceSpec) -> RemoteTable:
    """The table of a source. Raises RemoteRefusedError where the database has none of that name for this user."""
    if spec.query is not None and ";" in spec.query.rstrip().rstrip(";"):
        raise BadSpecError("query: give one statement; this one has a semicolon inside")
    query = None if spec.query is None else spec.query.rstrip().rstrip(";")
    if kind is DatabaseKind.SQLITE:
        return sqlite_table(client, spec.table, query)
    if kind is DatabaseKind.POSTGRESQL:
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
