"""Tells how many rows of a MySQL or MariaDB table may pass a condition that no index answers, by looking at some.

Of such conditions neither expects anything. The rows looked at lie behind keys that divide an index evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.client import Client
from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.render import column_reference, is_true, quoted, table_reference, to_sql
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError

_INDEXES = """
SELECT s.index_name, s.column_name, r.table_rows, r.engine FROM information_schema.statistics s
JOIN information_schema.tables r ON r.table_schema = s.table_schema AND r.table_name = s.table_name
WHERE s.table_schema = coalesce(%s, database()) AND s.table_name = %s AND s.index_type = 'BTREE'
ORDER BY s.index_name <> 'PRIMARY', s.non_unique, s.index_name, s.seq_in_index
"""
_PLACES, _ROWS_THERE = 10, 320
_DEVIATIONS = 2
_NEVER_SEEN = 3
"""What may be there of what was not found, of as many rows as were looked at: at most 5 % of such samples miss it."""
_LONG_TYPES = ("text", "blob", "json", "binary")


@dataclass(frozen=True)
class Sampled:
    """Rows that may pass a condition, with the error that a sample has, as a number and as a share of the table.

    `key` are the columns of the key by which the rows are stored; none where there is no such key.
    """

    rows: float
    share: float
    key: tuple[str, ...]


@dataclass(frozen=True)
class _Index:
    """An index by its name and its columns."""

    name: str
    columns: tuple[str, ...]


def sampled(client: Client, table: RemoteTable, condition: exp.Expr) -> Sampled | None:
    """What a look at some rows tells of a condition; None where there is no telling. Raises LostConnectionError."""
    names = sorted({column.name for column in condition.find_all(exp.Column)})
    columns = [table.column(name, case_sensitive=True) for name in names]
    if any(column is None or any(kind in column.remote_type for kind in _LONG_TYPES) for column in columns):
        return None
    try:
        found = client.rows(_INDEXES, table.schema, table.name)
        by_name = groupby(found, key=lambda row: str(row[0]))
        indexes = [_Index(name, tuple(str(row[1]) for row in rows)) for name, rows in by_name]
        for index in indexes:
            column = table.column(index.columns[0], case_sensitive=True)
            if column is not None and isinstance(column.spark_type, t.IntegralType):
                share = _share(client, table, index, names, condition)
                in_all, engine = float(str(found[0][2] or 0)), str(found[0][3])
                stored_by = indexes[0].name == "PRIMARY" and engine == "InnoDB"
                return None if share is None else Sampled(share * in_all, share, indexes[0].columns * stored_by)
    except (RemoteFailedError, RemoteRefusedError):
        # A guess only: whoever may not see the catalogue is not told less of the table for it.
        return None
    return None


def _share(
    client: Client, table: RemoteTable, index: _Index, names: Sequence[str], condition: exp.Expr
) -> float | None:
    """The share of rows that may pass."""
    found = _extent(client, table, index.columns[0])
    if found is None:
        return None
    low, high = found
    starts = sorted({low + (high - low) * place // _PLACES for place in range(_PLACES)})
    parts = [_rows_from(table, index, start, names) for start in starts]
    union: exp.Query = parts[0]
    for part in parts[1:]:
        union = exp.Union(this=union, expression=part, distinct=False)
    rows = exp.Subquery(this=union, alias=exp.TableAlias(this=quoted(table.name)))
    counts = [exp.Count(this=exp.Star()), exp.Sum(this=is_true(condition.copy()))]
    ((seen, passed),) = client.rows(to_sql(exp.Select(expressions=counts).from_(rows, copy=False), table.dialect))
    number, kept = int(str(seen)), int(str(passed or 0))
    return (kept + _DEVIATIONS * math.sqrt(kept) + _NEVER_SEEN) / number if number else None


def _extent(client: Client, table: RemoteTable, key: str) -> tuple[int, int] | None:
    """The smallest and the largest key, which are the ends of its index."""
    ends = [kind(this=column_reference(table, key)) for kind in (exp.Min, exp.Max)]
    select = exp.Select(expressions=ends).from_(table_reference(table), copy=False)
    ((low, high),) = client.rows(to_sql(select, table.dialect))
    return None if low is None or high is None else (int(str(low)), int(str(high)))


def _rows_from(table: RemoteTable, index: _Index, start: int, names: Sequence[str]) -> exp.Subquery:
    """Some columns of the rows behind a key, found by its index whatever the server may think of that."""
    key = column_reference(table, index.columns[0])
    whole = table_reference(table)
    whole.set("hints", [exp.IndexTableHint(this="FORCE", expressions=[quoted(index.name)])])
    selected: list[exp.Expr] = [column_reference(table, name) for name in names]
    behind = exp.Select(expressions=selected or [exp.Literal.number(1)]).from_(whole, copy=False)
    behind.where(exp.GTE(this=key, expression=exp.convert(start)), copy=False).order_by(key.copy(), copy=False)
    return exp.Subquery(this=behind.limit(_ROWS_THERE, copy=False))
