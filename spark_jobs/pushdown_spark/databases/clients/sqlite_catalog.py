"""Columns of SQLite tables. Spark types follow SQLite's rules of type affinity."""

from __future__ import annotations

import re

import sqlglot
from pyspark.sql import types as t
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.databases.client import Client
from pushdown_spark.databases.sql.builder import cast
from pushdown_spark.databases.sql.column_operands import SQLITE_STORAGE, sqlite_affinity
from pushdown_spark.databases.sql.remote_table import (
    Dialect,
    RemoteColumn,
    RemoteTable,
    column_reference,
    parse_table_name,
)
from pushdown_spark.errors import BadSpecError, RemoteRefusedError
from pushdown_spark.expressions.types import LogicalType

_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_TYPES: dict[LogicalType, t.DataType] = {
    LogicalType.INTEGER: t.LongType(),
    LogicalType.DOUBLE: t.DoubleType(),
    LogicalType.STRING: t.StringType(),
    LogicalType.BINARY: t.BinaryType(),
}
"""Spark types by affinity."""
_DEFAULT_DECIMAL = t.DecimalType(38, 18)
UNKNOWN_COLLATION = "UNKNOWN"
"""The collation of a column that may have one which cannot be read from its declaration."""
_VIEW = "airflow_pushdown_query"


def sqlite_table(client: Client, table: str | None, query: str | None) -> RemoteTable:
    """Return the columns of a table, a view or a query. Raises RemoteRefusedError if there is no such table."""
    if query is not None:
        # SQLite reports declared types of a query's columns for views only. A temporary view changes no file.
        client.rows(f"CREATE TEMP VIEW {_VIEW} AS {query}")
        columns = _columns(client, "temp", _VIEW)
        client.rows(f"DROP VIEW temp.{_VIEW}")
        return RemoteTable(Dialect.SQLITE, "query", columns, subquery=query)
    *schema, name = parse_table_name(table or "")
    if len(schema) > 1:
        raise BadSpecError(f"table: {table!r} has too many parts for SQLite; give table or schema.table")
    columns = _columns(client, schema[0] if schema else "main", name)
    if not columns:
        raise RemoteRefusedError(f"there is no table {table} in the SQLite file; check `table`")
    return RemoteTable(Dialect.SQLITE, name, columns, schema=schema[0] if schema else None)


def _columns(client: Client, schema: str, name: str) -> tuple[RemoteColumn, ...]:
    """Return the columns of a table or view, or none if it does not exist."""
    # A key that stands for the row id has no index of its own.
    column_rows = client.rows(
        "SELECT name, lower(type), pk AND lower(type) = 'integer' "
        "AND (SELECT count(*) FROM pragma_table_xinfo(?1, ?2) WHERE pk > 0) = 1 "
        "AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1, ?2) WHERE origin = 'pk') "
        "FROM pragma_table_xinfo(?1, ?2) WHERE hidden <> 1",
        name,
        schema,
    )
    table_rows = client.rows(
        'SELECT type, strict FROM pragma_table_list WHERE "schema" = ?1 AND name = ?2 COLLATE NOCASE', schema, name
    )
    kind, strict = table_rows[0] if table_rows else ("view", 0)
    collations = _collations(client, schema, name, kind == "table")
    ((encoding,),) = client.rows("PRAGMA encoding")
    return tuple(
        _column(
            str(column),
            str(declaration),
            has_one_storage_class=bool(is_row_id) or (bool(strict) and declaration != "any"),
            collation=collations.get(str(column).lower(), collations.get("")),
            charset=str(encoding),
        )
        for column, declaration, is_row_id in column_rows
    )


def _collations(client: Client, schema: str, name: str, is_table: bool) -> dict[str, str]:
    """Return the declared collations by column in lower case. The empty name stands for all other columns."""
    definitions = client.rows("SELECT sql, type = 'table' AND name = ?1 FROM sqlite_schema WHERE sql IS NOT NULL", name)
    if not any("collate" in str(text).lower() for text, _ in definitions):
        return {}
    own = [str(text) for text, is_own in definitions if is_own]
    if not is_table or not own or schema != "main":
        return {"": UNKNOWN_COLLATION}
    try:
        tree = sqlglot.parse_one(own[0], dialect="sqlite")
    except SqlglotError:
        return {"": UNKNOWN_COLLATION}
    if tree.find(exp.ColumnDef) is None:
        return {"": UNKNOWN_COLLATION}
    return {
        column.name.lower(): constraint.this.name.upper() or UNKNOWN_COLLATION
        for column in tree.find_all(exp.ColumnDef)
        for constraint in column.find_all(exp.CollateColumnConstraint)
    }


def _column(
    name: str, declaration: str, *, has_one_storage_class: bool, collation: str | None, charset: str
) -> RemoteColumn:
    spark_type, storage = _spark_type(declaration)
    rendering: exp.Expr | None = cast(column_reference(name), storage, Dialect.SQLITE)
    if isinstance(spark_type, t.BooleanType):
        rendering = exp.NEQ(this=rendering, expression=exp.Literal.number(0))
    elif has_one_storage_class and not isinstance(spark_type, t.DecimalType):
        rendering = None
    return RemoteColumn(
        name=name,
        remote_type=declaration,
        spark_type=spark_type,
        charset=charset,
        collation=collation,
        has_one_storage_class=has_one_storage_class,
        rendering=rendering,
    )


def _spark_type(declaration: str) -> tuple[t.DataType, str]:
    """Return the Spark type for a declared type, and the storage class to which values are cast."""
    if "bool" in declaration:
        return t.BooleanType(), "INTEGER"
    if declaration == "date":
        return t.DateType(), "TEXT"
    if declaration.startswith(("datetime", "timestamp")):
        return t.TimestampNTZType(), "TEXT"
    if declaration.strip() and (kind := sqlite_affinity(declaration)) is not None:
        return _TYPES[kind], SQLITE_STORAGE[kind]
    return _decimal(declaration) if declaration.startswith(("decimal", "numeric")) else t.StringType(), "TEXT"


def _decimal(declaration: str) -> t.DecimalType:
    match = _DECIMAL.match(declaration)
    if match is None:
        return _DEFAULT_DECIMAL
    precision, scale = int(match.group(1)), int(match.group(2) or 0)
    is_valid = precision > 0 and scale <= precision
    return t.DecimalType(min(precision, 38), min(scale, 38)) if is_valid else _DEFAULT_DECIMAL
