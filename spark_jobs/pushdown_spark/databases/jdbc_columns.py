"""Columns over Spark's JDBC source, with the values that they have over Arrow.

If Spark or a driver would deliver another value, the statement selects a string or a simpler number, and Spark converts
it to the column's type.
"""

from __future__ import annotations

from dataclasses import replace

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
_SENT_AS_TEXT = (t.DecimalType, t.DateType, t.TimestampNTZType, t.TimestampType)
"""Types whose values arrive as strings that Spark parses and checks, unless the bare column is selected."""
_MAX_SHOWN_CHARACTERS = 60


def jdbc_table(table: RemoteTable) -> RemoteTable:
    """Return the table with the columns that JDBC can read, and their SELECT expressions for JDBC."""
    if table.dialect is Dialect.POSTGRES:
        readable = [column for column in table.columns if not isinstance(column.spark_type, t.ArrayType)]
        columns = [replace(column, rendering=_from_postgresql(column)) for column in readable]
    else:
        columns = [replace(column, rendering=_from_mysql(column, table)) for column in table.columns]
    return replace(table, columns=tuple(columns))


def decode_sql(generated_name: str, column: RemoteColumn) -> str:
    """Return Spark's SQL for the value of a column of `jdbc_table` that arrived under a generated name.

    Building a Column would take ten calls to the JVM. The cast also removes the metadata of char(n) columns.
    """
    is_text = column.rendering is not None and isinstance(column.spark_type, _SENT_AS_TEXT)
    value = _checked(generated_name, column) if is_text else generated_name
    return f"CAST({value} AS {sql_type(column.spark_type)})"


def _from_postgresql(column: RemoteColumn) -> exp.Expr | None:
    reference, spark_type = column.reference, column.spark_type
    if isinstance(spark_type, t.DecimalType):
        is_short = column.remote_type.startswith("numeric(") and spark_type.precision <= _LONG_DIGITS
        return None if is_short else _text(reference)
    if isinstance(spark_type, t.DateType | t.TimestampNTZType):
        return _text(reference)
    if isinstance(spark_type, t.TimestampType):
        return _text(exp.AtTimeZone(this=reference, zone=exp.Literal.string("UTC")))
    return column.rendering


def _text(node: exp.Expr) -> exp.Expr:
    return cast(node, "text", Dialect.POSTGRES)


def _from_mysql(column: RemoteColumn, table: RemoteTable) -> exp.Expr | None:
    spark_type, base_type = column.spark_type, column.remote_type.partition("(")[0].partition(" ")[0]
    selected = column.reference if column.rendering is None else column.rendering
    if base_type in _UNCONVERTED_MYSQL_TYPES and "unsigned" not in column.remote_type:
        is_wide = base_type == "decimal" and _digits(column) > _MAX_DECIMAL_DIGITS
        return call("CONCAT", selected) if is_wide else column.rendering
    if isinstance(spark_type, _SENT_AS_TEXT):
        return call("CONCAT", selected)
    if isinstance(spark_type, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        # Drivers would deliver tinyint(1) as a boolean and year as a date.
        return cast(selected, "SIGNED", Dialect.MYSQL)
    if isinstance(spark_type, t.StringType) and (base_type not in _MYSQL_STRING_TYPES or table.subquery is not None):
        # Spark pads columns that a driver reports as CHAR. These include enums, and possibly the columns of a query.
        return call("CONCAT", selected)
    return column.rendering


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
