"""Columns in comparisons: the expression with the value that Spark reads, and the rows where it may differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.sql.builder import (
    all_of,
    any_of,
    binary,
    call,
    case_when,
    cast,
    collate,
    in_values,
    is_null,
    negate,
    number,
)
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.scope import logical_type
from pushdown_spark.expressions.types import TEMPORAL, LogicalType

_TYPE_PARTS = re.compile(r"([a-z ]*[a-z\"])\s*(?:\(([\d, ]+)\))?(.*)", re.DOTALL)
_POSTGRESQL_KINDS: dict[str, LogicalType] = {
    "boolean": LogicalType.BOOLEAN,
    **dict.fromkeys(("smallint", "integer", "bigint"), LogicalType.INTEGER),
    "real": LogicalType.FLOAT,
    "double precision": LogicalType.DOUBLE,
    "numeric": LogicalType.DECIMAL,
    **dict.fromkeys(("text", "character varying", "character", "citext", "uuid"), LogicalType.STRING),
    "bytea": LogicalType.BINARY,
    "date": LogicalType.DATE,
    **dict.fromkeys(("timestamp", "timestamp without time zone"), LogicalType.TIMESTAMP_NTZ),
    "timestamp with time zone": LogicalType.TIMESTAMP,
}
_MYSQL_KINDS: dict[str, LogicalType] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), LogicalType.INTEGER),
    "float": LogicalType.FLOAT,
    "double": LogicalType.DOUBLE,
    "decimal": LogicalType.DECIMAL,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), LogicalType.STRING),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), LogicalType.BINARY),
    "date": LogicalType.DATE,
    "datetime": LogicalType.TIMESTAMP_NTZ,
    "timestamp": LogicalType.TIMESTAMP,
}
UNKNOWN_CHARSET = "unknown"
"""The character set of a query's columns, which MySQL does not report."""
SQLITE_STORAGE = {
    LogicalType.INTEGER: "INTEGER",
    LogicalType.DOUBLE: "REAL",
    LogicalType.STRING: "TEXT",
    LogicalType.BINARY: "BLOB",
}
"""Storage classes by affinity, except NUMERIC affinity."""
_SQLITE_AFFINITIES = (
    ("int", LogicalType.INTEGER),
    *((part, LogicalType.STRING) for part in ("char", "clob", "text")),
    ("blob", LogicalType.BINARY),
    *((part, LogicalType.DOUBLE) for part in ("real", "floa", "doub")),
)
"""SQLite's rules of type affinity, in its order. The first substring of a declared type that matches decides."""
_SQLITE_EXACT_DIGITS = 15
"""Decimals with up to this number of digits are exact as doubles."""
_SQLITE_SECONDS_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class ColumnOperand:
    """A column in comparisons.

    `value` is the expression of the value that Spark reads. `recheck` is the condition of rows where Spark may read
    another value, so that Spark must evaluate the predicate on them. It is None if there are none.
    """

    column: RemoteColumn
    kind: LogicalType
    value: exp.Expr
    recheck: exp.Expr | None = None


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
    kind, column_type = logical_type(column.spark_type), remote_type(column)
    if kind is LogicalType.OTHER:
        raise UnsupportedError(f"{column.name} is {column.spark_type.simpleString()}, which is not compared remotely")
    if dialect is Dialect.SQLITE:
        return _sqlite_operand(column, kind, column_type)
    value = _postgresql_value if dialect is Dialect.POSTGRES else _mysql_value
    return ColumnOperand(column, kind, value(column, kind, column_type))


def null_test_operand(column: RemoteColumn, dialect: Dialect) -> ColumnOperand:
    """Return a column of any type, for IS NULL only."""
    try:
        return column_operand(column, dialect)
    except UnsupportedError:
        if dialect is Dialect.SQLITE or column.special_dates_are_null:
            raise
        return ColumnOperand(column, LogicalType.OTHER, column.reference)


def _mismatch(column: RemoteColumn) -> UnsupportedError:
    spark = column.spark_type.simpleString()
    return UnsupportedError(
        f"{column.name} is {column.remote_type} in the database and {spark} in Spark, which compare differently"
    )


