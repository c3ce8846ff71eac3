"""Cut a scan into partitions: by ranges of a key, or where PostgreSQL stores the rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import RemoteSourceSpec
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.render import any_of, column_reference, is_null, table_reference, to_sql
from pushdown_spark.errors import BadSpecError, UnknownColumnError

_WORTH_BYTES = 32 << 20
"""An answer of fewer bytes comes faster through one connection: measured, partitions of small reads cost more."""
_PARTITION_BYTES = 16 << 20
_JDBC_BYTES = 64 << 20
"""Spark's JDBC source is a tenth of a second late, and a tenth faster over 16 columns: measured."""
_CTID_SINCE = 140_000
"""The version of PostgreSQL from which on a range of pages is read without the pages around it."""
_FEW_BYTES = 8 << 20
_BY_INDEX = re.compile(r"SEARCH .*|MULTI-INDEX OR|INDEX \d+")
"""Steps of SQLite's plans that look into an index or at row ids."""
_SOON_BYTES = 256 << 20
"""A database of fewer bytes is searched within seconds, whatever the statement."""
_MYSQL_COLUMNS = 12
"""What MySQL's EXPLAIN has; MariaDB's has 10."""
FEW_ROWS = 10_000
"""So many rows the driver fetches sooner than a task does, whatever the database has to do for them."""
_FEW_OF_POSTGRESQL = 15_000
LIGHT_ROWS = 60_000
"""So many rows of 16 columns are copied as CSV while ADBC still makes its connection: measured."""
MOST_CONNECTIONS = 8
"""Partitions where nothing says how many, whatever the number of processors: a database has other clients too."""
_PLAIN_KINDS = ("r", "m")


@dataclass(frozen=True)
class Slices:
    """The conditions of a scan's partitions, None for a whole table; `how` says in words what they are.

    `few` tells that the database expects no more rows than the driver fetches sooner than a task, `light` no more than
    are not worth a connection of ADBC, `small` no more bytes than come sooner as Arrow than over JDBC.
    """

    conditions: tuple[exp.Expr | None, ...]
    how: str
    few: bool = False
    light: bool = False
    small: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than one partition."""
        return len(self.conditions) > 1


def whole(how: str) -> Slices:
    """One partition."""
    return Slices((None,), how)


def may_be_sliced(table: RemoteTable, spec: RemoteSourceSpec) -> str | None:
    """Why a scan takes one partition whatever its size; None where it is worth to ask the database."""
    if spec.num_partitions == 1:
        return "num_partitions=1"
    if table.dialect is not Dialect.POSTGRES and spec.consistent:
        return f"{table.dialect} has no snapshot that partitions could share (consistent=False does without)"
    if table.dialect is not Dialect.POSTGRES and spec.partition_column is None:
        return f"{table.dialect} is partitioned by a partition_column only"
    if table.subquery is not None and spec.partition_column is None:
        return "a query is partitioned by a partition_column only"
    return None


def slices(client: Client, table: RemoteTable, spec: RemoteSourceSpec, statement: str, parallelism: int) -> Slices:
    """How to cut the scan that `statement` does in one piece. Raises typed errors for keys that cannot be cut by."""
    parallelism = min(parallelism, MOST_CONNECTIONS)
    if spec.partition_column is not None:
        return _by_key(client, table, spec, spec.num_partitions or parallelism)
    rows, size = expected_by_postgres(client, statement)
    if spec.num_partitions is None and size < _WORTH_BYTES:
        few, light = _is_few(rows, size), rows <= LIGHT_ROWS
        return Slices((None,), "a small answer comes fastest in one piece", few, light, small=True)
    number = spec.num_partitions or min(parallelism, math.ceil(size / _PARTITION_BYTES))
    return replace(_by_pages(client, table, number), small=size < _JDBC_BYTES)


def expects_few(client: Client, table: RemoteTable, statement: str) -> bool:
    """Whether the database expects a small answer, as far as it can tell before it runs the statement."""
    if table.dialect is Dialect.POSTGRES:
        return _is_few(*expected_by_postgres(client, statement))
    if table.dialect is Dialect.SQLITE:
        steps = [str(row[-1]) for row in client.rows(f"EXPLAIN QUERY PLAN {statement}")]
        ((stored,),) = client.rows("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(str(stored)) <= _SOON_BYTES and all(map(_BY_INDEX.fullmatch, steps))
    return expected_by_mysql(client, statement) <= FEW_ROWS


def _is_few(rows: int, size: int) -> bool:
    return rows <= _FEW_OF_POSTGRESQL and size <= _FEW_BYTES


def expected_by_mysql(client: Client, statement: str) -> int:
    """Rows that MySQL or MariaDB expects to look at: of conditions that no index answers they expect nothing."""
    # New versions of MySQL draw a tree unless they are told otherwise.
    plan = client.rows(f"EXPLAIN FORMAT=TRADITIONAL {statement}")
    looked_at = [row[8 if len(row) < _MYSQL_COLUMNS else 9] for row in plan]
    return max((int(str(rows or 0)) for rows in looked_at), default=0)


def expected_by_postgres(client: Client, statement: str) -> tuple[int, int]:
    """Rows and bytes that PostgreSQL itself expects of the answer."""
    ((plan,),) = client.rows(f"EXPLAIN (FORMAT JSON) {statement}")
    assert isinstance(plan, list)
    rows = int(plan[0]["Plan"]["Plan Rows"])
    return rows, rows * int(plan[0]["Plan"]["Plan Width"])


def _by_pages(client: Client, table: RemoteTable, number: int) -> Slices:
    """Equal numbers of pages; the last range has no end, so that it has pages that are added meanwhile."""
    name = to_sql(table_reference(table), table.dialect)
    ((kind, pages, version),) = client.rows(
        "SELECT relkind::text, pg_relation_size(oid) / current_setting('block_size')::int, "
        "current_setting('server_version_num')::int FROM pg_catalog.pg_class WHERE oid = %s::regclass",
        name,
    )
    if kind not in _PLAIN_KINDS or int(str(version)) < _CTID_SINCE:
        return whole("pages are known of plain tables of PostgreSQL 14 and later only; give a partition_column")
    number = max(1, min(number, int(str(pages))))
    cuts = [int(str(pages)) * place // number for place in range(1, number)]
    key = exp.Column(this=exp.to_identifier("ctid"))
    texts = [exp.Literal.string(f"({page},0)") for page in cuts]
    return Slices(_ranges(key, texts, nullable=False), f"{number} ranges of {pages} pages")


def _by_key(client: Client, table: RemoteTable, spec: RemoteSourceSpec, number: int) -> Slices:
    column = table.column(spec.partition_column or "")
    if column is None:
        names = ", ".join(column.name for column in table.columns)
        raise UnknownColumnError(f"partition_column: there is no column {spec.partition_column!r}; there are {names}")
    key = column_reference(table, column.name)
    if spec.lower_bound is not None and spec.upper_bound is not None:
        low, high = _number(spec.lower_bound, column, "lower_bound"), _number(spec.upper_bound, column, "upper_bound")
        how = f"between {spec.lower_bound} and {spec.upper_bound}"
        return _cut(key, column, _uniform(low, high, number), how)
    if table.dialect is Dialect.POSTGRES and table.subquery is None and (found := _histogram(client, table, column)):
        chosen = [found[len(found) * place // number] for place in range(1, number)]
        cuts: list[exp.Expr] = [exp.Literal.string(text) for text in dict.fromkeys(chosen)]
        return Slices(_ranges(key, cuts, nullable=True), f"{len(cuts) + 1} ranges of {column.name} by its histogram")
    low_high = _extent(client, table, key, column)
    if low_high is None:
        return whole(f"{column.name} has no values")
    return _cut(key, column, _uniform(*low_high, number), "of equal width")


def _cut(key: exp.Expr, column: RemoteColumn, cuts: Sequence[Decimal], how: str) -> Slices:
    literals = [_literal(cut, column) for cut in cuts]
    return Slices(_ranges(key, literals, nullable=True), f"{len(cuts) + 1} ranges of {column.name} {how}")


def _ranges(key: exp.Expr, cuts: Sequence[exp.Expr], *, nullable: bool) -> tuple[exp.Expr | None, ...]:
    """Half-open ranges that leave out nothing: the first has no start and all NULLs, the last no end."""
    if not cuts:
        return (None,)
    below: exp.Expr = exp.LT(this=key.copy(), expression=cuts[0].copy())
    if nullable:
        below = any_of([below, is_null(key.copy())])
    between = [
        exp.And(
            this=exp.GTE(this=key.copy(), expression=low.copy()),
            expression=exp.LT(this=key.copy(), expression=high.copy()),
        )
        for low, high in pairwise(cuts)
    ]
    return (below, *between, exp.GTE(this=key.copy(), expression=cuts[-1].copy()))


def _histogram(client: Client, table: RemoteTable, column: RemoteColumn) -> list[str]:
    """The bounds of equally full buckets as PostgreSQL's statistics have them; none for small or unanalysed tables."""
    return [
        str(bound)
        for (bound,) in client.rows(
            "SELECT unnest(s.histogram_bounds::text::text[]) FROM pg_catalog.pg_stats s JOIN pg_catalog.pg_class c "
            "ON c.oid = %s::regclass JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = %s",
            to_sql(table_reference(table), table.dialect),
            column.name,
        )
    ]


