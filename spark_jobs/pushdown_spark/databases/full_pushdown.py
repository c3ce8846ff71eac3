"""Full pushdown: queries over one table that the database runs completely, such as top-N and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import RemoteSourceSpec, SourceReport
from pushdown_spark.databases.client import ConnectionSettings
from pushdown_spark.databases.connection_pool import ConnectionPool
from pushdown_spark.databases.database_statistics import MAX_FEW_ROWS
from pushdown_spark.databases.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.remote_query import (
    Aggregate,
    AggregateFunction,
    Ordering,
    RemoteQuery,
    aggregate_query,
    row_query,
)
from pushdown_spark.databases.remote_table import Dialect, RemoteTable
from pushdown_spark.databases.transport import QueryExecution, arrow_fields
from pushdown_spark.errors import LostConnectionError, UnsupportedError
from pushdown_spark.expressions.names import name_key
from pushdown_spark.scan.base import Scan

_SUPPORTED_CLAUSES = frozenset({"expressions", "from_", "where", "group", "order", "limit"})
_EXTREMES: dict[type[exp.Expr], AggregateFunction] = {exp.Min: AggregateFunction.MIN, exp.Max: AggregateFunction.MAX}


@dataclass(frozen=True)
class PushedQuery:
    """A query that the database runs.

    - `items` are the sent columns that make up the columns of the query, in their order.
    - `types` has the Spark types of the sent columns by name.
    - `counts` are the sent columns that are never NULL.
    - `order` has the sort keys that Spark applies to the result, by the position of their column in the query.
    - `limit` is the number of rows that Spark keeps after sorting.
    """

    query: RemoteQuery
    items: tuple[str, ...]
    types: dict[str, t.DataType]
    counts: frozenset[str] = frozenset()
    order: tuple[tuple[int, Ordering], ...] = ()
    limit: int | None = None

    def row_converter(self, names: Sequence[str]) -> Callable[[DataFrame], DataFrame]:
        """Return a function from the result to the rows of the query. `names` are the names of the query's columns."""
        keys = [_sort_key(self.items[position], ordering) for position, ordering in self.order]
        outputs = [self._output(item).alias(name) for item, name in zip(self.items, names, strict=True)]

        def convert(frame: DataFrame) -> DataFrame:
            ordered = frame.orderBy(*keys) if keys else frame
            limited = ordered if self.limit is None else ordered.limit(self.limit)
            return limited.select(*outputs)

        return convert

    def _output(self, item: str) -> Column:
        """Return a column of the result. Counts are not nullable in Spark."""
        return f.coalesce(_column(item), f.lit(0)) if item in self.counts else _column(item)


def push_query(
    tree: exp.Select, table: RemoteTable, predicate: PushedPredicate, *, case_sensitive: bool
) -> PushedQuery | None:
    """Return how the database runs a query over one table. None if Spark must do more than sort and limit the result.

    The predicate must be exact. The query may select columns, and counts, minima and maxima of columns.
    """
    if not predicate.is_exact or any(value for key, value in tree.args.items() if key not in _SUPPORTED_CLAUSES):
        return None
    (relation,) = tree.find_all(exp.Table)
    has_name_only = {key for key, value in relation.args.items() if value} <= {"this", "alias"}
    if not has_name_only or relation.alias_column_names or tree.find(exp.Subquery, exp.Window):
        return None
    return _QueryAnalyzer(tree, table, predicate, case_sensitive).pushed_query()