def _check_kind(column: RemoteColumn, kind: LogicalType, column_type: RemoteType, declared_kind: LogicalType) -> None:
    """Raise UnsupportedError unless the types are of one kind, and decimals of the same digits."""
    if declared_kind is not kind:
        raise _mismatch(column)
    if isinstance(column.spark_type, t.DecimalType):
        digits = (column.spark_type.precision, column.spark_type.scale)
        # Rounded values compare differently.
        if (*column_type.numbers, 0, 0)[:2] != digits:
            raise _mismatch(column)


def _postgresql_value(column: RemoteColumn, kind: LogicalType, column_type: RemoteType) -> exp.Expr:
    if column_type.rest:
        raise _mismatch(column)
    by_name = _POSTGRESQL_KINDS.get(column_type.base, LogicalType.OTHER)
    _check_kind(column, kind, column_type, LogicalType.STRING if column.is_enum else by_name)
    if kind is LogicalType.STRING:
        return _postgresql_string(column, column_type)
    if kind in TEMPORAL and column.special_dates_are_null:
        return case_when(call("ISFINITE", column.reference), column.reference)
    return column.reference


def _postgresql_string(column: RemoteColumn, column_type: RemoteType) -> exp.Expr:
    if column.charset is not None and column.charset.upper() == "SQL_ASCII":
        raise UnsupportedError(f"the database of {column.name} has no encoding (SQL_ASCII)")
    text = cast(column.reference, "TEXT", Dialect.POSTGRES)
    if column_type.base == "character":
        return call("RPAD", text, number((*column_type.numbers, 1)[0]))
    return text if column.is_enum or column_type.base in ("uuid", "citext") else column.reference


def _mysql_value(column: RemoteColumn, kind: LogicalType, column_type: RemoteType) -> exp.Expr:
    is_unsigned_bigint = column_type.base == "bigint" and "unsigned" in column.remote_type
    if is_unsigned_bigint and column.spark_type == t.DecimalType(20, 0):
        return column.reference
    is_boolean = kind is LogicalType.BOOLEAN and column_type.base in ("tinyint", "bit") and column_type.numbers == (1,)
    by_name = _MYSQL_KINDS.get(column_type.base, LogicalType.OTHER)
    _check_kind(column, kind, column_type, LogicalType.BOOLEAN if is_boolean else by_name)
    if kind is LogicalType.FLOAT and column.rendering is None:
        raise UnsupportedError(f"{column.name} is a float, which MySQL sends with six digits")
    if kind is LogicalType.BOOLEAN:
        return binary(exp.NEQ, column.reference, number(0))
    if column.special_dates_are_null and kind in TEMPORAL:
        return null_if_zero_date(column.reference)
    return column.reference


def null_if_zero_date(reference: exp.Expr) -> exp.Expr:
    """Return the column, NULL for dates of MySQL whose month or day is zero."""
    has_month = binary(exp.GT, call("MONTH", reference), number(0))
    has_day = binary(exp.GT, call("DAYOFMONTH", reference), number(0))
    return case_when(binary(exp.And, has_month, has_day), reference)


def sqlite_affinity(column_type: str) -> LogicalType | None:
    """Return the kind to which SQLite converts values if possible, or None for NUMERIC affinity."""
    if not column_type.strip():
        return LogicalType.BINARY
    return next((kind for part, kind in _SQLITE_AFFINITIES if part in column_type.lower()), None)


def _sqlite_operand(column: RemoteColumn, kind: LogicalType, column_type: RemoteType) -> ColumnOperand:
    """Return how a column of SQLite is compared, which may hold values of any type, whatever its declared type.

    Raises UnsupportedError for types whose values SQLite does not preserve.
    """
    reference = column.reference
    if _has_storage_class(column, kind):
        value = reference if column.has_one_storage_class else cast(reference, SQLITE_STORAGE[kind], Dialect.SQLITE)
        return ColumnOperand(column, kind, value)
    if not _declares(column.remote_type, kind):
        raise UnsupportedError(
            f"{column.name} is {column.remote_type.lower() or 'untyped'} in SQLite and "
            f"{column.spark_type.simpleString()} in Spark"
        )
    if kind is LogicalType.BOOLEAN:
        is_true = binary(exp.NEQ, cast(reference, "INTEGER", Dialect.SQLITE), number(0))
        return ColumnOperand(column, kind, is_true)
    if kind is LogicalType.DECIMAL:
        return ColumnOperand(column, kind, reference, _is_not_decimal(column, column_type.numbers))
    if kind is LogicalType.DATE:
        return ColumnOperand(column, kind, reference, _is_not_date(reference))
    return ColumnOperand(column, kind, _sqlite_timestamp(reference), _is_not_timestamp(reference))


