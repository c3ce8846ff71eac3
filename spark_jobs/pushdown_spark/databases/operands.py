"""How a remote column is compared: the expression that has the value Spark gets, and which rows may have another."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import sqlite_values
from pushdown_spark.databases.literals import number
from pushdown_spark.databases.model import Dialect, RemoteColumn
from pushdown_spark.databases.render import binary, call, cast, quoted
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import Kind

_BASE = re.compile(r"([a-z ]*[a-z\"])\s*(?:\(([\d, ]+)\))?(.*)", re.DOTALL)
_TYPES: dict[type[t.DataType], Kind] = {
    t.BooleanType: Kind.BOOLEAN,
    t.ByteType: Kind.INTEGER,
    t.ShortType: Kind.INTEGER,
    t.IntegerType: Kind.INTEGER,
    t.LongType: Kind.INTEGER,
    t.FloatType: Kind.FLOAT,
    t.DoubleType: Kind.DOUBLE,
    t.DecimalType: Kind.DECIMAL,
    t.StringType: Kind.STRING,
    t.BinaryType: Kind.BINARY,
    t.DateType: Kind.DATE,
    t.TimestampType: Kind.TIMESTAMP,
    t.TimestampNTZType: Kind.TIMESTAMP_NTZ,
}
_POSTGRES: dict[str, Kind] = {
    "boolean": Kind.BOOLEAN,
    "smallint": Kind.INTEGER,
    "integer": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "real": Kind.FLOAT,
    "double precision": Kind.DOUBLE,
    "numeric": Kind.DECIMAL,
    "text": Kind.STRING,
    "character varying": Kind.STRING,
    "character": Kind.STRING,
    "citext": Kind.STRING,
    "uuid": Kind.STRING,
    "bytea": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP_NTZ,
    "timestamp without time zone": Kind.TIMESTAMP_NTZ,
    "timestamp with time zone": Kind.TIMESTAMP,
}
_MYSQL: dict[str, Kind] = {
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "mediumint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "decimal": Kind.DECIMAL,
    "char": Kind.STRING,
    "varchar": Kind.STRING,
    "tinytext": Kind.STRING,
    "text": Kind.STRING,
    "mediumtext": Kind.STRING,
    "longtext": Kind.STRING,
    "enum": Kind.STRING,
    "binary": Kind.BINARY,
    "varbinary": Kind.BINARY,
    "tinyblob": Kind.BINARY,
    "blob": Kind.BINARY,
    "mediumblob": Kind.BINARY,
    "longblob": Kind.BINARY,
    "date": Kind.DATE,
    "datetime": Kind.TIMESTAMP_NTZ,
    "timestamp": Kind.TIMESTAMP,
}
UNICODE_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4"})
UNKNOWN_CHARSET = "unknown"
"""Of the columns of a query."""


@dataclass(frozen=True)
class Operand:
    """A column in comparisons.

    `value` makes a tree that has the column's value as Spark gets it. `suspect` makes a condition that is true where it
    may have another, so that such rows must be kept for Spark to judge; None where there are none.
    """

    column: RemoteColumn
    kind: Kind
    value: Callable[[], exp.Expr]
    suspect: Callable[[], exp.Expr] | None = None

    @property
    def bare(self) -> exp.Expr:
        """The column itself, which an index may serve."""
        return exp.Column(this=quoted(self.column.name))


@dataclass(frozen=True)
class RemoteType:
    """A remote type in parts: `numeric(10,2)` is `numeric` with the numbers 10 and 2; `rest` is what follows."""

    base: str
    numbers: tuple[int, ...]
    rest: str


def remote_type(column: RemoteColumn) -> RemoteType:
    """The declared type of a column, in parts."""
    found = _BASE.fullmatch(column.remote_type.strip().lower())
    if found is None:
        return RemoteType(column.remote_type, (), "")
    numbers = tuple(int(part) for part in (found[2] or "").split(",") if part.strip())
    base, rest = found[1].strip(), found[3].strip()
    if base in ("timestamp", "time") and rest:
        base, rest = f"{base} {rest}", ""
    return RemoteType(base.removesuffix(" unsigned").removesuffix(" zerofill"), numbers, rest)


def operand(column: RemoteColumn, dialect: Dialect) -> Operand:
    """How a column is compared. Raises UnsupportedError where its values are not known to be Spark's."""
    kind = _spark_kind(column)
    if dialect is Dialect.SQLITE:
        form = sqlite_values.value_form(column, kind, remote_type(column).numbers)
        return Operand(column, kind, form.value, form.suspect)
    make = _postgres if dialect is Dialect.POSTGRES else _mysql
    return Operand(column, kind, make(column, kind, remote_type(column)))


