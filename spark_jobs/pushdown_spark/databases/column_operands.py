"""Columns in comparisons: the expression with the value that Spark reads, and the rows where it may differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import sqlite_values
from pushdown_spark.databases.remote_table import Dialect, RemoteColumn
from pushdown_spark.databases.sql_builder import binary, call, cast, quoted
from pushdown_spark.databases.sql_literals import number
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import LogicalType

_TYPE_PARTS = re.compile(r"([a-z ]*[a-z\"])\s*(?:\(([\d, ]+)\))?(.*)", re.DOTALL)
_SPARK_KINDS: dict[type[t.DataType], LogicalType] = {
    t.BooleanType: LogicalType.BOOLEAN,
    t.ByteType: LogicalType.INTEGER,
    t.ShortType: LogicalType.INTEGER,
    t.IntegerType: LogicalType.INTEGER,
    t.LongType: LogicalType.INTEGER,
    t.FloatType: LogicalType.FLOAT,
    t.DoubleType: LogicalType.DOUBLE,
    t.DecimalType: LogicalType.DECIMAL,
    t.StringType: LogicalType.STRING,
    t.BinaryType: LogicalType.BINARY,
    t.DateType: LogicalType.DATE,
    t.TimestampType: LogicalType.TIMESTAMP,
    t.TimestampNTZType: LogicalType.TIMESTAMP_NTZ,
}
_POSTGRESQL_KINDS: dict[str, LogicalType] = {
    "boolean": LogicalType.BOOLEAN,
    "smallint": LogicalType.INTEGER,
    "integer": LogicalType.INTEGER,
    "bigint": LogicalType.INTEGER,
    "real": LogicalType.FLOAT,
    "double precision": LogicalType.DOUBLE,
    "numeric": LogicalType.DECIMAL,
    "text": LogicalType.STRING,
    "character varying": LogicalType.STRING,
    "character": LogicalType.STRING,
    "citext": LogicalType.STRING,
    "uuid": LogicalType.STRING,
    "bytea": LogicalType.BINARY,
    "date": LogicalType.DATE,
    "timestamp": LogicalType.TIMESTAMP_NTZ,
    "timestamp without time zone": LogicalType.TIMESTAMP_NTZ,
    "timestamp with time zone": LogicalType.TIMESTAMP,
}
_MYSQL_KINDS: dict[str, LogicalType] = {
    "tinyint": LogicalType.INTEGER,
    "smallint": LogicalType.INTEGER,
    "mediumint": LogicalType.INTEGER,
    "int": LogicalType.INTEGER,
    "bigint": LogicalType.INTEGER,
    "float": LogicalType.FLOAT,
    "double": LogicalType.DOUBLE,
    "decimal": LogicalType.DECIMAL,
    "char": LogicalType.STRING,
    "varchar": LogicalType.STRING,
    "tinytext": LogicalType.STRING,
    "text": LogicalType.STRING,
    "mediumtext": LogicalType.STRING,
    "longtext": LogicalType.STRING,
    "enum": LogicalType.STRING,
    "binary": LogicalType.BINARY,
    "varbinary": LogicalType.BINARY,
    "tinyblob": LogicalType.BINARY,
    "blob": LogicalType.BINARY,
    "mediumblob": LogicalType.BINARY,
    "longblob": LogicalType.BINARY,
    "date": LogicalType.DATE,
    "datetime": LogicalType.TIMESTAMP_NTZ,
    "timestamp": LogicalType.TIMESTAMP,
}
UNICODE_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4"})
UNKNOWN_CHARSET = "unknown"
"""The character set of a query's columns, which MySQL does not report."""


@dataclass(frozen=True)
class ColumnOperand:
    """A column in comparisons.

    `value` builds the expression of the value that Spark reads. `guard` builds the condition of rows where Spark may
    read another value. Such rows must be returned to Spark. None if there are none.
    """

    column: RemoteColumn
    kind: LogicalType
    value: Callable[[], exp.Expr]
    guard: Callable[[], exp.Expr] | None = None

    @property
    def bare(self) -> exp.Expr:
        """The column itself, which an index can serve."""
        return exp.Column(this=quoted(self.column.name))


@dataclass(frozen=True)
class RemoteType:
    """The parts of a declared type. For `numeric(10,2)`: base `numeric`, numbers 10 and 2. `rest` is what follows."""

    base: str
    numbers: tuple[int, ...]
    rest: str


def remote_type(column: RemoteColumn) -> RemoteType:
    """Return the parts of a column's declared type."""
    match = _TYPE_PARTS.fullmatch(column.remote_type.strip().lower())
    if match is None:
        return RemoteType(column.remote_type, (), "")
    numbers = tuple(int(part) for part in (match[2] or "").split(",") if part.strip())
    base, rest = match[1].strip(), match[3].strip()
    if base in ("timestamp", "time") and rest:
        base, rest = f"{base} {rest}", ""
    return RemoteType(base.removesuffix(" unsigned").removesuffix(" zerofill"), numbers, rest)


