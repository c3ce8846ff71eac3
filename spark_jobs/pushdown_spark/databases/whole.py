"""Queries that a database answers beyond their predicate: the first rows of an order, counts, extremes and groups."""

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
from pushdown_spark.databases.address import Settings
from pushdown_spark.databases.classify import Classified
from pushdown_spark.databases.connections import Connections
from pushdown_spark.databases.model import Dialect, RemoteTable
from pushdown_spark.databases.query import Aggregate, AggregateFunction, Ordering, RemoteQuery, remote_query
from pushdown_spark.databases.run import RemoteRun, wanted_field
from pushdown_spark.databases.slices import FEW_ROWS
from pushdown_spark.errors import LostConnectionError
from pushdown_spark.scan.base import Scan

_KNOWN_PARTS = frozenset({"expressions", "from_", "where", "group", "order", "limit"})
_AGGREGATES: dict[type[exp.Expr], AggregateFunction] = {exp.Min: AggregateFunction.MIN, exp.Max: AggregateFunction.MAX}


@dataclass(frozen=True)
class Answered:
    """A query that the database answers: what is sent, and which of its columns are, in order, those of the query.

    `types` are of the columns that are sent, by name; `counts` are those that are never NULL. `order` are keys that
    Spark has to sort the answer by, as places among the query's columns, and `limit` the rows to keep of it then.
    """

    query: RemoteQuery
    items: tuple[str, ...]
    types: dict[str, t.DataType]
    counts: frozenset[str] = frozenset()
    order: tuple[tuple[int, Ordering], ...] = ()
    limit: int | None = None

    def shaped(self, names: Sequence[str]) -> Callable[[DataFrame], DataFrame]:
        """What makes the rows of the query, with its own names, of those of the answer."""
        keys = [_sort_key(self.items[place], ordering) for place, ordering in self.order]
        outputs = [self._output(item).alias(name) for item, name in zip(self.items, names, strict=True)]

        def shape(frame: DataFrame) -> DataFrame:
            ordered = frame.orderBy(*keys) if keys else frame
            kept = ordered if self.limit is None else ordered.limit(self.limit)
            return kept.select(*outputs)

        return shape

    def _output(self, item: str) -> Column:
        """A column of the answer; Spark takes it for granted that counts are not NULL."""
        return f.coalesce(_column(item), f.lit(0)) if item in self.counts else _column(item)


def answered(tree: exp.Select, table: RemoteTable, classified: Classified, *, case_sensitive: bool) -> Answered | None:
    """The answer to a query over one table, whose predicate is exact; None where Spark has to do more than order it.

    What is selected must be columns, and counts, minima and maxima of such: what Spark computes of them it does not
    compute here.
    """
    if not classified.is_exact or any(value for key, value in tree.args.items() if key not in _KNOWN_PARTS):
        return None
    (relation,) = tree.find_all(exp.Table)
    plain = {key for key, value in relation.args.items() if value} <= {"this", "alias"}
    if not plain or relation.alias_column_names or tree.find(exp.Subquery, exp.Window):
        return None
    return _Reading(tree, table, classified, case_sensitive).answer()


