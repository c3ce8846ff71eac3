"""Selectivity samples of MySQL and MariaDB, and the statements that benefit from a low selectivity.

Neither server estimates the selectivity of a condition that no index answers. `sample_selectivity` therefore evaluates
the condition on rows after evenly spaced keys of an index.

InnoDB materializes every column that a statement names before the server evaluates the condition. If few rows pass, it
is faster to find their primary keys first, with few columns, and to look the rows up (`key_lookup_query`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.client import Client
from pushdown_spark.databases.read.database_statistics import key_extent
from pushdown_spark.databases.sql.builder import all_of, is_true, table_reference, to_sql
from pushdown_spark.databases.sql.remote_query import RemoteQuery
from pushdown_spark.databases.sql.remote_table import RemoteTable, column_reference, quote_identifier
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError
from pushdown_spark.expressions.names import EXACT_NAMES

_INDEXES = """
SELECT s.index_name, s.column_name, r.table_rows, r.engine FROM information_schema.statistics s
JOIN information_schema.tables r ON r.table_schema = s.table_schema AND r.table_name = s.table_name
WHERE s.table_schema = coalesce(%s, database()) AND s.table_name = %s AND s.index_type = 'BTREE'
ORDER BY s.index_name <> 'PRIMARY', s.non_unique, s.index_name, s.seq_in_index
"""
_SAMPLE_POSITIONS, _ROWS_PER_POSITION = 10, 320
_STANDARD_DEVIATIONS = 2
_UNSEEN_ROWS = 3
"""Rows added to the matches of a sample: at a higher rate, a sample without a match has a probability below 5 %."""
_LONG_TYPES = ("text", "blob", "json", "binary")
_MAX_FRACTION_PER_COLUMN = 0.005
"""Fraction of the rows whose lookup costs as much as materializing one more column of all rows (measured)."""


@dataclass(frozen=True)
class SelectivitySample:
    """An upper estimate of the rows that pass a condition, as a number and as a fraction of the table.

    `key` has the columns of the clustered primary key. It is empty if the table has none.
    """

    rows: float
    fraction: float
    key: tuple[str, ...]


def sample_selectivity(client: Client, table: RemoteTable, condition: exp.Expr) -> SelectivitySample | None:
    """Estimate the rows that pass a condition, or None without a suitable index. Raises LostConnectionError."""
    names = sorted({column.name for column in condition.find_all(exp.Column)})
    columns = [table.column(name, name_rule=EXACT_NAMES) for name in names]
    if any(column is None or any(kind in column.remote_type for kind in _LONG_TYPES) for column in columns):
        return None
    try:
        index_rows = client.rows(_INDEXES, table.schema, table.name)
        by_name = groupby(index_rows, key=lambda row: str(row[0]))
        indexes = {name: tuple(str(row[1]) for row in rows) for name, rows in by_name}
        for index, (first, *_) in indexes.items():
            column = table.column(first, name_rule=EXACT_NAMES)
            if column is not None and isinstance(column.spark_type, t.IntegralType):
                fraction = _sample_fraction(client, table, index, key=first, names=names, condition=condition)
                table_rows, engine = float(str(index_rows[0][2] or 0)), str(index_rows[0][3])
                # The index of the primary key is the first one.
                key = indexes.get("PRIMARY", ()) if engine == "InnoDB" else ()
                return None if fraction is None else SelectivitySample(fraction * table_rows, fraction, key)
    except (RemoteFailedError, RemoteRefusedError):
        # The estimate is optional: a user who may not read the catalog can still read the table.
        return None
    return None


def _sample_fraction(
    client: Client, table: RemoteTable, index: str, *, key: str, names: Sequence[str], condition: exp.Expr
) -> float | None:
    """Return an upper estimate of the fraction of rows that pass. `key` is the first column of the index."""
    extent = key_extent(client, table, key)
    if extent is None:
        return None
    low, high = map(int, extent)
    starts = sorted({low + (high - low) * position // _SAMPLE_POSITIONS for position in range(_SAMPLE_POSITIONS)})
    parts = [_rows_from(table, index, key, start, names) for start in starts]
    union = reduce(lambda left, right: exp.Union(this=left, expression=right, distinct=False), parts)
    rows = exp.Subquery(this=union, alias=exp.TableAlias(this=quote_identifier(table.name)))
    counts = [exp.Count(this=exp.Star()), exp.Sum(this=is_true(condition.copy()))]
    ((row_count, match_count),) = client.rows(
        to_sql(exp.Select(expressions=counts).from_(rows, copy=False), table.dialect)
    )
    sample_size, matches = int(str(row_count)), int(str(match_count or 0))
    upper_matches = matches + _STANDARD_DEVIATIONS * math.sqrt(matches) + _UNSEEN_ROWS
    return upper_matches / sample_size if sample_size else None


def _rows_from(table: RemoteTable, index: str, key: str, start: int, names: Sequence[str]) -> exp.Query:
    """Return the query of some columns of the first rows from a key on, with a hint that forces the index."""
    source = table_reference(table)
    source.set("hints", [exp.IndexTableHint(this="FORCE", expressions=[quote_identifier(index)])])
    expressions: list[exp.Expr] = [column_reference(name) for name in names]
    rows = exp.Select(expressions=expressions or [exp.Literal.number(1)]).from_(source, copy=False)
    rows.where(exp.GTE(this=column_reference(key), expression=exp.convert(start)), copy=False)
    rows.order_by(column_reference(key), copy=False).limit(_ROWS_PER_POSITION, copy=False)
    return exp.Subquery(this=rows)


def is_key_lookup_faster(fraction: float, columns: Sequence[str], key: Sequence[str], condition: exp.Expr) -> bool:
    """Return whether looking up the rows by key costs less than materializing columns that only the result needs."""
    key_query_columns = {column.name for column in condition.find_all(exp.Column)}.union(key)
    return bool(key) and fraction <= _MAX_FRACTION_PER_COLUMN * len(set(columns) - key_query_columns)


def key_lookup_query(query: RemoteQuery, table: RemoteTable, key: Sequence[str]) -> RemoteQuery:
    """Return a query with the same rows that finds the primary keys first. `key` is the table's primary key."""
    keys_alias, rows = table.free_name("found"), table_reference(table)
    # The aliases are not column names, so that names in the query keep referring to the table.
    names = [table.free_name(f"key_{position}") for position in range(len(key))]
    pairs = list(zip(key, names, strict=True))
    keys = [exp.Alias(this=column_reference(column), alias=quote_identifier(name)) for column, name in pairs]
    inner = exp.Select(expressions=keys).from_(table_reference(table), copy=False)
    inner.set("where", query.select.args["where"].copy())
    equalities = [
        exp.EQ(this=column_reference(column), expression=exp.column(quote_identifier(name))) for column, name in pairs
    ]
    select = query.select.copy()
    select.set("where", None)
    select.set(
        "from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=quote_identifier(keys_alias))))
    )
    # STRAIGHT_JOIN fixes the order: by the server's statistics, both orders cost the same.
    select.set("joins", [exp.Join(this=rows, kind="STRAIGHT_JOIN", on=all_of(equalities))])
    return RemoteQuery(select, query.dialect)
