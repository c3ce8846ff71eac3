"""The columns of a MySQL or MariaDB table: their types in Spark, and how they are selected to arrive as those."""

from __future__ import annotations

import re

from pymysql.constants import FIELD_TYPE, FLAG
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import WideNumbers
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.mysql import Described, MysqlClient
from pushdown_spark.databases.names import table_name
from pushdown_spark.databases.operands import UNKNOWN_CHARSET
from pushdown_spark.errors import BadSpecError, RemoteRefusedError

_COLUMNS = """
SELECT column_name, lower(column_type), is_nullable = 'YES', character_set_name, collation_name
FROM information_schema.columns WHERE table_schema = coalesce(%s, database()) AND table_name = %s
ORDER BY ordinal_position
"""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_BITS = re.compile(r"bit\((\d+)\)")
_WHOLE: dict[str, tuple[t.DataType, t.DataType]] = {
    "tinyint": (t.ByteType(), t.ShortType()),
    "smallint": (t.ShortType(), t.IntegerType()),
    "mediumint": (t.IntegerType(), t.IntegerType()),
    "int": (t.IntegerType(), t.LongType()),
    "bigint": (t.LongType(), t.DecimalType(20, 0)),
}
"""Signed and unsigned: the smallest type of Spark's that has all values."""
_MOST_DIGITS = 38
_SIMPLE: dict[str, t.DataType] = {
    "double": t.DoubleType(),
    "year": t.IntegerType(),
    "date": t.DateType(),
    "datetime": t.TimestampNTZType(),
    "timestamp": t.TimestampType(),
    **dict.fromkeys(("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"), t.BinaryType()),
}
_GEOMETRY = ("geometry", "point", "linestring", "polygon", "multi", "geom")


_CODES = {
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
_BYTES_COLLATION = 63


def mysql_table(
    client: MysqlClient, table: str | None, query: str | None, *, wide_numbers: WideNumbers, zero_dates_as_null: bool
) -> RemoteTable:
    """A table, a view or a query. Raises RemoteRefusedError where there is no table of that name."""
    ((version,),) = client.rows("SELECT version()")
    dialect = Dialect.MARIADB if "mariadb" in str(version).lower() else Dialect.MYSQL
    *above, name = ("query",) if query is not None else table_name(table or "")
    if len(above) > 1:
        raise BadSpecError(f"table: {table!r} has too many parts for MySQL, whose tables are table or database.table")
    schema = above[0] if above else None
    found = client.rows(_COLUMNS, schema, name) if query is None else _described(client, query)
    if not found:
        raise RemoteRefusedError(f"there is no table {table} in the database, or no right to see it; check `table`")
    columns = tuple(_column(row, wide_numbers, zero_dates_as_null) for row in found)
    return RemoteTable(dialect, name, columns, schema=schema, subquery=query)


def _described(client: MysqlClient, query: str) -> list[Row]:
    """A query's columns in the shape of the catalogue's. Of strings it is told what they are sent in, not stored in."""
    return [
        (column.name, _declared(column), not column.flags & FLAG.NOT_NULL, UNKNOWN_CHARSET, None)
        for column in client.types(query)
    ]


def _declared(column: Described) -> str:
    """The type as a table would declare it."""
    unsigned = " unsigned" if column.flags & FLAG.UNSIGNED else ""
    if column.type_code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        # The length counts the sign and the point as well.
        digits = column.length - (not unsigned) - (column.scale > 0)
        return f"decimal({digits},{column.scale}){unsigned}"
    if column.type_code == FIELD_TYPE.BIT:
        return f"bit({column.length})"
    if column.type_code in _CODES:
        return f"{_CODES[column.type_code]}{unsigned}"
    return "varbinary" if column.collation == _BYTES_COLLATION else "varchar"


def _column(row: Row, wide_numbers: WideNumbers, zero_dates_as_null: bool) -> RemoteColumn:
    name, declared, nullable, charset, collation = row
    remote_type = str(declared)
    reference = exp.Column(this=exp.to_identifier(str(name), quoted=True))
    spark_type, rendering = _delivered(remote_type, reference, wide_numbers)
    dated = isinstance(spark_type, t.DateType | t.TimestampType | t.TimestampNTZType)
    if dated and zero_dates_as_null:
        rendering = _without_zeros(reference)
    return RemoteColumn(
        str(name),
        remote_type,
        spark_type,
        nullable=bool(nullable) or (dated and zero_dates_as_null),
        charset=None if charset is None else str(charset),
        collation=None if collation is None else str(collation),
        is_enum=remote_type.startswith("enum"),
        special_dates_are_null=dated and zero_dates_as_null,
        rendering=rendering,
    )


def _delivered(remote_type: str, column: exp.Column, wide_numbers: WideNumbers) -> tuple[t.DataType, exp.Expr | None]:
    """Spark's type for a column, and what is selected for it where that is not the column alone."""
    word = re.split(r"[ (]", remote_type)[0]
    unsigned = "unsigned" in remote_type
    if word in _WHOLE:
        return _WHOLE[word][unsigned], None
    if found := _DECIMAL.match(remote_type):
        precision, scale = int(found.group(1)), int(found.group(2))
        if precision <= _MOST_DIGITS:
            return t.DecimalType(precision, scale), None
        wide = wide_numbers is WideNumbers.TEXT
        return (t.StringType() if wide else t.DecimalType(_MOST_DIGITS, scale)), None
    if word in _SIMPLE:
        return _SIMPLE[word], None
    if word == "float":
        # As text a float has six digits only. MySQL casts to doubles since 8.0.17; a product is one in all versions.
        return t.FloatType(), exp.Mul(this=column, expression=exp.Literal.number("1e0"))
    if found := _BITS.match(remote_type):
        return _bits(int(found.group(1))), exp.Add(this=column, expression=exp.Literal.number(0))
    if word.startswith(_GEOMETRY):
        return t.BinaryType(), exp.Anonymous(this="ST_AsBinary", expressions=[column])
    return t.StringType(), None


def _bits(number: int) -> t.DataType:
    if number == 1:
        return t.BooleanType()
    return t.LongType() if number < 64 else t.DecimalType(20, 0)


def _without_zeros(column: exp.Column) -> exp.Expr:
    """NULL for dates with a month or day zero, which nobody but MySQL has."""
    zero = exp.Literal.number(0)
    parts = [exp.EQ(this=exp.Anonymous(this=part, expressions=[column]), expression=zero) for part in ("MONTH", "DAY")]
    return exp.Case(ifs=[exp.If(this=exp.or_(*parts), true=exp.Null())], default=column)
