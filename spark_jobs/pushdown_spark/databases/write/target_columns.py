"""The columns of a table that take the columns of a job's rows: matched by name, with the limits of their types."""

from __future__ import annotations

import re

from pyspark.sql import types as t

from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.sql.column_operands import sqlite_affinity
from pushdown_spark.databases.sql.identifiers import POSTGRESQL_NAME_BYTES
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.write.write_dialect import WRITE_DIALECTS
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import EXACT_NAMES, NameRule
from pushdown_spark.expressions.types import LogicalType

_INTEGER_BITS: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_MYSQL_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_MAX_EXACT_DOUBLE = 2**53
_SQLITE_EXACT_DIGITS = 15
"""SQLite stores decimals as doubles, which hold this number of digits."""
_LENGTH = re.compile(r"(?:character varying|character|varchar|char|bpchar|varbinary|binary) ?\((\d+)\)")
_PADDED = re.compile(r"(?:character|char|bpchar|binary) ?\(")
_TEXT_BYTES = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1, "long": 2**32 - 1}
_TEXT_TYPE = re.compile(r"(tiny|medium|long|)(?:text|blob)$")
_FRACTION = re.compile(r"(?:timestamp|datetime)\((\d)\)")
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_TIME = re.compile(r"(?:time|interval)(?:\((\d)\))?(?: |\[|$)")
_ROUNDED = re.compile(r"(?:float|double)\(\d+,\d+\)|money|numeric\(\d+,-")
"""Types that round values without an error."""
_POSTGRESQL_LOSSY = re.compile(
    r'"char"|(?:oid|oidvector|xid|xid8|cid)(?:\[|$)|interval (?:year|month|day|hour|minute|second)'
)
"""Types of PostgreSQL that cut strings off, wrap negative integers, or drop the fields that they lack."""
_BIT = re.compile(r"bit\((\d+)\)")
_LABEL = re.compile(r"'((?:[^']|'')*)'")

_MYSQL_TIMESTAMPS = (1_000_000, (2**31) * 1_000_000 - 1)

_COMPATIBLE_TYPES: tuple[tuple[type[t.DataType], type[t.DataType]], ...] = (
    (t.BooleanType, t.BooleanType),
    (t.BooleanType, t.ByteType),
    *((source, target) for source in _INTEGER_BITS for target in _INTEGER_BITS),
    *((source, target) for source in _INTEGER_BITS for target in (t.DecimalType, t.FloatType, t.DoubleType)),
    (t.DecimalType, t.DecimalType),
    *((source, target) for source in (t.FloatType, t.DoubleType) for target in (t.FloatType, t.DoubleType)),
    (t.StringType, t.StringType),
    (t.BinaryType, t.BinaryType),
    (t.DateType, t.DateType),
    (t.TimestampType, t.TimestampType),
    (t.TimestampType, t.TimestampNTZType),
    (t.TimestampNTZType, t.TimestampNTZType),
)
"""Pairs of a Spark type and the type of a column that takes it. A timestamp becomes local time in a column without a
time zone, as in Spark's cast."""


def target_columns(schema: t.StructType, table: RemoteTable, *, name_rule: NameRule) -> tuple[TargetColumn, ...]:
    """Return the columns of a table that take the columns of a schema, in the order of the schema.

    Raises BadSpecError if a column is missing on one side, or if its type does not take the values.
    """
    columns = {field.name: _column_of(field.name, table, name_rule) for field in schema.fields}
    names = [column.name for column in columns.values() if column is not None]
    extra = [name for name, column in columns.items() if column is None]
    missing = [column.name for column in table.columns if column.name not in names]
    if extra or missing or len(names) != len(schema.fields) or len(set(names)) != len(names):
        computed_keys = {name_rule.key(name) for name in table.generated_columns}
        computed = [name for name in extra if name_rule.key(name) in computed_keys]
        unknown = [name for name in extra if name not in computed]
        parts = [f"the table has no column {', '.join(unknown)}"] if unknown else []
        parts += [f"the database computes the column {', '.join(computed)}"] if computed else []
        parts += [f"the rows have no column {', '.join(missing)}"] if missing else []
        raise BadSpecError(
            f"output_table: the columns differ: {'; '.join(parts) or 'two columns of the rows have one name'}. Select "
            "exactly the columns of the table that the database does not compute, in any order"
        )
    return tuple(_target_column(field, columns[field.name], table.dialect) for field in schema.fields)


def _column_of(name: str, table: RemoteTable, name_rule: NameRule) -> RemoteColumn | None:
    return table.column(name, name_rule=EXACT_NAMES) or table.column(name, name_rule)


