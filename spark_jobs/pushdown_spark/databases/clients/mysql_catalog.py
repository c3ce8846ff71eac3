"""Columns of MySQL and MariaDB tables: their Spark types, and the SELECT expressions that deliver them."""

from __future__ import annotations

import re

from pymysql.constants import FIELD_TYPE, FLAG
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import WideNumbers
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.clients.mysql import MysqlClient, ResultColumn
from pushdown_spark.databases.sql.column_operands import UNKNOWN_CHARSET, null_if_zero_date
from pushdown_spark.databases.sql.remote_table import (
    Dialect,
    RemoteColumn,
    RemoteTable,
    column_reference,
    parse_table_name,
)
from pushdown_spark.errors import BadSpecError, RemoteRefusedError
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

_COLUMNS = """
SELECT column_name, if(data_type IN ('enum', 'set'), column_type, lower(column_type)), character_set_name,
collation_name
FROM information_schema.columns WHERE table_schema = coalesce(%s, database()) AND table_name = %s
AND coalesce(extra, '') NOT LIKE '%%INVISIBLE%%' ORDER BY ordinal_position
"""
"""Without the columns that `SELECT *` leaves out, and Spark with it."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_BITS = re.compile(r"bit\((\d+)\)")
_INTEGER_TYPES: dict[str, tuple[t.DataType, t.DataType]] = {
    "tinyint": (t.ByteType(), t.ShortType()),
    "smallint": (t.ShortType(), t.IntegerType()),
    "mediumint": (t.IntegerType(), t.IntegerType()),
    "int": (t.IntegerType(), t.LongType()),
    "bigint": (t.LongType(), t.DecimalType(20, 0)),
}
"""The smallest Spark types that hold all signed and all unsigned values."""
_SIMPLE_TYPES: dict[str, t.DataType] = {
    "double": t.DoubleType(),
    "year": t.IntegerType(),
    "date": t.DateType(),
    "datetime": t.TimestampNTZType(),
    "timestamp": t.TimestampType(),
    **dict.fromkeys(("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"), t.BinaryType()),
}
_GEOMETRY = ("geometry", "point", "linestring", "polygon", "multi", "geom")
_TYPE_NAMES = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
}
_BINARY_COLLATION = 63
"""The number of the collation `binary` in the protocol."""


def mysql_table(
    client: MysqlClient, table: str | None, query: str | None, *, wide_numbers: WideNumbers, zero_dates_as_null: bool
) -> RemoteTable:
    """Return the columns of a table, a view or a query. Raises RemoteRefusedError if there is no such table."""
    ((version,),) = client.rows("SELECT version()")
    dialect = Dialect.MARIADB if "mariadb" in str(version).lower() else Dialect.MYSQL
    *qualifiers, name = ("query",) if query is not None else parse_table_name(table or "")
    if len(qualifiers) > 1:
        raise BadSpecError(f"table: {table!r} has too many parts for MySQL; give table or database.table")
    schema = qualifiers[0] if qualifiers else None
    rows = client.rows(_COLUMNS, schema, name) if query is None else _query_columns(client, query)
    if not rows:
        raise RemoteRefusedError(f"there is no table {table} in the database, or the user cannot see it; check `table`")
    columns = tuple(_column(row, wide_numbers, zero_dates_as_null) for row in rows)
    return RemoteTable(dialect, name, columns, schema=schema, subquery=query)


def _query_columns(client: MysqlClient, query: str) -> list[Row]:
    """Return the columns of a query like rows of `_COLUMNS`.

    The server reports the character set in which it sends strings, not the one in which it stores them.
    """
    return [(column.name, _declared_type(column), UNKNOWN_CHARSET, None) for column in client.describe(query)]


def _declared_type(column: ResultColumn) -> str:
    """Return the type as a table would declare it."""
    unsigned = " unsigned" if column.flags & FLAG.UNSIGNED else ""
    if column.type_code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        # The length includes the sign and the decimal point.
        digits = column.length - (not unsigned) - (column.scale > 0)
        return f"decimal({digits},{column.scale}){unsigned}"
    if column.type_code == FIELD_TYPE.BIT:
        return f"bit({column.length})"
    if column.type_code in _TYPE_NAMES:
        return f"{_TYPE_NAMES[column.type_code]}{unsigned}"
    return "varbinary" if column.collation == _BINARY_COLLATION else "varchar"


def _column(row: Row, wide_numbers: WideNumbers, zero_dates_as_null: bool) -> RemoteColumn:
    name, declaration, charset, collation = row
    remote_type = str(declaration)
    reference = column_reference(str(name))
    spark_type, rendering = _spark_type(remote_type, reference, wide_numbers)
    has_date = isinstance(spark_type, t.DateType | t.TimestampType | t.TimestampNTZType)
    if has_date and zero_dates_as_null:
        rendering = null_if_zero_date(reference)
    return RemoteColumn(
        name=str(name),
        remote_type=remote_type,
        spark_type=spark_type,
        charset=None if charset is None else str(charset),
        collation=None if collation is None else str(collation),
        is_enum=remote_type.startswith("enum"),
        special_dates_are_null=has_date and zero_dates_as_null,
        rendering=rendering,
    )


def _spark_type(remote_type: str, column: exp.Column, wide_numbers: WideNumbers) -> tuple[t.DataType, exp.Expr | None]:
    """Return the Spark type of a column, and its SELECT expression, or None for the bare column."""
    word = re.split(r"[ (]", remote_type)[0]
    unsigned = "unsigned" in remote_type
    if word in _INTEGER_TYPES:
        return _INTEGER_TYPES[word][unsigned], None
    if match := _DECIMAL.match(remote_type):
        precision, scale = int(match.group(1)), int(match.group(2))
        as_text = precision > MAX_DECIMAL_DIGITS and wide_numbers is WideNumbers.TEXT
        return (t.StringType() if as_text else t.DecimalType(min(precision, MAX_DECIMAL_DIGITS), scale)), None
    if word in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[word], None
    if word == "float":
        # MySQL prints floats with six digits. The product is a double in all versions, CAST needs 8.0.17.
        return t.FloatType(), exp.Mul(this=column, expression=exp.Literal.number("1e0"))
    if match := _BITS.match(remote_type):
        return _bit_type(int(match.group(1))), exp.Add(this=column, expression=exp.Literal.number(0))
    if word.startswith(_GEOMETRY):
        return t.BinaryType(), exp.Anonymous(this="ST_AsBinary", expressions=[column])
    return t.StringType(), None


def _bit_type(bits: int) -> t.DataType:
    if bits == 1:
        return t.BooleanType()
    return t.LongType() if bits < 64 else t.DecimalType(20, 0)
