"""Columns of PostgreSQL tables: their Spark types, and the SELECT expressions that deliver values of those types."""

from __future__ import annotations

import re

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import WideNumbers
from pushdown_spark.databases.client import Row
from pushdown_spark.databases.clients.arrow_conversion import MAX_SHOWN_CHARACTERS
from pushdown_spark.databases.clients.postgresql import LONG_DIGITS, NESTED_ARRAY, PostgresqlClient
from pushdown_spark.databases.sql.builder import call, case_when, cast
from pushdown_spark.databases.sql.identifiers import quote_ansi
from pushdown_spark.databases.sql.remote_table import (
    Dialect,
    RemoteColumn,
    RemoteTable,
    column_reference,
    parse_table_name,
)
from pushdown_spark.errors import RemoteRefusedError
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

_TYPE = """
lower(pg_catalog.format_type(b.oid, b.modifier)), b.typtype = 'e', pg_catalog.pg_encoding_to_char(d.encoding)
"""
_TYPE_JOINS = """
CROSS JOIN LATERAL (
    WITH RECURSIVE resolved(oid, modifier, typtype, base, base_modifier) AS (
        SELECT t.oid, {modifier}, t.typtype, t.typbasetype, t.typtypmod FROM pg_catalog.pg_type t WHERE t.oid = {oid}
        UNION ALL
        SELECT t.oid, r.base_modifier, t.typtype, t.typbasetype, t.typtypmod
        FROM resolved r JOIN pg_catalog.pg_type t ON t.oid = r.base WHERE r.typtype = 'd'
    )
    SELECT oid, modifier, typtype FROM resolved WHERE typtype <> 'd'
) b
JOIN pg_catalog.pg_database d ON d.datname = current_database()
"""
"""A domain has the type on which it is based, possibly over other domains."""
_COLUMNS = f"""
SELECT a.attname, c.collname, coalesce(c.collisdeterministic, true),
{_TYPE}
FROM pg_catalog.pg_attribute a
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation AND c.collname <> 'default'
{_TYPE_JOINS.format(oid="a.atttypid", modifier="a.atttypmod")}
WHERE a.attrelid = to_regclass(%s)::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""  # noqa: S608 -- built from constants
_TYPES = f"""
SELECT {_TYPE}
FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS q(oid, modifier, place)
{_TYPE_JOINS.format(oid="q.oid", modifier="q.modifier")}
ORDER BY q.place
"""  # noqa: S608 -- built from constants
_ALL_DETERMINISTIC = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_collation WHERE NOT collisdeterministic)"
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?$")
_SIMPLE_TYPES: dict[str, t.DataType] = {
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


def postgresql_table(
    client: PostgresqlClient, table: str | None, query: str | None, wide_numbers: WideNumbers
) -> RemoteTable:
    """Return the columns of a table, a view or a query. Raises RemoteRefusedError if there is no such table."""
    if query is not None:
        result_columns = client.describe(query)
        ((deterministic,),) = client.rows(_ALL_DETERMINISTIC)
        types = client.rows(
            _TYPES, [oid for _, oid, _ in result_columns], [modifier for _, _, modifier in result_columns]
        )
        rows = [(name, None, deterministic, *row) for (name, _, _), row in zip(result_columns, types, strict=True)]
        columns = tuple(_column(row, wide_numbers) for row in rows)
        return RemoteTable(Dialect.POSTGRES, "query", columns, subquery=query)
    parts = parse_table_name(table or "")
    name = ".".join(map(quote_ansi, parts))
    columns = tuple(_column(row, wide_numbers) for row in client.rows(_COLUMNS, name))
    if not columns and client.rows("SELECT to_regclass(%s)::oid", name) == [(None,)]:
        raise RemoteRefusedError(f"there is no table {table} in the database; check `table` and the search path")
    schema, catalog = (*reversed(parts[:-1]), None, None)[:2]
    return RemoteTable(Dialect.POSTGRES, parts[-1], columns, schema=schema, catalog=catalog)


def _column(row: Row, wide_numbers: WideNumbers) -> RemoteColumn:
    name, collation, deterministic, remote_type, is_enum, encoding = row
    reference = column_reference(str(name))
    spark_type, rendering = _spark_type(str(remote_type), reference, wide_numbers)
    return RemoteColumn(
        name=str(name),
        remote_type=str(remote_type),
        spark_type=spark_type,
        charset=str(encoding) if isinstance(spark_type, t.StringType) else None,
        collation=None if collation is None else str(collation),
        has_deterministic_collation=bool(deterministic),
        is_enum=bool(is_enum),
        rendering=rendering,
    )


def _spark_type(remote_type: str, column: exp.Column, wide_numbers: WideNumbers) -> tuple[t.DataType, exp.Expr | None]:
    """Return the Spark type of a column, and its SELECT expression, or None for the bare column."""
    if remote_type in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[remote_type], None
    if remote_type.startswith(("character(", "character varying", "bpchar")) and not remote_type.endswith("]"):
        return t.StringType(), None
    if remote_type.startswith("timestamp") and not remote_type.endswith("]"):
        return (t.TimestampType() if remote_type.endswith("with time zone") else t.TimestampNTZType()), None
    text = cast(column, "text", Dialect.POSTGRES)
    if match := _NUMERIC.match(remote_type):
        return _numeric(match, column, text, wide_numbers)
    if remote_type == "bit(1)":
        bit = cast(exp.Literal.string("1"), "bit(1)", Dialect.POSTGRES)
        return t.BooleanType(), exp.EQ(this=column, expression=bit)
    if remote_type.endswith("[]"):
        return _array(remote_type.removesuffix("[]"), column)
    return t.StringType(), text


def _numeric(
    match: re.Match[str], column: exp.Column, text: exp.Expr, wide_numbers: WideNumbers
) -> tuple[t.DataType, exp.Expr]:
    digits = (int(match.group(1)), int(match.group(2))) if match.group(1) else None
    if digits is not None and 0 <= digits[1] <= digits[0] <= MAX_DECIMAL_DIGITS:
        if digits[0] > LONG_DIGITS:
            return t.DecimalType(*digits), text
        # An unscaled integer takes 8 bytes and needs no parsing, unlike a string.
        product = exp.Paren(this=exp.Mul(this=column, expression=exp.Literal.number(10 ** digits[1])))
        return t.DecimalType(*digits), cast(product if digits[1] else column, "bigint", Dialect.POSTGRES)
    if wide_numbers is WideNumbers.TEXT:
        return t.StringType(), text
    return t.DecimalType(38, 18 if digits is None else max(0, min(digits[1], 38))), text


def _array(element: str, column: exp.Column) -> tuple[t.DataType, exp.Expr | None]:
    """Return the type of a one-dimensional array. The driver would flatten the others, so they raise.

    They raise the server's error for a string that is not an array. The client recognizes that string.
    """
    base = element if element in _SIMPLE_TYPES and element not in ("name", "bytea") else "text"
    array_type = f"{base}[]"
    is_nested = exp.GT(this=call("array_ndims", column), expression=exp.Literal.number(1))
    start = call("left", cast(column, "text", Dialect.POSTGRES), exp.Literal.number(MAX_SHOWN_CHARACTERS))
    problem = call(
        "concat",
        exp.Literal.string(f"column {column.name} holds "),
        start,
        exp.Literal.string(NESTED_ARRAY),
    )
    failing_cast = cast(problem, array_type, Dialect.POSTGRES)
    plain = column if base == element else cast(column, array_type, Dialect.POSTGRES)
    return t.ArrayType(_SIMPLE_TYPES[base]), case_when(is_nested, failing_cast, plain)