def bare_operand(column: RemoteColumn, dialect: Dialect) -> Operand:
    """A column of any type, for IS NULL alone."""
    try:
        return operand(column, dialect)
    except UnsupportedError:
        if dialect is Dialect.SQLITE or column.special_dates_are_null:
            raise
        return Operand(column, Kind.OTHER, lambda: _bare(column))


def _bare(column: RemoteColumn) -> exp.Expr:
    return exp.Column(this=quoted(column.name))


def _spark_kind(column: RemoteColumn) -> Kind:
    kind = _TYPES.get(type(column.spark_type), Kind.OTHER)
    if kind is Kind.OTHER or (kind is Kind.STRING and column.spark_type != t.StringType()):
        raise UnsupportedError(f"{column.name} is of type {column.spark_type.simpleString()}, not compared there")
    return kind


def _mismatch(column: RemoteColumn) -> UnsupportedError:
    spark = column.spark_type.simpleString()
    return UnsupportedError(f"{column.name} is {column.remote_type} there and {spark} here, which compare differently")


def _postgres(column: RemoteColumn, kind: Kind, declared: RemoteType) -> Callable[[], exp.Expr]:
    known = Kind.STRING if column.is_enum else _POSTGRES.get(declared.base)
    if known is not kind or declared.rest:
        raise _mismatch(column)
    if kind is Kind.DECIMAL:
        _check_decimal(column, declared)
    if kind is Kind.STRING:
        return _postgres_text(column, declared)
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) and column.special_dates_are_null:
        return lambda: exp.Case(ifs=[exp.If(this=call("ISFINITE", _bare(column)), true=_bare(column))])
    return lambda: _bare(column)


def _check_decimal(column: RemoteColumn, declared: RemoteType) -> None:
    """Values that are rounded to be read compare differently."""
    assert isinstance(column.spark_type, t.DecimalType)
    precision, scale = (*declared.numbers, 0, 0)[:2]
    if (precision, scale) != (column.spark_type.precision, column.spark_type.scale):
        raise _mismatch(column)


def _postgres_text(column: RemoteColumn, declared: RemoteType) -> Callable[[], exp.Expr]:
    if column.charset is not None and column.charset.upper() == "SQL_ASCII":
        raise UnsupportedError(f"{column.name} is in a database without an encoding")
    if declared.base == "character":
        length = (*declared.numbers, 1)[0]
        return lambda: call("RPAD", cast(_bare(column), "TEXT", Dialect.POSTGRES), number(length))
    if column.is_enum or declared.base in ("uuid", "citext"):
        return lambda: cast(_bare(column), "TEXT", Dialect.POSTGRES)
    return lambda: _bare(column)


def _mysql(column: RemoteColumn, kind: Kind, declared: RemoteType) -> Callable[[], exp.Expr]:
    known = Kind.BOOLEAN if _is_flag(column, declared) else _MYSQL.get(declared.base)
    is_unsigned_bigint = declared.base == "bigint" and "unsigned" in column.remote_type and kind is Kind.DECIMAL
    if is_unsigned_bigint and column.spark_type == t.DecimalType(20, 0):
        return lambda: _bare(column)
    if known is not kind:
        raise _mismatch(column)
    if kind is Kind.DECIMAL:
        _check_decimal(column, declared)
    if kind is Kind.FLOAT and column.rendering is None:
        raise UnsupportedError(f"{column.name} is a float, of which MySQL sends six digits only")
    if kind is Kind.BOOLEAN:
        return lambda: binary(exp.NEQ, _bare(column), number(0))
    if column.special_dates_are_null and kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return lambda: _without_zero_dates(column)
    return lambda: _bare(column)


def _is_flag(column: RemoteColumn, declared: RemoteType) -> bool:
    is_bool = isinstance(column.spark_type, t.BooleanType)
    return is_bool and declared.base in ("tinyint", "bit") and declared.numbers == (1,)


def _without_zero_dates(column: RemoteColumn) -> exp.Expr:
    parts = (call("MONTH", _bare(column)), call("DAYOFMONTH", _bare(column)))
    whole = binary(exp.And, binary(exp.GT, parts[0], number(0)), binary(exp.GT, parts[1], number(0)))
    return exp.Case(ifs=[exp.If(this=whole, true=_bare(column))])
