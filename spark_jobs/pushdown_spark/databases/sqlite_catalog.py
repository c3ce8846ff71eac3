"""The columns of a SQLite table, by the rules under which SQLite gives declared types an affinity."""

from __future__ import annotations

import re

import sqlglot
from pyspark.sql import types as t
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.databases.client import Client
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.names import table_name
from pushdown_spark.databases.render import cast
from pushdown_spark.errors import BadSpecError, RemoteRefusedError

_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_TIMES = ("datetime", "timestamp")
_UNKNOWN_COLLATION = "UNKNOWN"
_VIEW = "airflow_pushdown_query"


def sqlite_table(client: Client, table: str | None, query: str | None) -> RemoteTable:
    """A table, a view or a query of the file. Raises RemoteRefusedError where there is none of that name."""
    if query is not None:
        # Only a view tells of what types a query's columns were declared; temporary ones touch no file.
        client.rows(f"CREATE TEMP VIEW {_VIEW} AS {query}")
        columns = _columns(client, "temp", _VIEW)
        client.rows(f"DROP VIEW temp.{_VIEW}")
        return RemoteTable(Dialect.SQLITE, "query", columns, subquery=query)
    *schema, name = table_name(table or "")
    if len(schema) > 1:
        raise BadSpecError(f"table: {table!r} has too many parts for SQLite, whose tables are table or schema.table")
    place = schema[0] if schema else "main"
    columns = _columns(client, place, name)
    if not columns:
        raise RemoteRefusedError(f"there is no table {table} in the SQLite file; check `table`")
    return RemoteTable(Dialect.SQLITE, name, columns, schema=schema[0] if schema else None)


def _columns(client: Client, schema: str, name: str) -> tuple[RemoteColumn, ...]:
    found = client.rows(
        'SELECT name, lower(type), "notnull", pk, (SELECT count(*) FROM pragma_table_xinfo(?1, ?2) WHERE pk > 0) '
        "FROM pragma_table_xinfo(?1, ?2) WHERE hidden <> 1",
        name,
        schema,
    )
    listed = client.rows(
        'SELECT type, wr, strict FROM pragma_table_list WHERE "schema" = ?1 AND name = ?2', schema, name
    )
    kind, without_rowid, strict = listed[0] if listed else ("view", 0, 0)
    collations = _collations(client, schema, name, kind == "table")
    ((encoding,),) = client.rows("PRAGMA encoding")
    return tuple(
        _column(
            str(column),
            str(declared),
            nullable=not not_null,
            uniform=bool(strict) or (declared == "integer" and bool(pk) and keys == 1 and not without_rowid),
            collation=collations.get(str(column).lower(), collations.get("")),
            charset=str(encoding),
        )
        for column, declared, not_null, pk, keys in found
    )


def _collations(client: Client, schema: str, name: str, is_table: bool) -> dict[str, str]:
    """Collations by column, and under the empty name that of all others, as the table's own definition tells them."""
    texts = [str(text) for (text,) in client.rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")]
    if not any("collate" in text.lower() for text in texts):
        return {}
    if not is_table:
        return {"": _UNKNOWN_COLLATION}
    own = [
        str(text) for (text,) in client.rows("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1", name)
    ]
    try:
        tree = sqlglot.parse_one(own[0], dialect="sqlite") if own and schema == "main" else None
    except SqlglotError:
        tree = None
    if tree is None or tree.find(exp.ColumnDef) is None:
        return {"": _UNKNOWN_COLLATION}
    return {
        column.name.lower(): constraint.this.name.upper() or _UNKNOWN_COLLATION
        for column in tree.find_all(exp.ColumnDef)
        for constraint in column.find_all(exp.CollateColumnConstraint)
    }


def _column(
    name: str, declared: str, *, nullable: bool, uniform: bool, collation: str | None, charset: str
) -> RemoteColumn:
    spark_type, storage = _types(declared)
    reference = exp.Column(this=exp.to_identifier(name, quoted=True))
    converted = cast(reference, storage, Dialect.SQLITE)
    rendering: exp.Expr | None = converted
    if isinstance(spark_type, t.BooleanType):
        rendering = exp.NEQ(this=converted, expression=exp.Literal.number(0))
    elif uniform and not isinstance(spark_type, t.DecimalType):
        rendering = None
    return RemoteColumn(
        name,
        declared,
        spark_type,
        nullable=nullable,
        charset=charset,
        collation=collation,
        uniform=uniform,
        rendering=rendering,
    )


def _types(declared: str) -> tuple[t.DataType, str]:
    """Spark's type for a declared one, and the storage class that values of it are read in."""
    if "bool" in declared:
        return t.BooleanType(), "INTEGER"
    if declared == "date":
        return t.DateType(), "TEXT"
    if declared.startswith(_TIMES):
        return t.TimestampNTZType(), "TEXT"
    if "int" in declared:
        return t.LongType(), "INTEGER"
    if any(word in declared for word in ("char", "clob", "text")):
        return t.StringType(), "TEXT"
    if "blob" in declared:
        return t.BinaryType(), "BLOB"
    if any(word in declared for word in ("real", "floa", "doub")):
        return t.DoubleType(), "REAL"
    if declared.startswith(("decimal", "numeric")):
        return _decimal(declared), "TEXT"
    return t.StringType(), "TEXT"


def _decimal(declared: str) -> t.DecimalType:
    found = _DECIMAL.match(declared)
    if found is None:
        return t.DecimalType(38, 18)
    precision, scale = int(found.group(1)), int(found.group(2) or 0)
    return (
        t.DecimalType(min(precision, 38), min(scale, 38))
        if precision > 0 and scale <= precision
        else t.DecimalType(38, 18)
    )
