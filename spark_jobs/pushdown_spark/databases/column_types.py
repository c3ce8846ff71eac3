"""Types of the columns of a new table, for Spark's types."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as t

from pushdown_spark.databases.remote_table import Dialect
from pushdown_spark.errors import BadSpecError

_POSTGRESQL: Mapping[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.StringType: "text",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamptz",
    t.TimestampNTZType: "timestamp",
}
_MYSQL: Mapping[type[t.DataType], str] = {
    t.BooleanType: "bit(1)",
    t.ByteType: "tinyint",
    t.ShortType: "smallint",
    t.IntegerType: "int",
    t.LongType: "bigint",
    t.FloatType: "float",
    t.DoubleType: "double",
    # Strings are equal only if their bytes are, as in Spark.
    t.StringType: "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    t.BinaryType: "longblob",
    t.DateType: "date",
    # Without NULL, older servers fill in the current time.
    t.TimestampType: "timestamp(6) NULL",
    t.TimestampNTZType: "datetime(6)",
}
_SQLITE: Mapping[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    **dict.fromkeys((t.ByteType, t.ShortType, t.IntegerType, t.LongType), "bigint"),
    t.FloatType: "real",
    t.DoubleType: "double",
    t.StringType: "text",
    t.BinaryType: "blob",
    t.DateType: "date",
    **dict.fromkeys((t.TimestampType, t.TimestampNTZType), "timestamp"),
}
_TYPES = {Dialect.POSTGRES: _POSTGRESQL, Dialect.MYSQL: _MYSQL, Dialect.MARIADB: _MYSQL, Dialect.SQLITE: _SQLITE}


def declared_type(field: t.StructField, dialect: Dialect) -> str:
    """Return the type of a new column. Raises BadSpecError if the database has none for the column's Spark type."""
    kind = field.dataType
    is_array = isinstance(kind, t.ArrayType) and dialect is Dialect.POSTGRES
    name = _scalar_type(kind.elementType if isinstance(kind, t.ArrayType) and is_array else kind, dialect)
    if name is None:
        advice = "cast it in the query" if isinstance(kind, t.NullType) else "use to_json(...) or cast it in the query"
        raise BadSpecError(
            f"output_table: column {field.name} is {kind.simpleString()}, for which {dialect} has no type; {advice}"
        )
    return f"{name}[]" if is_array else name


def _scalar_type(kind: t.DataType, dialect: Dialect) -> str | None:
    if isinstance(kind, t.DecimalType):
        return f"{'numeric' if dialect is Dialect.POSTGRES else 'decimal'}({kind.precision},{kind.scale})"
    return _TYPES[dialect].get(type(kind))