def column_operand(column: RemoteColumn, dialect: Dialect) -> ColumnOperand:
    """Return how a column is compared. Raises UnsupportedError if its values may differ from Spark's."""
    kind = _spark_kind(column)
    if dialect is Dialect.SQLITE:
        stored = sqlite_values.sqlite_value(column, kind, remote_type(column).numbers)
        return ColumnOperand(column, kind, stored.value, stored.guard)
    value = _postgresql_value if dialect is Dialect.POSTGRES else _mysql_value
    return ColumnOperand(column, kind, value(column, kind, remote_type(column)))


def null_test_operand(column: RemoteColumn, dialect: Dialect) -> ColumnOperand:
    """Return a column of any type, for IS NULL only."""
    try:
        return column_operand(column, dialect)
    except UnsupportedError:
        if dialect is Dialect.SQLITE or column.special_dates_are_null:
            raise
        return ColumnOperand(column, LogicalType.OTHER, lambda: column.reference)


def _spark_kind(column: RemoteColumn) -> LogicalType:
    kind = _SPARK_KINDS.get(type(column.spark_type), LogicalType.OTHER)
    if kind is LogicalType.OTHER or (kind is LogicalType.STRING and column.spark_type != t.StringType()):
        raise UnsupportedError(f"{column.name} is {column.spark_type.simpleString()}, which is not compared remotely")
    return kind


def _mismatch(column: RemoteColumn) -> UnsupportedError:
    spark = column.spark_type.simpleString()
    return UnsupportedError(
        f"{column.name} is {column.remote_type} in the database and {spark} in Spark, which compare differently"
    )


def _postgresql_value(column: RemoteColumn, kind: LogicalType, declared: RemoteType) -> Callable[[], exp.Expr]:
    declared_kind = LogicalType.STRING if column.is_enum else _POSTGRESQL_KINDS.get(declared.base)
    if declared_kind is not kind or declared.rest:
        raise _mismatch(column)
    if kind is LogicalType.DECIMAL:
        _check_decimal(column, declared)
    if kind is LogicalType.STRING:
        return _postgresql_string(column, declared)
    if kind in (LogicalType.DATE, LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ) and column.special_dates_are_null:
        return lambda: exp.Case(ifs=[exp.If(this=call("ISFINITE", column.reference), true=column.reference)])
    return lambda: column.reference


def _check_decimal(column: RemoteColumn, declared: RemoteType) -> None:
    """Raise UnsupportedError unless the types have the same digits. Rounded values compare differently."""
    assert isinstance(column.spark_type, t.DecimalType)
    precision, scale = (*declared.numbers, 0, 0)[:2]
    if (precision, scale) != (column.spark_type.precision, column.spark_type.scale):
        raise _mismatch(column)


def _postgresql_string(column: RemoteColumn, declared: RemoteType) -> Callable[[], exp.Expr]:
    if column.charset is not None and column.charset.upper() == "SQL_ASCII":
        raise UnsupportedError(f"the database of {column.name} has no encoding (SQL_ASCII)")
    if declared.base == "character":
        length = (*declared.numbers, 1)[0]
        return lambda: call("RPAD", cast(column.reference, "TEXT", Dialect.POSTGRES), number(length))
    if column.is_enum or declared.base in ("uuid", "citext"):
        return lambda: cast(column.reference, "TEXT", Dialect.POSTGRES)
    return lambda: column.reference


def _mysql_value(column: RemoteColumn, kind: LogicalType, declared: RemoteType) -> Callable[[], exp.Expr]:
    declared_kind = LogicalType.BOOLEAN if _is_boolean(column, declared) else _MYSQL_KINDS.get(declared.base)
    is_unsigned_bigint = declared.base == "bigint" and "unsigned" in column.remote_type and kind is LogicalType.DECIMAL
    if is_unsigned_bigint and column.spark_type == t.DecimalType(20, 0):
        return lambda: column.reference
    if declared_kind is not kind:
        raise _mismatch(column)
    if kind is LogicalType.DECIMAL:
        _check_decimal(column, declared)
    if kind is LogicalType.FLOAT and column.rendering is None:
        raise UnsupportedError(f"{column.name} is a float, which MySQL sends with six digits")
    if kind is LogicalType.BOOLEAN:
        return lambda: binary(exp.NEQ, column.reference, number(0))
    if column.special_dates_are_null and kind in (LogicalType.DATE, LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ):
        return lambda: null_if_zero_date(column.reference)
    return lambda: column.reference


def _is_boolean(column: RemoteColumn, declared: RemoteType) -> bool:
    is_bool = isinstance(column.spark_type, t.BooleanType)
    return is_bool and declared.base in ("tinyint", "bit") and declared.numbers == (1,)


def null_if_zero_date(reference: exp.Expr) -> exp.Expr:
    """Return the column, NULL for dates of MySQL whose month or day is zero."""
    month, day = call("MONTH", reference.copy()), call("DAYOFMONTH", reference.copy())
    is_complete = binary(exp.And, binary(exp.GT, month, number(0)), binary(exp.GT, day, number(0)))
    return exp.Case(ifs=[exp.If(this=is_complete, true=reference.copy())])
