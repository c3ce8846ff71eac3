"""Columns over Spark's JDBC source, with the values that they have over Arrow.

If Spark or a driver would deliver another value, the statement selects a string or a simpler number, and Spark converts
it to the column's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.sql_builder import call, cast
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.projection.paths import sql_text, sql_type

_LONG_DIGITS, _MAX_DECIMAL_DIGITS = 18, 38
_DATE_LENGTH = 10
_UNCONVERTED_MYSQL_TYPES = ("smallint", "mediumint", "int", "bigint", "double", "decimal")
"""Types of MySQL and MariaDB that drivers and Spark read without a conversion, unless they are unsigned."""
_MYSQL_STRING_TYPES = ("varchar", "text", "tinytext", "mediumtext", "longtext")
_MAX_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class JdbcColumn:
    """The SELECT expression of a column, None for the bare column, and whether it is a string to parse and check."""

    rendering: exp.Expr | None
    as_text: bool = False


def jdbc_columns(table: RemoteTable) -> dict[str, JdbcColumn]:
    """Return the columns that JDBC can read, by name."""
    columns = ((column.name, _jdbc_column(column, table)) for column in table.columns)
    return {name: column for name, column in columns if column is not None}


def jdbc_table(table: RemoteTable, jdbc_columns: Mapping[str, JdbcColumn]) -> RemoteTable:
    """Return the table with the SELECT expressions for JDBC."""
    columns = [
        replace(column, rendering=jdbc_columns[column.name].rendering) if column.name in jdbc_columns else column
        for column in table.columns
    ]
    return replace(table, columns=tuple(columns))


def decode_sql(generated_name: str, column: RemoteColumn, jdbc_column: JdbcColumn) -> str:
    """Return Spark's SQL for the value of a column that arrived under a generated name.

    Building a Column would take ten calls to the JVM. The cast also removes the metadata of char(n) columns.
    """
    value = _checked(generated_name, column) if jdbc_column.as_text else generated_name
    return f"CAST({value} AS {sql_type(column.spark_type)})"


def _jdbc_column(column: RemoteColumn, table: RemoteTable) -> JdbcColumn | None:
    reference = column.reference
    if table.dialect is Dialect.POSTGRES:
        return _from_postgresql(column, reference)
    return _from_mysql(column, reference, table) if table.dialect.is_mysql else None


def _from_postgresql(column: RemoteColumn, reference: exp.Column) -> JdbcColumn | None:
    kind = column.spark_type
    if isinstance(kind, t.ArrayType):
        return None
    if isinstance(kind, t.DecimalType):
        if column.remote_type.startswith("numeric(") and kind.precision <= _LONG_DIGITS:
            return JdbcColumn(None)
        return JdbcColumn(_text(reference), as_text=True)
    if isinstance(kind, t.DateType | t.TimestampNTZType):
        return JdbcColumn(_text(reference), as_text=True)
    if isinstance(kind, t.TimestampType):
        in_utc = exp.AtTimeZone(this=reference, zone=exp.Literal.string("UTC"))
        return JdbcColumn(_text(in_utc), as_text=True)
    return JdbcColumn(column.rendering)


def _text(node: exp.Expr) -> exp.Expr:
    return cast(node, "text", Dialect.POSTGRES)


def _from_mysql(column: RemoteColumn, reference: exp.Column, table: RemoteTable) -> JdbcColumn:
    spark_type, base_type = column.spark_type, column.remote_type.partition("(")[0].partition(" ")[0]
    is_signed = "unsigned" not in column.remote_type
    selected = reference if column.rendering is None else column.rendering
    if base_type in _UNCONVERTED_MYSQL_TYPES and is_signed:
        is_wide = base_type == "decimal" and _digits(column) > _MAX_DECIMAL_DIGITS
        return JdbcColumn(call("CONCAT", reference), as_text=True) if is_wide else JdbcColumn(column.rendering)
    if isinstance(spark_type, t.DecimalType | t.DateType | t.TimestampNTZType | t.TimestampType):
        return JdbcColumn(call("CONCAT", selected), as_text=True)
    if isinstance(spark_type, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        # Drivers would deliver tinyint(1) as a boolean and year as a date.
        return JdbcColumn(cast(selected, "SIGNED", Dialect.MYSQL))
    if isinstance(spark_type, t.StringType) and (base_type not in _MYSQL_STRING_TYPES or table.subquery is not None):
        # Spark pads columns that a driver reports as CHAR. These include enums, and possibly the columns of a query.
        return JdbcColumn(call("CONCAT", selected))
    return JdbcColumn(column.rendering)


def _digits(column: RemoteColumn) -> int:
    return int(column.remote_type.partition("(")[2].partition(",")[0] or 0)


def _checked(text: str, column: RemoteColumn) -> str:
    """Return SQL for the value of a string. It raises, naming the column, if the value does not fit the type."""
    spark_type = column.spark_type
    with_zone = f"concat({text}, 'Z')" if isinstance(spark_type, t.TimestampType) else text
    value = f"CASE WHEN {_is_well_formed(text, spark_type)} THEN try_cast({with_zone} AS {sql_type(spark_type)}) END"
    return f"coalesce({value}, CASE WHEN {text} IS NOT NULL THEN {_raise_conflict(text, column)} END)"


def _is_well_formed(text: str, kind: t.DataType) -> str:
    """Return the SQL condition under which Spark's cast reads a string correctly. It ignores text after a date."""
    if isinstance(kind, t.DateType):
        return f"length({text}) = {_DATE_LENGTH} AND {text} >= '0001'"
    if isinstance(kind, t.TimestampNTZType | t.TimestampType):
        return f"substring({text}, 5, 1) = '-' AND {text} >= '0001' AND NOT endswith({text}, 'C')"
    return f"{text} IS NOT NULL"


def _raise_conflict(text: str, column: RemoteColumn) -> str:
    """Return SQL that raises SchemaConflictError in the format of Python workers, which the driver parses."""
    name = f"{SchemaConflictError.__module__}.{SchemaConflictError.__name__}"
    before = f"\n{name}: column {column.name} ({column.remote_type}) holds '"
    after = (
        f"', which Spark cannot represent as {column.spark_type.simpleString()}; leave the column out, or give a "
        "`query` that converts it\n"
    )
    return f"raise_error(concat({sql_text(before)}, substring({text}, 1, {_MAX_SHOWN_CHARACTERS}), {sql_text(after)}))"
