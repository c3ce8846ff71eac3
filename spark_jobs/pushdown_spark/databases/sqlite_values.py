"""Values of SQLite columns. A column may hold values of any type, whatever its declared type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.remote_table import Dialect, RemoteColumn
from pushdown_spark.databases.sql_builder import (
    all_of,
    any_of,
    binary,
    call,
    cast,
    in_list,
    is_null,
    negated,
)
from pushdown_spark.databases.sql_literals import number
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.types import LogicalType

_STORAGE = {
    LogicalType.INTEGER: "INTEGER",
    LogicalType.DOUBLE: "REAL",
    LogicalType.STRING: "TEXT",
    LogicalType.BINARY: "BLOB",
}
_AFFINITIES = (
    ("int", LogicalType.INTEGER),
    ("char", LogicalType.STRING),
    ("clob", LogicalType.STRING),
    ("text", LogicalType.STRING),
    ("blob", LogicalType.BINARY),
    ("real", LogicalType.DOUBLE),
    ("floa", LogicalType.DOUBLE),
    ("doub", LogicalType.DOUBLE),
)
"""SQLite's rules of type affinity, in its order. The first substring of a declared type that matches decides."""
_EXACT_DIGITS = 15
"""Decimals with up to this number of digits are exact as doubles."""
_SECONDS_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class SqliteValue:
    """The expression of a value, and the condition of the rows where Spark may read another value."""

    value: Callable[[], exp.Expr]
    guard: Callable[[], exp.Expr] | None = None


def affinity(declared: str) -> LogicalType | None:
    """Return the kind to which SQLite converts values if possible. None for NUMERIC affinity."""
    if not declared.strip():
        return LogicalType.BINARY
    return next((kind for part, kind in _AFFINITIES if part in declared.lower()), None)


def sqlite_value(column: RemoteColumn, kind: LogicalType, numbers: tuple[int, ...]) -> SqliteValue:
    """Return the expression of a column's values as Spark reads them.

    Raises UnsupportedError for types whose values SQLite does not preserve.
    """
    column_affinity = affinity(column.remote_type)
    is_full_width = kind is not LogicalType.INTEGER or column.spark_type == t.LongType()
    if column_affinity is kind and kind in _STORAGE and is_full_width:
        return SqliteValue(lambda: _stored(column, kind))
    declared = column.remote_type.lower()
    if kind is LogicalType.BOOLEAN and "bool" in declared:
        return SqliteValue(lambda: binary(exp.NEQ, cast(column.reference, "INTEGER", Dialect.SQLITE), number(0)))
    if kind is LogicalType.DECIMAL and column_affinity is None:
        return _decimal(column, numbers)
    if kind is LogicalType.DATE and declared.startswith("date") and "time" not in declared:
        return SqliteValue(lambda: column.reference, lambda: _is_not_date(column))
    if kind is LogicalType.TIMESTAMP_NTZ and ("datetime" in declared or "timestamp" in declared):
        return SqliteValue(lambda: _timestamp(column), lambda: _is_not_timestamp(column))
    spark = column.spark_type.simpleString()
    raise UnsupportedError(f"{column.name} is {declared or 'untyped'} in SQLite and {spark} in Spark")


def _stored(column: RemoteColumn, kind: LogicalType) -> exp.Expr:
    return column.reference if column.uniform else cast(column.reference, _STORAGE[kind], Dialect.SQLITE)


def _decimal(column: RemoteColumn, numbers: tuple[int, ...]) -> SqliteValue:
    """Return the value of a decimal. SQLite stores doubles, and readers round those with more digits than the scale."""
    assert isinstance(column.spark_type, t.DecimalType)
    precision, scale = column.spark_type.precision, column.spark_type.scale
    if precision > _EXACT_DIGITS or numbers not in ((precision, scale), *([(precision,)] if scale == 0 else [])):
        raise UnsupportedError(f"{column.name} has more digits than SQLite preserves, or no declared number of digits")

    def guard() -> exp.Expr:
        number_classes = [exp.Literal.string(name) for name in ("integer", "real", "null")]
        not_a_number = negated(in_list(call("TYPEOF", column.reference), number_classes, Dialect.SQLITE))
        rounded = binary(exp.NEQ, column.reference, call("ROUND", column.reference, number(scale)))
        too_large = binary(exp.GTE, call("ABS", column.reference), number(10 ** (precision - scale)))
        return any_of([not_a_number, rounded, too_large])

    return SqliteValue(lambda: column.reference, guard)


def _is_not_date(column: RemoteColumn) -> exp.Expr:
    """Return the condition of values that are neither NULL nor dates in SQLite's own format."""
    normalized = call("DATE", column.reference)
    return all_of(
        [
            negated(is_null(column.reference)),
            negated(_equal_bytes(normalized, column.reference)),
        ]
    )


def _equal_bytes(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return binary(exp.NullSafeEQ, left, exp.Collate(this=right, expression=exp.Var(this="BINARY")))


def _timestamp(column: RemoteColumn) -> exp.Expr:
    """Return the timestamp with six fractional digits, so that strings compare as timestamps do."""
    has_fraction = binary(exp.GT, call("LENGTH", column.reference), number(19))
    digits = exp.Case(
        ifs=[exp.If(this=has_fraction, true=exp.Literal.string("000000"))], default=exp.Literal.string(".000000")
    )
    padded = binary(exp.DPipe, column.reference, exp.Paren(this=digits))
    return call("SUBSTR", padded, number(1), number(26))


def _is_not_timestamp(column: RemoteColumn) -> exp.Expr:
    """Return the condition of values that are neither NULL nor `YYYY-MM-DD HH:MM:SS[.ffffff]`."""
    start = call("SUBSTR", column.reference, number(1), number(19))
    is_normalized = _equal_bytes(call("STRFTIME", exp.Literal.string(_SECONDS_FORMAT), start), start.copy())
    rest = call("SUBSTR", column.reference, number(20))
    no_digits = exp.Glob(this=call("SUBSTR", column.reference, number(21)), expression=exp.Literal.string("*[^0-9]*"))
    fraction = all_of(
        [
            exp.Glob(this=rest.copy(), expression=exp.Literal.string(".[0-9]*")),
            negated(no_digits),
            binary(exp.LTE, call("LENGTH", column.reference), number(26)),
        ]
    )
    is_text = binary(exp.EQ, call("TYPEOF", column.reference), exp.Literal.string("text"))
    is_valid = all_of([is_text, is_normalized, any_of([binary(exp.EQ, rest, exp.Literal.string("")), fraction])])
    return all_of([negated(is_null(column.reference)), negated(is_valid)])