def _has_storage_class(column: RemoteColumn, kind: LogicalType) -> bool:
    """Return whether SQLite stores the values of a column in a class that has all values of the Spark type."""
    is_full_width = kind is not LogicalType.INTEGER or column.spark_type == t.LongType()
    return kind in SQLITE_STORAGE and sqlite_affinity(column.remote_type) is kind and is_full_width


def _declares(column_type: str, kind: LogicalType) -> bool:
    """Return whether a declared type of SQLite stands for a kind that has no storage class."""
    name = column_type.lower()
    if kind is LogicalType.BOOLEAN:
        return "bool" in name
    if kind is LogicalType.DECIMAL:
        return sqlite_affinity(name) is None
    if kind is LogicalType.DATE:
        return name.startswith("date") and "time" not in name
    return kind is LogicalType.TIMESTAMP_NTZ and ("datetime" in name or "timestamp" in name)


def _is_not_decimal(column: RemoteColumn, numbers: tuple[int, ...]) -> exp.Expr:
    """Return the condition of values that readers round. SQLite stores decimals as doubles."""
    assert isinstance(column.spark_type, t.DecimalType)
    precision, scale = column.spark_type.precision, column.spark_type.scale
    has_digits = numbers == (precision, scale) or (numbers == (precision,) and scale == 0)
    if precision > _SQLITE_EXACT_DIGITS or not has_digits:
        raise UnsupportedError(f"{column.name} has more digits than SQLite preserves, or no declared number of digits")
    number_classes = [exp.Literal.string(name) for name in ("integer", "real", "null")]
    not_a_number = negate(in_values(call("TYPEOF", column.reference), number_classes, Dialect.SQLITE))
    is_fraction = binary(exp.NEQ, column.reference, call("ROUND", column.reference, number(scale)))
    too_large = binary(exp.GTE, call("ABS", column.reference), number(10 ** (precision - scale)))
    return any_of([not_a_number, is_fraction, too_large])


def _is_not_date(reference: exp.Expr) -> exp.Expr:
    """Return the condition of values that are neither NULL nor dates in SQLite's own format."""
    is_date = binary(exp.NullSafeEQ, call("DATE", reference), collate(reference, "BINARY"))
    return all_of([negate(is_null(reference)), negate(is_date)])


def _sqlite_timestamp(reference: exp.Expr) -> exp.Expr:
    """Return the timestamp with six fractional digits, so that strings compare as timestamps do."""
    has_fraction = binary(exp.GT, call("LENGTH", reference), number(19))
    digits = case_when(has_fraction, exp.Literal.string("000000"), exp.Literal.string(".000000"))
    fraction = binary(exp.DPipe, reference, exp.Paren(this=digits))
    return call("SUBSTR", fraction, number(1), number(26))


def _is_not_timestamp(reference: exp.Expr) -> exp.Expr:
    """Return the condition of values that are neither NULL nor `YYYY-MM-DD HH:MM:SS[.ffffff]`."""
    start, rest = call("SUBSTR", reference, number(1), number(19)), call("SUBSTR", reference, number(20))
    seconds = call("STRFTIME", exp.Literal.string(_SQLITE_SECONDS_FORMAT), start)
    digits = call("SUBSTR", reference, number(21))
    has_fraction = all_of(
        [
            exp.Glob(this=rest, expression=exp.Literal.string(".[0-9]*")),
            negate(exp.Glob(this=digits, expression=exp.Literal.string("*[^0-9]*"))),
            binary(exp.LTE, call("LENGTH", reference), number(26)),
        ]
    )
    is_valid = all_of(
        [
            binary(exp.EQ, call("TYPEOF", reference), exp.Literal.string("text")),
            binary(exp.NullSafeEQ, seconds, collate(start, "BINARY")),
            any_of([binary(exp.EQ, rest, exp.Literal.string("")), has_fraction]),
        ]
    )
    return all_of([negate(is_null(reference)), negate(is_valid)])
