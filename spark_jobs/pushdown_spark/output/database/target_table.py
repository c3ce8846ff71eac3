"""The table that takes the rows of a job: where it is, whether a run can write to it, and its columns."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass

from pushdown_spark.contract import DatabaseKind, RemoteSourceSpec
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, connect, describe_table
from pushdown_spark.databases.sql.identifiers import quote_ansi
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable, parse_table_name
from pushdown_spark.databases.write.write_connection import WriteConnection
from pushdown_spark.databases.write.write_dialect import WRITE_DIALECTS, WriteDialect
from pushdown_spark.errors import BadSpecError

OWN_PREFIX = "airflow_pushdown_"
"""How the names of the ledger and of staging tables begin."""
_TABLE_KINDS = ("r", "p", "BASE TABLE", "table")
"""Kinds of relations that are tables: plain and partitioned ones in PostgreSQL, then those of MySQL and SQLite."""


@dataclass(frozen=True)
class TargetTable:
    """The qualified name of a table."""

    dialect: Dialect
    schema: str
    name: str

    @property
    def sql(self) -> str:
        """The quoted name."""
        return self.sibling(self.name)

    @property
    def display_name(self) -> str:
        """The name for reports."""
        return self.name if self.dialect is Dialect.SQLITE else f"{self.schema}.{self.name}"

    @property
    def key(self) -> str:
        """The name in one spelling for each table. SQLite ignores case."""
        return self.name.lower() if self.dialect is Dialect.SQLITE else self.name

    @property
    def lock(self) -> str:
        """The name of the lock for transactions that change the table. MySQL allows 64 characters."""
        digest = hashlib.sha256(f"{self.schema}\0{self.name}".encode()).hexdigest()
        return f"airflow_pushdown {digest[:40]}"

    @property
    def has_parts(self) -> bool:
        """Whether each attempt of a task loads its own table."""
        return self.dialect is not Dialect.POSTGRES

    def sibling(self, name: str) -> str:
        """Return the quoted name of another table in the same schema."""
        return f"{self.quote(self.schema)}.{self.quote(name)}"

    def source_name(self, name: str) -> str:
        """Return the name of another table in the same schema, as a database source has it."""
        parts = (name,) if self.dialect is Dialect.SQLITE else (self.schema, name)
        return ".".join(map(quote_ansi, parts))

    @property
    def statements(self) -> WriteDialect:
        """The statements and types of the database."""
        return WRITE_DIALECTS[self.dialect]

    def quote(self, name: str) -> str:
        """Return a quoted identifier."""
        return self.statements.quote(name)


def find_target(connection: WriteConnection, table: str) -> TargetTable:
    """Return the table that a name means, whether or not it exists. Raises BadSpecError for a name that means none."""
    *qualifiers, name = parse_table_name(table)
    if len(qualifiers) > 1:
        raise BadSpecError(f"output_table: {table!r} has too many parts; give table or schema.table")
    if name.lower().startswith(OWN_PREFIX):
        raise BadSpecError(f"output_table: {table!r} has a name for the ledger and staging tables; use another name")
    dialect, schema, name = connection.locate(qualifiers[0] if qualifiers else None, name)
    if "%" in schema:
        # Drivers would take it for a parameter.
        raise BadSpecError(f"output_table: the schema {schema!r} has a percent sign; use another schema")
    return TargetTable(Dialect(dialect), schema, name)


def exists(connection: WriteConnection, target: TargetTable) -> bool:
    """Return whether the table exists. Raises BadSpecError for a view or a table without transactions."""
    for kind, engine, _ in connection.rows(target.statements.relation, target.schema, target.name):
        if kind not in _TABLE_KINDS:
            raise BadSpecError(f"output_table: {target.display_name} is not a table; give the name of a table")
        if engine and str(engine).lower() != "innodb":
            raise BadSpecError(
                f"output_table: {target.display_name} uses {engine}, which has no transactions; convert it to InnoDB"
            )
        return True
    return False


def comment_of(connection: WriteConnection, target: TargetTable) -> str:
    """Return the comment of a MySQL table, or an empty string if there is no such table."""
    rows = connection.rows(target.statements.relation, target.schema, target.name)
    return str(rows[0][2]) if rows else ""


def generated_columns(connection: WriteConnection, target: TargetTable) -> frozenset[str]:
    """Return the columns that the database computes, which no run can write."""
    rows = connection.rows(target.statements.generated_columns, target.schema, target.name)
    return frozenset(str(name) for (name,) in rows)


def columns_without_null(connection: WriteConnection, target: TargetTable) -> frozenset[str]:
    """Return the columns in which the database would refuse NULL or replace it with another value."""
    rows = connection.rows(target.statements.columns_without_null, target.schema, target.name)
    return frozenset(str(name) for (name,) in rows)


def describe_sibling(address: DatabaseAddress, target: TargetTable, name: str) -> RemoteTable:
    """Return the columns of a table in the schema of the target."""
    spec = RemoteSourceSpec(table=target.source_name(name))
    with closing(connect(address, ConnectionSettings(has_few_rows=True))) as client:
        return describe_table(client, DatabaseKind(address.kind), spec)
