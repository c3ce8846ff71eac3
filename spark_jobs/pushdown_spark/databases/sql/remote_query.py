"""Remote queries: the columns, the condition, and those orders, limits and aggregates that mean the same in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from sqlglot import exp

from pushdown_spark.databases.sql.builder import all_of, call, table_reference, to_sql
from pushdown_spark.databases.sql.column_operands import ColumnOperand, column_operand, remote_type
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable, quote_identifier
from pushdown_spark.databases.sql.string_comparison import column_comparison
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.expressions.types import FLOATING, LogicalType

_MYSQL_SORTED_BYTES = 1024
"""The default of `max_sort_length`."""
_MAX_CHARACTER_BYTES = 4
_SIZED_TYPES = frozenset({"char", "varchar", "binary", "varbinary"})


class AggregateFunction(StrEnum):
    """Aggregates that return the same in databases and in Spark."""

    COUNT_ALL = "count(*)"
    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Ordering:
    """A key of ORDER BY. By default, nulls are first in ascending order and last in descending order, as in Spark."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a column, and the name of the result's column."""

    function: AggregateFunction
    alias: str
    column: str | None = None


@dataclass(frozen=True)
class RemoteQuery:
    """A statement to send. `is_limited` is set if it has the requested LIMIT and ORDER BY."""

    select: exp.Select
    dialect: Dialect
    is_limited: bool = False
    is_aggregate: bool = False

    @cached_property
    def sql(self) -> str:
        """The text of the statement."""
        return to_sql(self.select, self.dialect)


def row_query(
    table: RemoteTable,
    columns: Sequence[str],
    predicate: PushedPredicate | None = None,
    *,
    limit: int | None = None,
    order_by: Sequence[Ordering] = (),
    bounds: exp.Expr | None = None,
) -> RemoteQuery:
    """Return the query for some columns of the rows that a predicate keeps. Without columns, it selects 1 for each row.

    `bounds` is the condition of a partition; the limit then applies to the partition. The limit and the order are sent
    if the predicate is exact and the database orders as Spark does. Raises KeyError for an unknown column.
    """
    builder = _QueryBuilder(table, predicate, bounds)
    query = builder.rows(columns)
    if limit is None or (predicate is not None and not predicate.is_exact):
        return RemoteQuery(query, table.dialect)
    try:
        keys = [builder.sort_key(ordering) for ordering in order_by]
    except UnsupportedError:
        return RemoteQuery(query, table.dialect)
    query = query.order_by(*keys, copy=False) if keys else query
    return RemoteQuery(query.limit(limit, copy=False), table.dialect, is_limited=True)


def aggregate_query(
    table: RemoteTable, predicate: PushedPredicate | None, aggregates: Sequence[Aggregate], group_by: Sequence[str]
) -> RemoteQuery:
    """Return the query for aggregates of the rows that a predicate keeps.

    Raises UnsupportedError if the result may differ from Spark's, and KeyError for an unknown column.
    """
    if predicate is not None and not predicate.is_exact:
        raise UnsupportedError("Spark evaluates a part of the predicate")
    query = _QueryBuilder(table, predicate).groups(aggregates, group_by)
    return RemoteQuery(query, table.dialect, is_aggregate=True)