class _QueryAnalyzer:
    """The analysis of one query."""

    def __init__(self, tree: exp.Select, table: RemoteTable, predicate: PushedPredicate, case_sensitive: bool) -> None:
        self._tree = tree
        self._table = table
        self._predicate = predicate
        self._case_sensitive = case_sensitive
        self._alias = next(tree.find_all(exp.Table)).alias_or_name

    def pushed_query(self) -> PushedQuery | None:
        """Return the pushed query, or None."""
        limit, is_supported = self._limit()
        keys = self._sort_keys()
        if not is_supported or keys is None:
            return None
        if self._tree.args.get("group") or self._tree.find(exp.AggFunc):
            return self._aggregation(keys, limit)
        return self._top_rows(keys, limit)

    def _limit(self) -> tuple[int | None, bool]:
        """Return the number of rows, None for all, and whether the LIMIT is supported."""
        node = self._tree.args.get("limit")
        if node is None:
            return None, True
        count = node.expression if isinstance(node, exp.Limit) else None
        is_integer = isinstance(count, exp.Literal) and not count.is_string and count.name.isdigit()
        return (int(count.name), True) if is_integer and count is not None else (None, False)

    def _sort_keys(self) -> list[tuple[exp.Column, Ordering]] | None:
        """Return the keys of ORDER BY with the names of the query. None if a key is not a column."""
        order = self._tree.args.get("order")
        keys = []
        for node in order.expressions if order is not None else ():
            if not isinstance(node, exp.Ordered) or not isinstance(node.this, exp.Column):
                return None
            ordering = Ordering(node.this.name, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
            keys.append((node.this, ordering))
        return keys

    def _column(self, node: exp.Expr) -> str | None:
        """Return the name of the table's column that a node refers to, None for any other node."""
        if not isinstance(node, exp.Column) or len(node.parts) > 2 or node.table not in ("", self._alias):
            return None
        column = self._table.column(node.name, case_sensitive=self._case_sensitive)
        return None if column is None else column.name

    def _top_rows(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> PushedQuery | None:
        """Return the query of the first rows, None if the database orders them otherwise than Spark."""
        items = self._selected_columns()
        orderings = [self._table_ordering(node, key) for node, key in keys]
        if items is None or limit is None or None in orderings:
            return None
        order_by = [ordering for ordering in orderings if ordering is not None]
        columns = tuple(dict.fromkeys(items))
        query = row_query(self._table, columns, self._predicate, limit=limit, order_by=order_by)
        return PushedQuery(query, tuple(items), self._types(columns)) if query.is_limited else None

    def _selected_columns(self) -> list[str] | None:
        """Return the selected columns. None if something else is selected."""
        items: list[str] = []
        for node in self._tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Star) and not inner.args.get("except_") and not inner.args.get("replace"):
                items += [column.name for column in self._table.columns]
            elif (name := self._column(inner)) is not None:
                items.append(name)
            else:
                return None
        return items

    def _table_ordering(self, node: exp.Column, key: Ordering) -> Ordering | None:
        """Return a sort key with the name of the table's column. None if the name may be an alias."""
        name = self._column(node)
        aliases = {alias.alias.lower() for alias in self._tree.expressions if isinstance(alias, exp.Alias)}
        if name is None or node.name.lower() in aliases:
            return None
        return Ordering(name, key.descending, key.nulls_first)

    def _aggregation(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> PushedQuery | None:
        """Return the query of aggregates and groups. Spark sorts and limits the few rows of the result."""
        groups = self._groups()
        if groups is None or (limit is not None and not keys):
            return None
        aggregates: list[Aggregate] = []
        items = []
        for node in self._tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            name = self._column(inner)
            if name is None:
                aggregate = self._aggregate(inner, self._table.free_name(f"aggregate_{len(aggregates)}"))
                if aggregate is None:
                    return None
                aggregates.append(aggregate)
                name = aggregate.alias
            elif name not in groups:
                return None
            items.append(name)
        order = self._key_positions(keys)
        # Without aggregates and groups, there is no column to send.
        if order is None or not (aggregates or groups):
            return None
        try:
            query = aggregate_query(self._table, self._predicate, aggregates, groups)
        except UnsupportedError:
            return None
        types = self._types(groups) | {aggregate.alias: self._result_type(aggregate) for aggregate in aggregates}
        count_functions = (AggregateFunction.COUNT, AggregateFunction.COUNT_ALL)
        counts = frozenset(aggregate.alias for aggregate in aggregates if aggregate.function in count_functions)
        return PushedQuery(query, tuple(items), types, counts, order, limit)

    def _groups(self) -> list[str] | None:
        """Return the columns of GROUP BY. None if it has anything else."""
        group = self._tree.args.get("group")
        if group is None:
            return []
        if any(value for key, value in group.args.items() if key != "expressions"):
            return None
        names = [self._column(node) for node in group.expressions]
        return None if None in names else list(dict.fromkeys(name for name in names if name is not None))

    def _aggregate(self, node: exp.Expr, alias: str) -> Aggregate | None:
        if isinstance(node, exp.Count) and not node.args.get("expressions"):
            if isinstance(node.this, exp.Star | exp.Literal):
                return Aggregate(AggregateFunction.COUNT_ALL, alias)
            name = self._column(node.this)
            return None if name is None else Aggregate(AggregateFunction.COUNT, alias, name)
        function = _EXTREMES.get(type(node))
        name = self._column(node.this) if function is not None and not node.args.get("expressions") else None
        return None if function is None or name is None else Aggregate(function, alias, name)

    def _key_positions(self, keys: list[tuple[exp.Column, Ordering]]) -> tuple[tuple[int, Ordering], ...] | None:
        """Return the positions of the sort keys in the SELECT list. None if a key is not in it."""
        names = [self._key_of(node.alias_or_name) for node in self._tree.expressions]
        positions = []
        for node, ordering in keys:
            key = self._key_of(node.name)
            if node.table or names.count(key) != 1:
                return None
            positions.append((names.index(key), ordering))
        return tuple(positions)

    def _key_of(self, name: str) -> str:
        return name_key(name, case_sensitive=self._case_sensitive)

    def _types(self, names: Sequence[str]) -> dict[str, t.DataType]:
        types = {column.name: column.spark_type for column in self._table.columns}
        return {name: types[name] for name in names}

    def _result_type(self, aggregate: Aggregate) -> t.DataType:
        if aggregate.column is None or aggregate.function is AggregateFunction.COUNT:
            return t.LongType()
        return self._types([aggregate.column])[aggregate.column]


class FullPushdownScan(Scan):
    """The result of a pushed query, read as one partition in the database's order."""

    is_exact = True

    def __init__(
        self,
        spark: SparkSession,
        pushed: PushedQuery,
        table: RemoteTable,
        spec: RemoteSourceSpec,
        connections: ConnectionPool,
        predicate: PushedPredicate,
        notes: tuple[str, ...],
    ) -> None:
        """`predicate` and `notes` are for the report."""
        self._pushed = pushed
        self._table = table
        self._connections = connections
        self._execution = QueryExecution(spark, connections, spec)
        self._plan_report = SourceReport(
            reader="remote",
            reason="the database runs the whole query as Spark would",
            conjuncts=predicate.reports,
            columns=tuple(pushed.types),
            notes=notes,
        )

    def frame(self) -> DataFrame:
        """Return the result, read by one task."""
        settings = ConnectionSettings(few=self._is_small)
        return self._execution.frame((self._pushed.query.sql,), *self._fields(), settings, "one result")

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the result in the driver. None if it may be large, or if tasks should retry a lost connection."""
        # While SQLite's library searches for rows, signals do not reach the driver.
        if not self._is_small or self._table.dialect is Dialect.SQLITE:
            return None
        with suppress(LostConnectionError), closing(self._connections.open()) as client:
            return self._execution.fetch_local(client, self._pushed.query.sql, *self._fields())
        return None

    @property
    def _is_small(self) -> bool:
        """Whether the result is assumed to be small: aggregates, and few rows by the LIMIT."""
        query = self._pushed.query
        limit = query.select.args.get("limit")
        return query.is_aggregate or (limit is not None and int(limit.expression.name) <= MAX_FEW_ROWS)

    def _fields(self) -> tuple[list[pa.Field], t.StructType]:
        schema = t.StructType([t.StructField(name, data_type) for name, data_type in self._pushed.types.items()])
        return arrow_fields(schema, self._table), schema

    def report(self) -> SourceReport:
        """Return the plan, with metrics after a run."""
        return self._execution.report(self._plan_report, self._pushed.query.sql)


def _sort_key(name: str, ordering: Ordering) -> Column:
    column = _column(name)
    if ordering.descending:
        return column.desc_nulls_first() if ordering.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if ordering.nulls_first else column.asc_nulls_last()


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")