def _target_column(field: t.StructField, column: RemoteColumn | None, dialect: Dialect) -> TargetColumn:
    """Return a column of the table, with the limits within which it stores values of Spark's type unchanged.

    Raises BadSpecError if it does not take the type.
    """
    assert column is not None
    column_type, target = column.remote_type, _value_type(column)
    if (
        not _takes(field.dataType, target)
        or _is_lossy(column_type, dialect)
        or _is_geometry(field.dataType, column_type)
    ):
        raise BadSpecError(
            f"output_table: column {column.name} is {column_type} in the table, which does not take "
            f"{field.dataType.simpleString()}; cast it in the query, or change the type of the column"
        )
    element = target.elementType if isinstance(target, t.ArrayType) else target
    length = _LENGTH.match(column_type)
    is_mysql, is_sqlite = dialect.is_mysql, dialect is Dialect.SQLITE
    is_text = isinstance(element, t.StringType)
    return TargetColumn(
        name=column.name,
        column_type=column_type,
        database=WRITE_DIALECTS[dialect].product,
        bounds=_bounds(element, column_type, dialect),
        digits=_digits(element, column_type),
        max_length=int(length.group(1)) if length and not is_sqlite else None,
        max_bytes=_max_bytes(column_type, dialect),
        step=_step(element, column_type, dialect),
        max_fraction=_max_fraction(column_type, dialect) if is_text else None,
        max_digits=_SQLITE_EXACT_DIGITS if is_sqlite else None,
        has_nul=dialect is not Dialect.POSTGRES,
        has_nan=dialect is Dialect.POSTGRES,
        has_infinity=not is_mysql,
        is_padded=bool(_PADDED.match(column_type)) and not is_sqlite,
        is_single=isinstance(element, t.FloatType),
        is_numeric_text=is_sqlite and is_text and _has_numeric_affinity(column_type),
        is_required=column.is_required,
        labels=_labels(column_type) if is_mysql else (),
    )


def _value_type(column: RemoteColumn) -> t.DataType:
    """Return the type of the values that a column holds. The reader gets arrays of some types as strings."""
    element = column.remote_type.removesuffix("[]")
    if element == column.remote_type:
        return column.spark_type
    if element.startswith("timestamp"):
        return t.ArrayType(t.TimestampType() if element.endswith("with time zone") else t.TimestampNTZType())
    if element == "bytea":
        return t.ArrayType(t.BinaryType())
    numeric = _NUMERIC.fullmatch(element)
    return t.ArrayType(t.DecimalType(int(numeric[1]), int(numeric[2]))) if numeric else column.spark_type


def _takes(source: t.DataType, target: t.DataType) -> bool:
    """Return whether a column of the type `target` takes values of the type `source`."""
    if isinstance(source, t.NullType):
        return True
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return not isinstance(source.elementType, t.ArrayType) and _takes(source.elementType, target.elementType)
    return any(isinstance(source, left) and isinstance(target, right) for left, right in _COMPATIBLE_TYPES)


def _is_lossy(column_type: str, dialect: Dialect) -> bool:
    """Return whether the database changes values for this type without an error."""
    is_lossy_string = dialect is Dialect.POSTGRES and _POSTGRESQL_LOSSY.match(column_type)
    return bool(_ROUNDED.match(column_type) or is_lossy_string)


def _is_geometry(source: t.DataType, column_type: str) -> bool:
    return isinstance(source, t.BinaryType) and not re.match(r"bytea|.*(?:blob|binary)", column_type)


def _bounds(target: t.DataType, column_type: str, dialect: Dialect) -> tuple[int, int] | None:
    if isinstance(target, t.TimestampType) and dialect.is_mysql:
        return _MYSQL_TIMESTAMPS
    if dialect.is_mysql and (bit := _BIT.fullmatch(column_type)):
        return 0, 2 ** int(bit[1]) - 1
    if isinstance(target, t.FloatType | t.DoubleType):
        largest = 2**24 if isinstance(target, t.FloatType) else _MAX_EXACT_DOUBLE
        return -largest, largest
    if isinstance(target, t.DecimalType):
        limit = 10 ** (target.precision - target.scale) - 1
        return (0 if "unsigned" in column_type else -limit), limit
    bits = _INTEGER_BITS.get(type(target))
    if dialect.is_mysql and column_type.startswith("year"):
        return 1901, 2155
    if dialect.is_mysql:
        bits = _MYSQL_BITS.get(re.split(r"[ (]", column_type)[0], bits)
    if bits is None:
        return None
    return (0, 2**bits - 1) if "unsigned" in column_type else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _digits(target: t.DataType, column_type: str) -> tuple[int, int] | None:
    """Return precision and scale. PostgreSQL's numeric without them has no limit."""
    if not isinstance(target, t.DecimalType) or column_type.removesuffix("[]") == "numeric":
        return None
    return target.precision, target.scale


def _step(target: t.DataType, column_type: str, dialect: Dialect) -> int:
    if dialect is Dialect.SQLITE or not isinstance(target, t.TimestampType | t.TimestampNTZType):
        return 1
    fraction = _FRACTION.match(column_type)
    digits = int(fraction.group(1)) if fraction else (0 if dialect.is_mysql else 6)
    return int(10 ** (6 - digits))


def _max_bytes(column_type: str, dialect: Dialect) -> int | None:
    if dialect is Dialect.POSTGRES:
        return POSTGRESQL_NAME_BYTES if column_type.removesuffix("[]") == "name" else None
    text = _TEXT_TYPE.match(column_type)
    return _TEXT_BYTES[text.group(1)] if text and dialect.is_mysql else None


def _max_fraction(column_type: str, dialect: Dialect) -> int | None:
    """Return the fractional digits of a time of day, which databases would round."""
    time = _TIME.match(column_type)
    if time is None or dialect is Dialect.SQLITE:
        return None
    return int(time[1]) if time[1] else (0 if dialect.is_mysql else 6)


def _labels(column_type: str) -> tuple[str, ...]:
    """Return the values of an enum or a set of MySQL, which takes other strings for their numbers or changes them."""
    is_listed = column_type.startswith(("enum(", "set("))
    return tuple(label.replace("''", "'") for label in _LABEL.findall(column_type)) if is_listed else ()


def _has_numeric_affinity(column_type: str) -> bool:
    return bool(column_type.strip()) and sqlite_affinity(column_type) not in (LogicalType.STRING, LogicalType.BINARY)