class _Reading:
    """One query, taken apart."""

    def __init__(self, tree: exp.Select, table: RemoteTable, classified: Classified, case_sensitive: bool) -> None:
        self._tree = tree
        self._table = table
        self._classified = classified
        self._case_sensitive = case_sensitive
        self._alias = next(tree.find_all(exp.Table)).alias_or_name

    def answer(self) -> Answered | None:
        """The answer, or None."""
        limit, limited = self._limit()
        keys = self._keys()
        if limited is False or keys is None:
            return None
        if self._tree.args.get("group") or self._tree.find(exp.AggFunc):
            return self._aggregated(keys, limit)
        return self._first(keys, limit)

    def _limit(self) -> tuple[int | None, bool]:
        """The number of rows, None for all, and whether it is understood."""
        node = self._tree.args.get("limit")
        if node is None:
            return None, True
        count = node.expression if isinstance(node, exp.Limit) else None
        known = isinstance(count, exp.Literal) and not count.is_string and count.name.isdigit()
        return (int(count.name), True) if known and count is not None else (None, False)

    def _keys(self) -> list[tuple[exp.Column, Ordering]] | None:
        """The keys of ORDER BY where all are columns; the names are still the query's."""
        order = self._tree.args.get("order")
        keys = []
        for node in order.expressions if order is not None else ():
            if not isinstance(node, exp.Ordered) or not isinstance(node.this, exp.Column):
                return None
            ordering = Ordering(node.this.name, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
            keys.append((node.this, ordering))
        return keys

    def _column(self, node: exp.Expr) -> str | None:
        """The name of the table's column that a node is, None for anything else."""
        if not isinstance(node, exp.Column) or len(node.parts) > 2 or node.table not in ("", self._alias):
            return None
        found = self._table.column(node.name, case_sensitive=self._case_sensitive)
        return None if found is None else found.name

    def _first(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> Answered | None:
        """The first rows, in the database's order where that is Spark's."""
        items = self._selected()
        ordering = [self._renamed(node, key) for node, key in keys]
        if items is None or limit is None or None in ordering:
            return None
        known = [key for key in ordering if key is not None]
        columns = tuple(dict.fromkeys(items))
        query = remote_query(self._table, columns, self._classified, limit=limit, order_by=known)
        if not query.limited:
            return None
        return Answered(query, tuple(items), self._types(columns))

    def _selected(self) -> list[str] | None:
        """The columns that are selected; None where there is anything else."""
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

    def _renamed(self, node: exp.Column, key: Ordering) -> Ordering | None:
        """A key of ORDER BY by the table's column; None where the SELECT may have given the name to something else."""
        name = self._column(node)
        aliases = {alias.alias.lower() for alias in self._tree.expressions if isinstance(alias, exp.Alias)}
        if name is None or node.name.lower() in aliases:
            return None
        return Ordering(name, key.descending, key.nulls_first)

    def _aggregated(self, keys: list[tuple[exp.Column, Ordering]], limit: int | None) -> Answered | None:
        """Aggregates, by groups if there are any; Spark sorts and cuts off the few rows that come."""
        groups = self._groups()
        if groups is None or (limit is not None and not keys):
            return None
        aggregates: list[Aggregate] = []
        items = []
        for node in self._tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            name = self._column(inner)
            if name is None:
                aggregate = self._aggregate(inner, self._free_name(len(aggregates)))
                if aggregate is None:
                    return None
                aggregates.append(aggregate)
                name = aggregate.alias
            elif name not in groups:
                return None
            items.append(name)
        order = self._places(keys)
        query = remote_query(self._table, (), self._classified, aggregates=aggregates, group_by=groups)
        if order is None or not query.aggregated:
            return None
        types = self._types(groups) | {each.alias: self._type(each) for each in aggregates}
        counting = (AggregateFunction.COUNT, AggregateFunction.COUNT_ALL)
        counts = frozenset(each.alias for each in aggregates if each.function in counting)
        return Answered(query, tuple(items), types, counts, order, limit)

    def _groups(self) -> list[str] | None:
        """The columns of GROUP BY; None where it has anything else."""
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
        function = _AGGREGATES.get(type(node))
        name = self._column(node.this) if function is not None and not node.args.get("expressions") else None
        return None if function is None or name is None else Aggregate(function, alias, name)

    def _places(self, keys: list[tuple[exp.Column, Ordering]]) -> tuple[tuple[int, Ordering], ...] | None:
        """Which of the selected columns the keys of ORDER BY are; None where one is none of them."""
        names = [node.alias_or_name.lower() for node in self._tree.expressions]
        places = []
        for node, ordering in keys:
            if node.table or names.count(node.name.lower()) != 1:
                return None
            places.append((names.index(node.name.lower()), ordering))
        return tuple(places)

    def _free_name(self, number: int) -> str:
        name = f"aggregate_{number}"
        while self._table.column(name) is not None:
            name += "_"
        return name

    def _types(self, names: Sequence[str]) -> dict[str, t.DataType]:
        kinds = {column.name: column.spark_type for column in self._table.columns}
        return {name: kinds[name] for name in names}

    def _type(self, aggregate: Aggregate) -> t.DataType:
        if aggregate.column is None or aggregate.function is AggregateFunction.COUNT:
            return t.LongType()
        return self._types([aggregate.column])[aggregate.column]


class AnswerScan(Scan):
    """The rows of an answer, in one piece and in the order in which they come."""

    is_exact = True

    def __init__(
        self,
        spark: SparkSession,
        answer: Answered,
        table: RemoteTable,
        spec: RemoteSourceSpec,
        connections: Connections,
    ) -> None:
        self._answer = answer
        self._table = table
        self._connections = connections
        self._run = RemoteRun(spark, connections, spec)
        self._planned = SourceReport(reader="remote", reason="the database answers the whole query as Spark would")

    def planned(self, classified: Classified, notes: tuple[str, ...]) -> AnswerScan:
        """The scan, with what its report says of the predicate."""
        columns = tuple(self._answer.types)
        update = {"conjuncts": classified.reports, "columns": columns, "notes": notes}
        self._planned = self._planned.model_copy(update=update)
        return self

    def frame(self) -> DataFrame:
        """The rows."""
        return self._run.frame((self._answer.query.sql,), *self._fields(), Settings(few=self._is_small), "one answer")

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """The rows at hand, where there are few; None where there may be many, or tasks are to try again."""
        # While SQLite's library looks for rows, no signal reaches the driver.
        if not self._is_small or self._table.dialect is Dialect.SQLITE:
            return None
        with suppress(LostConnectionError), closing(self._connections.opened()) as client:
            return self._run.gathered(client, self._answer.query.sql, *self._fields())
        return None

    @property
    def _is_small(self) -> bool:
        """Aggregates are taken to be few."""
        query = self._answer.query
        limit = query.select.args.get("limit")
        return query.aggregated or (limit is not None and int(limit.expression.name) <= FEW_ROWS)

    def _fields(self) -> tuple[list[pa.Field], t.StructType]:
        """The columns as they arrive, and as Spark has them."""
        schema = t.StructType([t.StructField(name, kind) for name, kind in self._answer.types.items()])
        return [wanted_field(field, self._table) for field in schema.fields], schema

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return True: the database runs the whole query."""
        return True

    def report(self) -> SourceReport:
        """The plan, and the figures after a run."""
        return self._run.report(self._planned, self._answer.query.sql)


def _sort_key(name: str, ordering: Ordering) -> Column:
    column = _column(name)
    if ordering.descending:
        return column.desc_nulls_first() if ordering.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if ordering.nulls_first else column.asc_nulls_last()


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")
