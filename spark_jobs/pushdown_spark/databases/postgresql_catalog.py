"""The columns of a PostgreSQL table: their types in Spark, and how they are selected to arrive as those."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import WideNumbers
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.names import table_name
from pushdown_spark.databases.postgresql import LONG_DIGITS, PostgresqlClient
from pushdown_spark.databases.render import cast
from pushdown_spark.errors import RemoteRefusedError

_TYPE = """
lower(pg_catalog.format_type(b.oid, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE {modifier} END)),
b.typtype = 'e', pg_catalog.pg_encoding_to_char(d.encoding)
"""
_NAMED = """
JOIN pg_catalog.pg_type t ON t.oid = {oid}
JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
JOIN pg_catalog.pg_database d ON d.datname = current_database()
"""
_COLUMNS = f"""
SELECT a.attname, NOT a.attnotnull, c.collname, coalesce(c.collisdeterministic, true),
{_TYPE.format(modifier="a.atttypmod")}
FROM pg_catalog.pg_attribute a
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation AND c.collname <> 'default'
{_NAMED.format(oid="a.atttypid")}
WHERE a.attrelid = to_regclass(%s)::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""  # noqa: S608 -- made of constants
_TYPES = f"""
SELECT {_TYPE.format(modifier="q.modifier")}
FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS q(oid, modifier, place)
{_NAMED.format(oid="q.oid")}
ORDER BY q.place
"""  # noqa: S608 -- made of constants
_ALL_DETERMINISTIC = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_collation WHERE NOT collisdeterministic)"
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?$")
_ATOMS: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "smallint": t.ShortType(),
    "integer": t.IntegerType(),
    "bigint": t.LongType(),
    "real": t.FloatType(),
    "double precision": t.DoubleType(),
    "text": t.StringType(),
    "name": t.StringType(),
    "bytea": t.BinaryType(),
    "date": t.DateType(),
}
_MOST_DIGITS = 38


def postgresql_table(
    client: PostgresqlClient, table: str | None, query: str | None, wide_numbers: WideNumbers
) -> RemoteTable:
    """A table, a view or a query. Raises RemoteRefusedError where there is no table of that name."""
    if query is not None:
        described = client.types(query)
        ((deterministic,),) = client.rows(_ALL_DETERMINISTIC)
        kinds = client.rows(_TYPES, [oid for _, oid, _ in described], [modifier for _, _, modifier in described])
        found = [(row[0], True, None, deterministic, *kind) for row, kind in zip(described, kinds, strict=True)]
        return RemoteTable(Dialect.POSTGRES, "query", _columns(found, wide_numbers), subquery=query)
    parts = table_name(table or "")
    name = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    columns = _columns(client.rows(_COLUMNS, name), wide_numbers)
    if not columns and client.rows("SELECT to_regclass(%s)::oid", name) == [(None,)]:
        raise RemoteRefusedError(f"there is no table {table} in the database; check `table` and the search path")
    schema, catalog = (*reversed(parts[:-1]), None, None)[:2]
    return RemoteTable(Dialect.POSTGRES, parts[-1], columns, schema=schema, catalog=catalog)


def _columns(found: Sequence[Row], wide_numbers: WideNumbers) -> tuple[RemoteColumn, ...]:
    return tuple(_column(row, wide_numbers) for row in found)


def _column(row: Row, wide_numbers: WideNumbers) -> RemoteColumn:
    name, nullable, collation, deterministic, remote_type, is_enum, encoding = row
    reference = exp.Column(this=exp.to_identifier(str(name), quoted=True))
    spark_type, rendering = _delivered(str(remote_type), reference, wide_numbers)
    return RemoteColumn(
        str(name),
        str(remote_type),
        spark_type,
        nullable=bool(nullable),
        charset=str(encoding) if isinstance(spark_type, t.StringType) else None,
        collation=None if collation is None else str(collation),
        deterministic=bool(deterministic),
        is_enum=bool(is_enum),
        rendering=rendering,
    )


def _delivered(remote_type: str, column: exp.Column, wide_numbers: WideNumbers) -> tuple[t.DataType, exp.Expr | None]:
    """Spark's type for a column, and what is selected for it where that is not the column alone."""
    if remote_type in _ATOMS:
        return _ATOMS[remote_type], None
    if remote_type.startswith(("character(", "character varying", "bpchar")) and not remote_type.endswith("]"):
        return t.StringType(), None
    if remote_type.startswith("timestamp") and not remote_type.endswith("]"):
        return (t.TimestampType() if remote_type.endswith("with time zone") else t.TimestampNTZType()), None
    if found := _NUMERIC.match(remote_type):
        return _numeric(found, column, wide_numbers)
    if remote_type == "bit(1)":
        bit = cast(exp.Literal.string("1"), "bit(1)", Dialect.POSTGRES)
        return t.BooleanType(), exp.EQ(this=column, expression=bit)
    if remote_type.endswith("[]"):
        return _array(remote_type.removesuffix("[]"), column)
    return t.StringType(), cast(column, "text", Dialect.POSTGRES)


def _numeric(found: re.Match[str], column: exp.Column, wide_numbers: WideNumbers) -> tuple[t.DataType, exp.Expr | None]:
    digits = (int(found.group(1)), int(found.group(2))) if found.group(1) else None
    fits = digits is not None and 0 <= digits[1] <= digits[0] <= _MOST_DIGITS
    if digits is not None and fits:
        spark_type = t.DecimalType(*digits)
        if digits[0] > LONG_DIGITS:
            return spark_type, cast(column, "text", Dialect.POSTGRES)
        # A whole number crosses in 8 bytes and becomes a decimal by its scale alone; a text takes five times as long.
        scaled = exp.Mul(this=column, expression=exp.Literal.number(10 ** digits[1])) if digits[1] else column
        return spark_type, cast(exp.Paren(this=scaled) if digits[1] else column, "bigint", Dialect.POSTGRES)
    if wide_numbers is WideNumbers.TEXT:
        return t.StringType(), cast(column, "text", Dialect.POSTGRES)
    spark_type = t.DecimalType(38, 18 if digits is None else max(0, min(digits[1], 38)))
    return spark_type, cast(column, "text", Dialect.POSTGRES)


def _array(element: str, column: exp.Column) -> tuple[t.DataType, exp.Expr | None]:
    """One dimension only: Arrow's driver would hand on the others as one long one."""
    if element in ("boolean", "smallint", "integer", "bigint", "real", "double precision", "text", "date"):
        kind, base = _ATOMS[element], element
    else:
        kind, base = t.StringType(), "text"
    array_type = f"{base}[]"
    more = exp.GT(this=exp.Anonymous(this="array_ndims", expressions=[column]), expression=exp.Literal.number(1))
    # A text that is no array of the type is refused by the server, in a row that has one, with the value shown.
    nested = exp.DPipe(
        this=cast(column, "text", Dialect.POSTGRES), expression=exp.Literal.string(" has two dimensions")
    )
    refused = cast(nested, array_type, Dialect.POSTGRES)
    plain = column if base == element else cast(column, array_type, Dialect.POSTGRES)
    return t.ArrayType(kind), exp.Case(ifs=[exp.If(this=more, true=refused)], default=plain)
