"""Full pushdown: queries over one table that the database runs completely, such as top-N and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import SourceReport
from pushdown_spark.databases.read.database_statistics import MAX_FEW_ROWS
from pushdown_spark.databases.read.transport import QueryExecution
from pushdown_spark.databases.sql.builder import has_other_arguments
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.sql.remote_query import (
    Aggregate,
    AggregateFunction,
    Ordering,
    RemoteQuery,
    aggregate_query,
    row_query,
)
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable
from pushdown_spark.errors import LostConnectionError, UnsupportedError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.scan.base_scan import Scan, WorkerUse

_SUPPORTED_CLAUSES = ("expressions", "from_", "where", "group", "order", "limit")
_AGGREGATES: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: AggregateFunction.COUNT,
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
}
_COUNTS = (AggregateFunction.COUNT, AggregateFunction.COUNT_ALL)


@dataclass(frozen=True)
class PushedQuery:
    """A query that the database runs."""

    query: RemoteQuery
    items: tuple[str, ...]
    """The sent columns that make up the columns of the query, in their order."""
    types: dict[str, t.DataType]
    """The Spark types of the sent columns by name."""
    counts: frozenset[str] = frozenset()
    """The sent columns that are never NULL."""
    order: tuple[tuple[int, Ordering], ...] = ()
    """The sort keys that Spark applies to the result, by the position of their column in the query."""
    limit: int | None = None
    """The number of rows that Spark keeps after sorting."""

    def row_converter(self, names: Sequence[str]) -> Callable[[DataFrame], DataFrame]:
        """Return a function from the result to the rows of the query. `names` are the names of the query's columns."""
        keys = [_sort_key(self.items[position], ordering) for position, ordering in self.order]
        outputs = [self._output(item).alias(name) for item, name in zip(self.items, names, strict=True)]

        def convert(frame: DataFrame) -> DataFrame:
            rows = frame.orderBy(*keys) if keys else frame
            if self.limit is not None:
                rows = rows.limit(self.limit)
            return rows.select(*outputs)

        return convert

    def _output(self, item: str) -> Column:
        """Return a column of the result. Counts are not nullable in Spark."""
        column = f.col(quote_name(item))
        return f.coalesce(column, f.lit(0)) if item in self.counts else column


def push_query(
    tree: exp.Select, table: RemoteTable, predicate: PushedPredicate, *, name_rule: NameRule
) -> PushedQuery | None:
    """Return how the database runs a query over one table, or None if Spark must do more than sort and limit.

    The predicate must be exact. The query may select columns, and counts, minima and maxima of columns.
    """
    try:
        return _QueryAnalyzer(tree, table, predicate, name_rule).pushed_query()
    except UnsupportedError:
        # The reason is not reported: the query runs as a scan, whose report has its own reasons.
        return None


