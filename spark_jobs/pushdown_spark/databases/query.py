"""Puts a remote query together: columns, condition, and as much of order, limit and aggregates as is the same there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from sqlglot import exp

from pushdown_spark.databases.classify import Classified
from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.operands import Operand, operand, remote_type
from pushdown_spark.databases.render import all_of, call, column_reference, quoted, table_reference, to_sql
from pushdown_spark.databases.texts import column_text
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import FLOATING, Kind

_SORTED_BYTES = 1024
"""`max_sort_length` as servers have it."""
_CHARACTER_BYTES = 4
_SIZED = frozenset({"char", "varchar", "binary", "varbinary"})


class AggregateFunction(StrEnum):
    """Aggregates whose result is the same there and here."""

    COUNT_ALL = "count(*)"
    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Ordering:
    """One key of an ORDER BY; without `nulls_first` nulls are where Spark has them: first if it ascends, else last."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query, and the name that its column gets."""

    function: AggregateFunction
    alias: str
    column: str | None = None


@dataclass(frozen=True)
class RemoteQuery:
    """What is sent. `limited`, `ordered` and `aggregated` tell what of these the SQL does, `notes` why not the rest."""

    select: exp.Select
    dialect: Dialect
    limited: bool = False
    ordered: bool = False
    aggregated: bool = False
    notes: tuple[str, ...] = ()

    @cached_property
    def sql(self) -> str:
        """The text that is sent."""
        return to_sql(self.select, self.dialect)


def remote_query(
    table: RemoteTable,
    columns: Sequence[str],
    classified: Classified | None = None,
    *,
    limit: int | None = None,
    order_by: Sequence[Ordering] = (),
    aggregates: Sequence[Aggregate] = (),
    group_by: Sequence[str] = (),
    partition_bounds: exp.Expr | None = None,
) -> RemoteQuery:
    """The query for some columns (names as in the table; none: a 1 for each row) of the rows that a predicate keeps.

    A limit goes along only if the whole predicate does, with an order only if that is Spark's there; so do aggregates,
    and not over a part of the table. Beside `partition_bounds` a limit holds for the part. Raises KeyError for a column
    that the table has not.
    """
    where = [part for part in (partition_bounds, None if classified is None else classified.where) if part is not None]
    notes: list[str] = []
    exact = classified is None or classified.is_exact
    if not exact and (limit is not None or aggregates or group_by):
        notes.append("Spark filters again, so neither limit nor aggregates are sent")
    select = _Select(table, where)
    if exact and (aggregates or group_by):
        refusal = "a part of the table has parts of groups" if partition_bounds is not None else None
        built = select.aggregated(aggregates, group_by) if refusal is None else refusal
        if isinstance(built, exp.Select):
            return RemoteQuery(built, table.dialect, aggregated=True)
        notes.append(f"aggregates are not sent: {built}")
    query = select.plain(columns)
    if not exact or limit is None or aggregates or group_by:
        return RemoteQuery(query, table.dialect, notes=tuple(notes))
    keys = select.order(order_by)
    if isinstance(keys, str):
        return RemoteQuery(query, table.dialect, notes=(*notes, f"order and limit are not sent: {keys}"))
    query = query.order_by(*keys, copy=False) if keys else query
    return RemoteQuery(query.limit(limit, copy=False), table.dialect, True, bool(keys), False, tuple(notes))