class _QueryBuilder:
    """A builder of queries over one table."""

    def __init__(self, table: RemoteTable, predicate: PushedPredicate | None, bounds: exp.Expr | None = None) -> None:
        self._table = table
        condition = None if predicate is None else predicate.where
        self._conditions = [part for part in (bounds, condition) if part is not None]

    def rows(self, columns: Sequence[str]) -> exp.Select:
        """Return the query of columns in the form that the transport expects."""
        select_items = [_alias_as(_render(self._column(name)), name) for name in columns]
        return self._select(select_items or [exp.Literal.number(1)])

    def _select(self, expressions: Sequence[exp.Expr]) -> exp.Select:
        query = exp.Select(expressions=list(expressions)).from_(table_reference(self._table), copy=False)
        if not self._conditions:
            return query
        return query.where(all_of([condition.copy() for condition in self._conditions]), copy=False)

    def _column(self, name: str) -> RemoteColumn:
        column = self._table.column(name, name_rule=EXACT_NAMES)
        if column is None:
            raise KeyError(f"the remote table has no column {name!r}")
        return column

    def sort_key(self, ordering: Ordering) -> exp.Expr:
        """Return a key of ORDER BY. Raises UnsupportedError if the database orders the column otherwise than Spark."""
        value = _sortable(self._exact_operand(ordering.column), self._table.dialect).transform(self._qualify)
        nulls_first = not ordering.descending if ordering.nulls_first is None else ordering.nulls_first
        return exp.Ordered(this=value, desc=ordering.descending, nulls_first=nulls_first)

    def _qualify(self, node: exp.Expr) -> exp.Expr:
        """Qualify a column with its table. In ORDER BY, the bare name refers to the SELECT list."""
        return (
            exp.Column(this=node.this, table=quote_identifier(self._table.name))
            if isinstance(node, exp.Column)
            else node
        )

    def _exact_operand(self, name: str) -> ColumnOperand:
        """Return a column whose values are all those that Spark reads. Raises UnsupportedError for other columns."""
        operand = column_operand(self._column(name), self._table.dialect)
        if operand.recheck is not None:
            raise UnsupportedError(f"{name} may hold values that only the reader can convert")
        return operand

    def groups(self, aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> exp.Select:
        """Return the query of the groups. Raises UnsupportedError if they may differ from Spark's."""
        keys = [self._group_key(name) for name in group_by]
        names = [_alias_as(_render(self._column(name)), name) for name in group_by]
        outputs = [_alias_as(self._aggregate(aggregate), aggregate.alias) for aggregate in aggregates]
        query = self._select([*names, *outputs])
        return query.group_by(*keys, copy=False) if keys else query

    def _group_key(self, name: str) -> exp.Expr:
        """Return a column that is grouped as in Spark: strings by their bytes, and both zeros as one value."""
        operand = self._exact_operand(name)
        if operand.kind in FLOATING:
            raise UnsupportedError(f"{name} may hold zeros of both signs, which Spark groups as one value")
        if operand.column.special_dates_are_null:
            raise UnsupportedError(f"the database groups the special dates of {name}, which Spark reads as NULL")
        if operand.kind is not LogicalType.STRING:
            return operand.value if self._table.dialect is Dialect.SQLITE else operand.column.reference
        comparison = column_comparison(operand, self._table.dialect)
        is_citext = remote_type(operand.column).base == "citext"
        if comparison.only_true_reason or not operand.column.has_deterministic_collation or is_citext:
            raise UnsupportedError(f"the collation of {name} groups different strings together")
        return comparison.equal if self._table.dialect is Dialect.SQLITE else operand.column.reference

    def _aggregate(self, aggregate: Aggregate) -> exp.Expr:
        if aggregate.function is AggregateFunction.COUNT_ALL:
            return exp.Count(this=exp.Star())
        column = self._column(aggregate.column or "")
        operand = self._exact_operand(column.name)
        if aggregate.function is AggregateFunction.COUNT:
            return call("COUNT", operand.value)
        if operand.kind in (LogicalType.BOOLEAN, LogicalType.BINARY):
            raise UnsupportedError(f"not every database has {aggregate.function} of a {operand.kind}")
        value = call(aggregate.function.upper(), _comparable(operand, self._table.dialect))
        return _render(column, value)


def _render(column: RemoteColumn, value: exp.Expr | None = None) -> exp.Expr:
    """Return the SELECT expression of a column. `value` replaces the column in it."""
    reference = column.reference
    tree = reference if column.rendering is None else column.rendering.copy()
    if value is None:
        return tree
    return tree.transform(lambda node: value.copy() if node == reference else node)


def _sortable(operand: ColumnOperand, dialect: Dialect) -> exp.Expr:
    """Return an expression that ORDER BY sorts as Spark sorts the column."""
    is_string = operand.kind in (LogicalType.STRING, LogicalType.BINARY)
    if dialect.is_mysql and is_string and not _is_sorted_completely(operand):
        raise UnsupportedError(
            f"MySQL sorts by the first {_MYSQL_SORTED_BYTES} bytes, and {operand.column.name} may have more"
        )
    return _comparable(operand, dialect)


def _is_sorted_completely(operand: ColumnOperand) -> bool:
    """Return whether MySQL's ORDER BY compares all bytes of the column's values."""
    column_type = remote_type(operand.column)
    width = _MAX_CHARACTER_BYTES if operand.kind is LogicalType.STRING else 1
    return (
        column_type.base in _SIZED_TYPES
        and len(column_type.numbers) == 1
        and column_type.numbers[0] * width <= _MYSQL_SORTED_BYTES
    )


def _comparable(operand: ColumnOperand, dialect: Dialect) -> exp.Expr:
    """Return an expression whose order is that of Spark's values."""
    if operand.kind is not LogicalType.STRING:
        return operand.value
    return column_comparison(operand, dialect).in_order


def _alias_as(value: exp.Expr, name: str) -> exp.Expr:
    return (
        value
        if isinstance(value, exp.Column) and value.name == name
        else exp.Alias(this=value, alias=quote_identifier(name))
    )
