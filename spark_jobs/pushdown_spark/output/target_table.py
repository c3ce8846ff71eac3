"""The table that takes the rows of a job: where it is, whether a run can write to it, and its columns."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass

from pushdown_spark.contract import DatabaseKind, RemoteSourceSpec
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, connect, describe_table
from pushdown_spark.databases.identifiers import quote_ansi, quote_mysql
from pushdown_spark.databases.remote_table import Dialect, RemoteTable, parse_table_name
from pushdown_spark.databases.write_connection import WriteConnection
from pushdown_spark.errors import BadSpecError

_POSTGRESQL_TABLE = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_KINDS = {
    Dialect.POSTGRES: """
SELECT c.relkind::text, '', '' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
""",
    Dialect.MYSQL: """
SELECT table_type, coalesce(engine, ''), coalesce(table_comment, '') FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s
""",
    Dialect.SQLITE: "SELECT type, '', '' FROM pragma_table_list WHERE \"schema\" = %s AND name = %s",
}
_TABLE_KINDS = ("r", "p", "BASE TABLE", "table")
"""Kinds of relations that are tables: plain and partitioned ones in PostgreSQL, then those of MySQL and SQLite."""
_GENERATED_COLUMNS = {
    Dialect.POSTGRES: """
SELECT attname FROM pg_catalog.pg_attribute WHERE attgenerated <> '' AND attrelid = (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s)
""",
    Dialect.MYSQL: """
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND generation_expression <> ''
""",
    Dialect.SQLITE: "SELECT name FROM pragma_table_xinfo(?2, ?1) WHERE hidden IN (2, 3)",
}


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
    def lock(self) -> str:
        """The name of the lock for transactions that change the table. MySQL allows 64 characters."""
        digest = hashlib.sha256(f"{self.schema}\0{self.name}".encode()).hexdigest()
        return f"airflow_pushdown {digest[:40]}"

    def sibling(self, name: str) -> str:
        """Return the quoted name of another table in the same schema."""
        return f"{self.quote(self.schema)}.{self.quote(name)}"

    def source_name(self, name: str) -> str:
        """Return the name of another table in the same schema, as a database source has it."""
        parts = (name,) if self.dialect is Dialect.SQLITE else (self.schema, name)
        return ".".join(map(quote_ansi, parts))

    def quote(self, name: str) -> str:
        """Return a quoted identifier."""
        return quote_mysql(name) if self.dialect.is_mysql else quote_ansi(name)

    @property
    def sql_family(self) -> Dialect:
        """The dialect, with MySQL for MariaDB: both have the same statements here."""
        return Dialect.MYSQL if self.dialect.is_mysql else self.dialect


def find_target(connection: WriteConnection, address: DatabaseAddress, table: str) -> TargetTable:
    """Return the table that a name means, whether or not it exists. Raises BadSpecError for a name that means none."""
    *qualifiers, name = parse_table_name(table)
    if len(qualifiers) > 1:
        raise BadSpecError(f"output_table: {table!r} has too many parts; give table or schema.table")
    schema = qualifiers[0] if qualifiers else None
    if address.kind == DatabaseKind.SQLITE:
        if schema not in (None, "main"):
            raise BadSpecError(f"output_table: {table!r}: a SQLite file has only the schema main")
        return TargetTable(Dialect.SQLITE, "main", name)
    if address.kind == DatabaseKind.POSTGRESQL:
        return _postgresql_target(connection, schema, name)
    ((version, database),) = connection.rows("SELECT version(), database()")
    if schema is None and database is None:
        raise BadSpecError(f"output_table: {table!r}: give database.table, or set the schema of the connection")
    dialect = Dialect.MARIADB if "mariadb" in str(version).lower() else Dialect.MYSQL
    return _checked(TargetTable(dialect, str(database if schema is None else schema), name))


def _postgresql_target(connection: WriteConnection, schema: str | None, name: str) -> TargetTable:
    quoted = ".".join(quote_ansi(part) for part in (schema, name) if part is not None)
    for found_schema, found_name in connection.rows(_POSTGRESQL_TABLE, quoted):
        return _checked(TargetTable(Dialect.POSTGRES, str(found_schema), str(found_name)))
    if schema is None:
        ((current,),) = connection.rows("SELECT current_schema()")
        if current is None:
            raise BadSpecError(f"output_table: {name!r}: the search path has no schema; give schema.table")
        schema = str(current)
    return _checked(TargetTable(Dialect.POSTGRES, schema, name))


def _checked(target: TargetTable) -> TargetTable:
    # Drivers would take it for a parameter.
    if "%" in target.schema:
        raise BadSpecError(f"output_table: the schema {target.schema!r} has a percent sign; use another schema")
    return target


def exists(connection: WriteConnection, target: TargetTable) -> bool:
    """Return whether the table exists. Raises BadSpecError for a view or a table without transactions."""
    for kind, engine, _ in connection.rows(_KINDS[target.sql_family], target.schema, target.name):
        if kind not in _TABLE_KINDS:
            raise BadSpecError(f"output_table: {target.display_name} is not a table; give the name of a table")
        if engine and str(engine).lower() != "innodb":
            raise BadSpecError(
                f"output_table: {target.display_name} uses {engine}, which has no transactions; convert it to InnoDB"
            )
        return True
    return False


def comment_of(connection: WriteConnection, target: TargetTable) -> str:
    """Return the comment of a MySQL table, empty if there is no such table."""
    rows = connection.rows(_KINDS[Dialect.MYSQL], target.schema, target.name)
    return str(rows[0][2]) if rows else ""


def generated_columns(connection: WriteConnection, target: TargetTable) -> frozenset[str]:
    """Return the columns that the database computes, which no run can write."""
    rows = connection.rows(_GENERATED_COLUMNS[target.sql_family], target.schema, target.name)
    return frozenset(str(name) for (name,) in rows)


def describe_sibling(address: DatabaseAddress, target: TargetTable, name: str) -> RemoteTable:
    """Return the columns of a table in the schema of the target."""
    spec = RemoteSourceSpec(table=target.source_name(name))
    with closing(connect(address, ConnectionSettings(few=True))) as client:
        return describe_table(client, DatabaseKind(address.kind), spec)