def _extent(client: Client, table: RemoteTable, key: exp.Expr, column: RemoteColumn) -> tuple[Decimal, Decimal] | None:
    """The smallest and largest key."""
    select = exp.select(exp.Min(this=key.copy()), exp.Max(this=key.copy())).from_(table_reference(table))
    ((low, high),) = client.rows(to_sql(select, table.dialect))
    if low is None or high is None:
        return None
    return _number(str(low), column, "partition_column"), _number(str(high), column, "partition_column")


def _number(text: str, column: RemoteColumn, parameter: str) -> Decimal:
    """A key's value as a number: days for dates."""
    try:
        if isinstance(column.spark_type, t.DateType):
            return Decimal(date.fromisoformat(text).toordinal())
        if isinstance(column.spark_type, t.NumericType):
            return Decimal(text)
    except (ValueError, InvalidOperation):
        raise BadSpecError(f"{parameter}: {text!r} is no {column.remote_type}, which {column.name} is") from None
    raise BadSpecError(
        f"partition_column: {column.name} is {column.remote_type}, which is cut into ranges only by PostgreSQL's "
        "histogram (ANALYZE the table); take a number or a date"
    )


def _uniform(low: Decimal, high: Decimal, number: int) -> list[Decimal]:
    """Cuts into ranges of equal width, whole numbers where they differ."""
    step = (high - low) / number
    cuts = [(low + step * place).to_integral_value() if step >= 1 else low + step * place for place in range(1, number)]
    return sorted(set(cuts))


def _literal(cut: Decimal, column: RemoteColumn) -> exp.Expr:
    if isinstance(column.spark_type, t.DateType):
        day = date(1, 1, 1) + timedelta(days=int(cut) - 1)
        return exp.Literal.string(day.isoformat())
    number = exp.Literal.number(format(abs(cut), "f"))
    return exp.Neg(this=number) if cut < 0 else number
