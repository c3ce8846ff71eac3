"""Estimates of databases: rows of a query for the transport, and table statistics for join reordering.

The functions read catalogs and query plans, and no rows. All of them raise what the client raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from pushdown_spark.databases.client import Client
from pushdown_spark.databases.sql.builder import table_reference, to_sql
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.sql.remote_query import row_query
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable, column_reference
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError
from pushdown_spark.sources.table_statistics import ColumnStatistics, TableStatistics

MAX_FEW_ROWS = 10_000
"""Up to this number of rows, the driver is faster than a task, whatever the database does to find them."""
_POSTGRESQL_MAX_FEW_ROWS = 15_000
_POSTGRESQL_MAX_FEW_BYTES = 8 << 20
_SQLITE_MAX_SCAN_BYTES = 256 << 20
"""SQLite scans a database of this size within seconds, whatever the statement."""
_SQLITE_INDEX_STEP = re.compile(r"SEARCH .*|MULTI-INDEX OR|INDEX \d+")
"""Steps of SQLite's query plans that use an index or row ids."""
_MYSQL_PLAN_COLUMNS = 12
"""Columns of MySQL's EXPLAIN. MariaDB's has 10."""

_POSTGRESQL_COLUMNS = """
SELECT a.attname::text, s.n_distinct::float8, coalesce(s.null_frac, 0)::float8, EXISTS (
    SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
    AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
WHERE c.oid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
_MYSQL_ROWS = """
SELECT table_rows FROM information_schema.tables WHERE table_schema = coalesce(%s, database()) AND table_name = %s
"""
_MYSQL_KEYS = """
SELECT column_name, max(cardinality) FROM information_schema.statistics
WHERE table_schema = coalesce(%s, database()) AND table_name = %s AND seq_in_index = 1 GROUP BY column_name
"""
_SQLITE_KEYS = """
SELECT i.name, l.name, l."unique" AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1
FROM pragma_index_list(?1) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND NOT l.partial
UNION ALL SELECT name, '', 1 FROM pragma_table_info(?1)
WHERE pk = 1 AND NOT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk = 2)
"""


def expects_few_rows(client: Client, table: RemoteTable, statement: str) -> bool:
    """Return whether the database estimates that a statement returns few rows."""
    if table.dialect is Dialect.POSTGRES:
        return is_small_result(*postgresql_estimate(client, statement))
    if table.dialect is Dialect.SQLITE:
        steps = [str(row[-1]) for row in client.rows(f"EXPLAIN QUERY PLAN {statement}")]
        ((size,),) = client.rows("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(str(size)) <= _SQLITE_MAX_SCAN_BYTES and all(map(_SQLITE_INDEX_STEP.fullmatch, steps))
    return mysql_row_estimate(client, statement) <= MAX_FEW_ROWS


def is_small_result(rows: int, size: int) -> bool:
    """Return whether the driver fetches a result of PostgreSQL faster than a task. `size` is in bytes."""
    return rows <= _POSTGRESQL_MAX_FEW_ROWS and size <= _POSTGRESQL_MAX_FEW_BYTES


def mysql_row_estimate(client: Client, statement: str) -> int:
    """Return the rows that MySQL or MariaDB expects to examine. Conditions without an index do not lower it."""
    # The default format of newer versions of MySQL is a tree.
    plan = client.rows(f"EXPLAIN FORMAT=TRADITIONAL {statement}")
    row_counts = [row[8 if len(row) < _MYSQL_PLAN_COLUMNS else 9] for row in plan]
    return max((int(str(rows or 0)) for rows in row_counts), default=0)


def postgresql_estimate(client: Client, statement: str) -> tuple[int, int]:
    """Return the rows and bytes that PostgreSQL expects a statement to return."""
    ((plan,),) = client.rows(f"EXPLAIN (FORMAT JSON) {statement}")
    assert isinstance(plan, list)
    rows = int(plan[0]["Plan"]["Plan Rows"])
    return rows, rows * int(plan[0]["Plan"]["Plan Width"])


def key_extent(client: Client, table: RemoteTable, key: str) -> tuple[str, str] | None:
    """Return the smallest and the largest value of a column, or None if all are NULL."""
    ends = [aggregate(this=column_reference(key)) for aggregate in (exp.Min, exp.Max)]
    select = exp.Select(expressions=ends).from_(table_reference(table), copy=False)
    ((low, high),) = client.rows(to_sql(select, table.dialect))
    return None if low is None or high is None else (str(low), str(high))


def table_statistics(
    client: Client, table: RemoteTable, columns: Sequence[str], predicate: PushedPredicate
) -> TableStatistics | None:
    """Return the database's statistics of a table, some columns and a predicate, or None if it has none.

    They are as recent as the database's own statistics.
    """
    statement = row_query(table, columns, predicate).sql
    if table.dialect is Dialect.POSTGRES:
        expected, size = postgresql_estimate(client, statement)
        is_fetched = is_small_result(expected, size)
        rows = expected if predicate.where is None else postgresql_estimate(client, row_query(table, columns).sql)[0]
        by_column = {} if table.subquery is not None else _postgresql_columns(client, table, rows)
        return TableStatistics(float(rows), float(expected), is_fetched, by_column, has_selectivity=True)
    if table.subquery is not None:
        return None
    statistics = (_mysql if table.dialect.is_mysql else _sqlite)(client, table)
    if statistics is None:
        return None
    table_rows, by_column = statistics
    if table.dialect.is_mysql:
        estimate = mysql_row_estimate(client, statement)
        rows_to_read, is_fetched = float(estimate), estimate <= MAX_FEW_ROWS
    else:
        rows_to_read, is_fetched = table_rows, expects_few_rows(client, table, statement)
    return TableStatistics(table_rows, min(rows_to_read, table_rows), is_fetched, by_column)


def _postgresql_columns(client: Client, table: RemoteTable, rows: int) -> Mapping[str, ColumnStatistics]:
    by_column = {}
    for name, distinct, null_fraction, is_unique in client.rows(
        _POSTGRESQL_COLUMNS, to_sql(table_reference(table), table.dialect)
    ):
        count = None if distinct is None else float(str(distinct))
        if is_unique:
            count = float(rows)
        elif count is not None and count < 0:
            # Negative values are a fraction of the rows.
            count = -count * rows
        by_column[str(name)] = ColumnStatistics(count or None, float(str(null_fraction)))
    return by_column


def _mysql(client: Client, table: RemoteTable) -> tuple[float, Mapping[str, ColumnStatistics]] | None:
    names = table.schema, table.name
    rows = client.rows(_MYSQL_ROWS, *names)
    if not rows or rows[0][0] is None:
        return None
    keys = client.rows(_MYSQL_KEYS, *names)
    by_column = {str(name): ColumnStatistics(float(str(distinct))) for name, distinct in keys if distinct}
    return float(str(rows[0][0])), by_column


def _sqlite(client: Client, table: RemoteTable) -> tuple[float, Mapping[str, ColumnStatistics]] | None:
    """Return the statistics that ANALYZE stored. Without them, the largest row id stands for the number of rows."""
    has_statistics = client.rows("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")
    index_rows = client.rows("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?1", table.name) if has_statistics else []
    by_index = {str(index): [float(part) for part in str(stat).split() if part.isdigit()] for index, stat in index_rows}
    rows = max((numbers[0] for numbers in by_index.values() if numbers), default=None)
    if rows is None:
        try:
            source = to_sql(table_reference(table), table.dialect)
            ((last,),) = client.rows(f"SELECT max(rowid) FROM {source}")  # noqa: S608 -- built as a tree
        except (RemoteRefusedError, RemoteFailedError):
            return None
        if not isinstance(last, int):
            return None
        rows = float(last)
    by_column = {}
    for name, index, is_unique in client.rows(_SQLITE_KEYS, table.name):
        numbers = by_index.get(str(index), [])
        if is_unique or len(numbers) > 1:
            by_column[str(name)] = ColumnStatistics(rows if is_unique else rows / max(numbers[1], 1.0))
    return rows, by_column
