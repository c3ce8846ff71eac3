"""Asks a database what it knows of a table's rows and columns, for the estimate of joins: no row is read for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pushdown_spark.databases.classify import Classified
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.model import Dialect, RemoteTable
from pushdown_spark.databases.query import remote_query
from pushdown_spark.databases.render import table_reference, to_sql
from pushdown_spark.databases.slices import expected_by_mysql, expected_by_postgres, expects_few
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError
from pushdown_spark.relations.base import ColumnStatistics, TableStatistics

_POSTGRES_COLUMNS = """
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


def statistics(
    client: Client, table: RemoteTable, columns: Sequence[str], classified: Classified
) -> TableStatistics | None:
    """What a database expects of a table, some of its columns, and a predicate; None where it expects nothing.

    As old as the database's own statistics. Raises what the client raises.
    """
    asked = remote_query(table, columns, classified).sql
    few = expects_few(client, table, asked)
    if table.dialect is Dialect.POSTGRES:
        rows, _ = expected_by_postgres(client, remote_query(table, columns).sql)
        kept, _ = expected_by_postgres(client, asked)
        known = {} if table.subquery is not None else _postgres(client, table, rows)
        return TableStatistics(float(rows), float(kept), few, known, judged=True)
    if table.subquery is not None:
        return None
    found = (_mysql if table.dialect.is_mysql else _sqlite)(client, table)
    if found is None:
        return None
    rows_in_all, known = found
    looked_at = float(expected_by_mysql(client, asked)) if table.dialect.is_mysql else rows_in_all
    return TableStatistics(rows_in_all, min(looked_at, rows_in_all), few, known)


def _postgres(client: Client, table: RemoteTable, rows: int) -> Mapping[str, ColumnStatistics]:
    found = client.rows(_POSTGRES_COLUMNS, to_sql(table_reference(table), table.dialect))
    known = {}
    for name, distinct, null_share, is_unique in found:
        # Negative numbers are a share of the rows.
        count = None if distinct is None else float(str(distinct))
        if is_unique:
            count = float(rows)
        elif count is not None and count < 0:
            count = -count * rows
        known[str(name)] = ColumnStatistics(count or None, float(str(null_share)))
    return known


def _mysql(client: Client, table: RemoteTable) -> tuple[float, Mapping[str, ColumnStatistics]] | None:
    place = table.schema, table.name
    rows = client.rows(_MYSQL_ROWS, *place)
    if not rows or rows[0][0] is None:
        return None
    keys = client.rows(_MYSQL_KEYS, *place)
    known = {str(name): ColumnStatistics(float(str(distinct))) for name, distinct in keys if distinct}
    return float(str(rows[0][0])), known


def _sqlite(client: Client, table: RemoteTable) -> tuple[float, Mapping[str, ColumnStatistics]] | None:
    """By what ANALYZE has left, or by the greatest row id."""
    analysed = client.rows("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")
    noted = client.rows("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?1", table.name) if analysed else []
    counts = {str(index): [float(part) for part in str(stat).split() if part.isdigit()] for index, stat in noted}
    rows = max((numbers[0] for numbers in counts.values() if numbers), default=None)
    if rows is None:
        try:
            ((last,),) = client.rows(f"SELECT max(rowid) FROM {to_sql(table_reference(table), table.dialect)}")  # noqa: S608 -- built as a tree
        except (RemoteRefusedError, RemoteFailedError):
            return None
        if not isinstance(last, int):
            return None
        rows = float(last)
    known = {}
    for name, index, is_unique in client.rows(_SQLITE_KEYS, table.name):
        numbers = counts.get(str(index), [])
        if is_unique or len(numbers) > 1:
            known[str(name)] = ColumnStatistics(rows if is_unique else rows / max(numbers[1], 1.0))
    return rows, known