class _Select:
    """The parts of a query over one table."""

    def __init__(self, table: RemoteTable, where: Sequence[exp.Expr]) -> None:
        self._table = table
        self._where = where

    def plain(self, columns: Sequence[str]) -> exp.Select:
        """The columns as the transport wants them."""
        names = [_named(self._rendered(self._column(name)), name) for name in columns]
        return self._over(names or [exp.Literal.number(1)])

    def _over(self, expressions: Sequence[exp.Expr]) -> exp.Select:
        query = exp.Select(expressions=list(expressions)).from_(table_reference(self._table), copy=False)
        return query.where(all_of([part.copy() for part in self._where]), copy=False) if self._where else query

    def _column(self, name: str) -> RemoteColumn:
        found = self._table.column(name, case_sensitive=True)
        if found is None:
            raise KeyError(f"the remote table has no column {name!r}")
        return found

    def _rendered(self, column: RemoteColumn, value: exp.Expr | None = None) -> exp.Expr:
        """The column in the SELECT list, or what stands for its value in the same form."""
        plain = column_reference(self._table, column.name)
        tree = plain if column.rendering is None else column.rendering.copy()
        if value is None:
            return tree
        return tree.transform(lambda node: value.copy() if node == plain else node)

    def order(self, order_by: Sequence[Ordering]) -> list[exp.Expr] | str:
        """The keys of an ORDER BY that is Spark's, or why there is none."""
        try:
            return [self._key(key) for key in order_by]
        except UnsupportedError as problem:
            return str(problem)

    def _key(self, key: Ordering) -> exp.Expr:
        value = _ordered(self._certain(key.column), self._table.dialect).transform(self._of_table)
        first = not key.descending if key.nulls_first is None else key.nulls_first
        return exp.Ordered(this=value, desc=key.descending, nulls_first=first)

    def _of_table(self, node: exp.Expr) -> exp.Expr:
        """A column under its table's name: by its own it is to ORDER BY what the SELECT list makes of it."""
        return exp.Column(this=node.this, table=quoted(self._table.name)) if isinstance(node, exp.Column) else node

    def _certain(self, name: str) -> Operand:
        """A column all of whose values are known to be Spark's."""
        found = operand(self._column(name), self._table.dialect)
        if found.suspect is not None:
            raise UnsupportedError(f"{name} may hold values that only the reader judges")
        return found

    def aggregated(self, aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> exp.Select | str:
        """The grouped query, or why it is left to Spark."""
        try:
            groups = [self._group(name) for name in group_by]
            names = [_named(self._rendered(self._column(name)), name) for name in group_by]
            query = self._over([*names, *(_named(self._aggregate(each), each.alias) for each in aggregates)])
        except UnsupportedError as problem:
            return str(problem)
        return query.group_by(*groups, copy=False) if groups else query

    def _group(self, name: str) -> exp.Expr:
        """A column that is grouped as Spark groups it: by its bytes, zeros of both signs apart."""
        found = self._certain(name)
        if found.kind in FLOATING:
            raise UnsupportedError(f"{name} has zeros of two signs, of which Spark makes one")
        if found.column.special_dates_are_null:
            raise UnsupportedError(f"special dates of {name} are groups of their own there")
        if found.kind is not Kind.STRING:
            return found.value() if self._table.dialect is Dialect.SQLITE else found.bare
        form = column_text(found, self._table.dialect)
        if form.only_true or not found.column.deterministic or remote_type(found.column).base == "citext":
            raise UnsupportedError(f"the collation of {name} makes one group of different strings")
        return form.equal() if self._table.dialect is Dialect.SQLITE else found.bare

    def _aggregate(self, aggregate: Aggregate) -> exp.Expr:
        if aggregate.function is AggregateFunction.COUNT_ALL:
            return exp.Count(this=exp.Star())
        column = self._column(aggregate.column or "")
        if aggregate.function is AggregateFunction.COUNT:
            return call("COUNT", self._certain(column.name).value())
        found = self._certain(column.name)
        if found.kind in (Kind.BOOLEAN, Kind.BINARY):
            raise UnsupportedError(f"not every database has {aggregate.function} of a {found.kind}")
        value = call(aggregate.function.upper(), _comparable(found, self._table.dialect))
        return self._rendered(column, value)


def _ordered(found: Operand, dialect: Dialect) -> exp.Expr:
    """A column in the order that Spark gives it, as ORDER BY sees it."""
    if dialect.is_mysql and found.kind in (Kind.STRING, Kind.BINARY) and not _is_sorted_whole(found):
        raise UnsupportedError(f"MySQL sorts by the first {_SORTED_BYTES} bytes, and {found.column.name} may have more")
    return _comparable(found, dialect)


def _is_sorted_whole(found: Operand) -> bool:
    """Whether MySQL's ORDER BY looks at all bytes of a column's values."""
    declared = remote_type(found.column)
    width = _CHARACTER_BYTES if found.kind is Kind.STRING else 1
    return declared.base in _SIZED and len(declared.numbers) == 1 and declared.numbers[0] * width <= _SORTED_BYTES


def _comparable(found: Operand, dialect: Dialect) -> exp.Expr:
    """A column in a form whose order is Spark's."""
    if found.kind is not Kind.STRING:
        return found.value()
    form = column_text(found, dialect)
    if form.ordered is None:
        raise UnsupportedError(f"the strings of {found.column.name} are not ordered by their bytes")
    return form.ordered()


def _named(value: exp.Expr, name: str) -> exp.Expr:
    return value if isinstance(value, exp.Column) and value.name == name else exp.Alias(this=value, alias=quoted(name))