class _QueryAnalyzer:
    """The analysis of one query. The methods raise UnsupportedError if Spark has to run the query."""

    def __init__(self, tree: exp.Select, table: RemoteTable, predicate: PushedPredicate, name_rule: NameRule) -> None:
        self._tree = tree
        self._table = table
        self._predicate = predicate
        self._name_rule = name_rule
        self._alias = next(tree.find_all(exp.Table)).alias_or_name

    def pushed_query(self) -> PushedQuery:
        """Return the query in the SQL of the database. Raises UnsupportedError for a clause that only Spark runs."""
        self._check_clauses()
        limit, keys = self._limit(), self._sort_keys()
        if self._tree.args.get("group") or self._tree.find(exp.AggFunc):
            return self._aggregation(keys, limit)
        return self._top_rows(keys, limit)

    def _check_clauses(self) -> None:
        tree, (relation,) = self._tree, self._tree.find_all(exp.Table)
        if not self._predicate.is_exact or has_other_arguments(tree, *_SUPPORTED_CLAUSES):
            raise UnsupportedError("a conjunct is not exact, or a clause is not supported")
        if has_other_arguments(relation, "this", "alias") or relation.alias_column_names:
            raise UnsupportedError("only a name and an alias of the table are sent")
        if tree.find(exp.Subquery, exp.Window):
            raise UnsupportedError("subqueries and windows are not sent")

    def _limit(self) -> int | None:
        """Return the number of rows, or None for all."""
        node = self._tree.args.get("limit")
        if node is None:
            return None
        count = node.expression if isinstance(node, exp.Limit) else None
        if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdigit():
            raise UnsupportedError("only a constant is sent as LIMIT")
        return int(count.name)

    def _sort_keys(self) -> list[tuple[exp.Column, Ordering]]:
        """Return the keys of ORDER BY with the names of the query."""
        order = self._tree.args.get("order")
        keys = []
        for node in order.expressions if order is not None else ():
            if not isinstance(node, exp.Ordered) or not isinstance(node.this, exp.Column):
                raise UnsupportedError("only columns are sent as sort keys")
            ordering = Ordering(node.this.name, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
            keys.append((node.this, ordering))
        return keys

    def _column(self, node: exp.Expr) -> str:
        """Return the name of the table's column that a node refers to."""
        if not isinstance(node, exp.Column) or len(node.parts) > 2 or node.table not in ("", self._alias):
            raise UnsupportedError(f"{node.sql()} is not a column of the table")
        column = self._table.column(node.name, name_rule=self._name_rule)
        if column is None:
            raise UnsupportedError(f"{node.sql()} is not a column of the table")
        return column.name

    def _top_rows(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> PushedQuery:
        """Return the query of the first rows."""
        items = self._selected_columns()
        order_by = [self._table_ordering(node, key) for node, key in keys]
        columns = tuple(dict.fromkeys(items))
        query = row_query(self._table, columns, self._predicate, limit=limit, order_by=order_by)
        if not query.is_limited:
            raise UnsupportedError("all rows are returned, or the database orders them otherwise than Spark")
        return PushedQuery(query, tuple(items), self._types(columns))

    def _selected_columns(self) -> list[str]:
        items: list[str] = []
        for node in self._tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Star) and not inner.args.get("except_") and not inner.args.get("replace"):
                items += [column.name for column in self._table.columns]
            else:
                items.append(self._column(inner))
        return items

    def _table_ordering(self, node: exp.Column, key: Ordering) -> Ordering:
        """Return a sort key with the name of the table's column."""
        if node.name.lower() in {
            alias.alias.lower() for alias in self._tree.expressions if isinstance(alias, exp.Alias)
        }:
            raise UnsupportedError(f"{node.name} may be an alias")
        return replace(key, column=self._column(node))

    def _aggregation(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> PushedQuery:
        """Return the query of aggregates and groups. Spark sorts and limits the few rows of the result."""
        groups = self._groups()
        if limit is not None and not keys:
            raise UnsupportedError("LIMIT without ORDER BY returns arbitrary groups")
        aggregates: list[Aggregate] = []
        items = []
        for node in self._tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.AggFunc):
                aggregates.append(self._aggregate(inner, self._table.free_name(f"aggregate_{len(aggregates)}")))
                items.append(aggregates[-1].alias)
            else:
                items.append(self._column(inner))
                if items[-1] not in groups:
                    raise UnsupportedError(f"{items[-1]} is neither aggregated nor in GROUP BY")
        if not items:
            raise UnsupportedError("the SELECT list is empty")
        order = self._key_positions(keys)
        query = aggregate_query(self._table, self._predicate, aggregates, groups)
        types = self._types(groups) | {aggregate.alias: self._result_type(aggregate) for aggregate in aggregates}
        counts = frozenset(aggregate.alias for aggregate in aggregates if aggregate.function in _COUNTS)
        return PushedQuery(query, tuple(items), types, counts, order, limit)

    def _groups(self) -> list[str]:
        """Return the columns of GROUP BY."""
        group = self._tree.args.get("group")
        if group is None:
            return []
        if has_other_arguments(group, "expressions"):
            raise UnsupportedError("only columns are sent in GROUP BY")
        return list(dict.fromkeys(map(self._column, group.expressions)))

    def _aggregate(self, node: exp.AggFunc, alias: str) -> Aggregate:
        function = _AGGREGATES.get(type(node))
        if function is None or node.args.get("expressions"):
            raise UnsupportedError(f"{node.sql()} is not sent")
        if function is AggregateFunction.COUNT and isinstance(node.this, exp.Star | exp.Literal):
            return Aggregate(AggregateFunction.COUNT_ALL, alias)
        return Aggregate(function, alias, self._column(node.this))

    def _key_positions(self, keys: list[tuple[exp.Column, Ordering]]) -> tuple[tuple[int, Ordering], ...]:
        """Return the positions of the sort keys in the SELECT list."""
        names = [self._name_rule.key(node.alias_or_name) for node in self._tree.expressions]
        if any(node.table or names.count(self._name_rule.key(node.name)) != 1 for node, _ in keys):
            raise UnsupportedError("a sort key is not selected")
        return tuple((names.index(self._name_rule.key(node.name)), ordering) for node, ordering in keys)

    def _types(self, names: Sequence[str]) -> dict[str, t.DataType]:
        types = {column.name: column.spark_type for column in self._table.columns}
        return {name: types[name] for name in names}

    def _result_type(self, aggregate: Aggregate) -> t.DataType:
        if aggregate.column is None or aggregate.function is AggregateFunction.COUNT:
            return t.LongType()
        return self._types([aggregate.column])[aggregate.column]


class FullPushdownScan(Scan):
    """The result of a pushed query, read as one partition in the database's order."""

    def __init__(self, pushed_query: PushedQuery, execution: QueryExecution, plan: SourceReport) -> None:
        """`plan` is the report before the run, without the columns."""
        self._query = pushed_query.query
        self._schema = t.StructType([t.StructField(name, data_type) for name, data_type in pushed_query.types.items()])
        self._execution = execution
        self._plan = plan.model_copy(update={"columns": tuple(pushed_query.types)})

    @property
    def worker_use(self) -> WorkerUse:
        """The driver may fetch the result instead."""
        return WorkerUse.POSSIBLE

    def frame(self) -> DataFrame:
        """Return the result, read by one task."""
        return self._execution.frame((self._query.sql,), self._schema, "one result", has_few_rows=self._is_small)

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the result in the driver, or None if it may be large, or if tasks should retry a lost connection."""
        # While SQLite's library searches for rows, signals do not reach the driver.
        if not self._is_small or self._query.dialect is Dialect.SQLITE:
            return None
        with suppress(LostConnectionError), closing(self._execution.connect()) as client:
            return self._execution.fetch_local(client, self._query.sql, self._schema)
        return None

    @property
    def _is_small(self) -> bool:
        """Whether the result is assumed to be small: aggregates, and few rows by the LIMIT."""
        limit = self._query.select.args.get("limit")
        return self._query.is_aggregate or (limit is not None and int(limit.expression.name) <= MAX_FEW_ROWS)

    def report(self) -> SourceReport:
        """Return the plan, with metrics after a run."""
        return self._execution.report(self._plan, self._query.sql)


def _sort_key(name: str, ordering: Ordering) -> Column:
    column = f.col(quote_name(name))
    if ordering.descending:
        return column.desc_nulls_first() if ordering.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if ordering.nulls_first else column.asc_nulls_last()
