"""Statistics of the relations of a query's SELECTs, including sub-queries, set operations and rank limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from pushdown_spark.optimizer.logical_plan import Filter, owner
from pushdown_spark.optimizer.push_predicates import IsExactEquality, inner_join_conjuncts, pushdown_predicates
from pushdown_spark.optimizer.select_block import SelectBlock
from pushdown_spark.optimizer.sql_reader import referenced_cte
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics

_RANKS = (exp.RowNumber, exp.Rank)
"""Functions that number rows from one on. Few rows are assumed to share a rank."""
_GROUPS_EXPONENT = 0.75
"""GROUP BY and DISTINCT are assumed to return this power of their input rows."""

Guess = Callable[[float], float]
"""Returns a selectivity, given the number of distinct values of a column."""
_SUBQUERY_GUESSES: dict[type[exp.Expr], Guess] = {
    exp.EQ: lambda distinct: 1.0 / distinct,
    exp.In: lambda _: 0.5,
    **dict.fromkeys((exp.LT, exp.LTE, exp.GT, exp.GTE), lambda _: 1 / 3),
}
"""Selectivity of a comparison of a column with a sub-query."""
_RANK_COUNTS: dict[type[exp.Expr], Callable[[int], int]] = {
    exp.EQ: lambda _: 1,
    exp.LTE: lambda limit: limit,
    exp.LT: lambda limit: limit - 1,
}
"""Number of ranks that satisfy a comparison with a number."""
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.EQ: exp.EQ, exp.GTE: exp.LTE, exp.GT: exp.LT}
"""Comparisons with both sides exchanged."""

TableStatisticsOf = Callable[[exp.Table, str, tuple[exp.Expr, ...], frozenset[str]], RelationStatistics | None]
"""Returns the statistics of a table, given its name in the SELECT, the conditions on it, and its join keys."""

BlockRows = Callable[[SelectBlock], float | None]
"""Returns the estimated rows of the FROM and WHERE clauses of a block."""


class QueryStatistics:
    """Statistics of the relations of all SELECTs of one query."""

    def __init__(
        self,
        blocks: Iterable[SelectBlock],
        table_statistics: TableStatisticsOf,
        exact_equality: Callable[[SelectBlock], IsExactEquality],
        block_rows: BlockRows,
    ) -> None:
        """Prepare the statistics of these blocks. `exact_equality` compares the column types of a block."""
        self._blocks = {id(block.select): block for block in blocks}
        self._table_statistics = table_statistics
        self._exact_equality = exact_equality
        self._block_rows = block_rows
        self._known: dict[tuple[int, str], RelationStatistics | None] = {}

    def statistics_of(
        self, block: SelectBlock, name: str, conditions: Sequence[exp.Expr] = ()
    ) -> RelationStatistics | None:
        """Return the statistics of a relation of a block, with additional conditions on it."""
        if conditions:
            return self._filtered_by_subqueries(block, name, tuple(conditions))
        key = id(block.select), name
        if key not in self._known:
            self._known[key] = self._filtered_by_subqueries(block, name)
        return self._known[key]

    def _filtered_by_subqueries(
        self, block: SelectBlock, name: str, conditions: tuple[exp.Expr, ...] = ()
    ) -> RelationStatistics | None:
        """Return the statistics of a relation after comparisons with sub-queries in WHERE."""
        comparisons = [
            (column, guess)
            for column, guess, query in _subquery_comparisons(block, name)
            if self._is_uncorrelated(query)
        ]
        keys = _join_columns(block, name) | _rank_partition_columns(block, name) | {column for column, _ in comparisons}
        relation = self._base_statistics(block, name, keys, conditions)
        if relation is None or not comparisons:
            return relation
        selectivities = (guess(relation.distinct((name, column))) for column, guess in comparisons)
        return replace(relation, filtered_rows=relation.filtered_rows * math.prod(selectivities))

    def _is_uncorrelated(self, query: exp.Query) -> bool:
        """Return whether a sub-query has no reference to an outer query. Spark turns others into joins."""
        blocks = [self._blocks.get(id(select)) for select in query.find_all(exp.Select)]
        return all(
            block is not None and all(owner(column, block.columns) for column in block.select.find_all(exp.Column))
            for block in blocks
        )

    def _base_statistics(
        self, block: SelectBlock, name: str, keys: frozenset[str], additional: tuple[exp.Expr, ...]
    ) -> RelationStatistics | None:
        """Return the statistics of a table or sub-query with the conditions on it alone."""
        node = block.relations[name]
        conditions = pushdown_predicates(block.plan, block.columns, self._exact_equality(block))[name]
        if isinstance(node, exp.Table):
            cte = referenced_cte(node)
            if cte is None:
                return self._table_statistics(node, name, (*conditions, *additional), keys)
            if cte.parent is not None and cte.parent.args.get("recursive"):
                return None
            node = cte
        statistics = self._derived(node.this, name)
        return None if statistics is None else self._limited_by_ranks(statistics, node.this, name, conditions)

    def _derived(self, query: exp.Expr, name: str) -> RelationStatistics | None:
        """Return the statistics of the result of a sub-query."""
        if isinstance(query, exp.Values):
            rows = float(len(query.expressions))
            return RelationStatistics(rows, rows, max_bytes=0.0)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query, name)
        block = self._blocks.get(id(query))
        joined_rows = None if block is None else self._block_rows(block)
        if block is None or joined_rows is None:
            return None
        rows = _output_rows(block.select, joined_rows)
        columns = {
            (name, column): JoinColumnStatistics(min(distinct, rows)) for column, distinct in self._output(block)
        }
        return RelationStatistics(rows, rows, columns)

    def _set_operation(self, query: exp.SetOperation, name: str) -> RelationStatistics | None:
        """Return the statistics of a set operation. Its columns have the names of the first SELECT."""
        first, second = (self._derived(side.unnest(), name) for side in (query.left, query.right))
        if first is None or second is None:
            return None
        if isinstance(query, exp.Union):
            rows = first.rows + second.rows
        elif isinstance(query, exp.Except):
            rows = first.rows
        else:
            rows = min(first.rows, second.rows)
        if query.args.get("distinct"):
            rows = _estimated_groups(rows)
        columns = {key: JoinColumnStatistics(min(column.distinct, rows)) for key, column in first.columns.items()}
        return RelationStatistics(rows, rows, columns)

    def _output(self, block: SelectBlock) -> Iterator[tuple[str, float]]:
        """Yield the columns that a SELECT passes on, under their new names, and their distinct values."""
        for item in block.select.expressions:
            if item.is_star:
                yield from self._star_output(block, item)
                continue
            distinct = self._distinct(block, item.unalias())
            if distinct is not None and item.alias_or_name:
                yield item.alias_or_name.lower(), distinct

    def _star_output(self, block: SelectBlock, star: exp.Expr) -> Iterator[tuple[str, float]]:
        names = [star.table.lower()] if isinstance(star, exp.Column) else block.relations
        for name in names:
            is_visible = name in block.relations and name not in block.hidden
            statistics = self.statistics_of(block, name) if is_visible else None
            if statistics is not None:
                yield from ((key[1], statistics.filtered_distinct(key)) for key in statistics.columns)

    def _distinct(self, block: SelectBlock, column: exp.Expr) -> float | None:
        """Return the distinct values of a column of a block's relations, or None for any other expression."""
        relation = owner(column, block.columns)
        statistics = None if relation is None else self.statistics_of(block, relation)
        if statistics is None or relation is None:
            return None
        return statistics.filtered_distinct((relation, column.name.lower()))

    def _limited_by_ranks(
        self, statistics: RelationStatistics, query: exp.Expr, name: str, conditions: Sequence[exp.Expr]
    ) -> RelationStatistics:
        """Return the statistics of a sub-query after conditions on its ranks."""
        block = self._blocks.get(id(query))
        if block is None:
            return statistics
        for limit in rank_limits(block.select, conditions):
            rows = limit.rows(statistics.rows, partial(self._distinct, block))
            ranks = JoinColumnStatistics(min(float(limit.ranks), rows))
            statistics = RelationStatistics(rows, rows, {**statistics.columns, (name, limit.column): ranks})
        return statistics


def _output_rows(select: exp.Select, rows: float) -> float:
    """Return the rows of a SELECT after GROUP BY, DISTINCT and LIMIT."""
    if select.args.get("group") is not None or select.args.get("distinct") is not None:
        rows = _estimated_groups(rows)
    elif any(item.find(exp.AggFunc) is not None and item.find(exp.Window) is None for item in select.expressions):
        rows = 1.0
    limit = select.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and not limit.expression.is_string:
        rows = min(rows, float(limit.expression.name))
    return max(rows, 1.0)


def _estimated_groups(rows: float) -> float:
    """Return the estimated number of groups of rows by columns about which nothing is known."""
    return math.pow(max(rows, 0.0), _GROUPS_EXPONENT)


def _subquery_comparisons(block: SelectBlock, name: str) -> Iterator[tuple[str, Guess, exp.Query]]:
    """Yield the columns of a relation that WHERE compares with sub-queries, the guesses, and the sub-queries."""
    conditions = block.plan.conjuncts if isinstance(block.plan, Filter) else ()
    for condition in conditions:
        node = condition.node.unnest()
        guess = _SUBQUERY_GUESSES.get(type(node))
        sides = (node.args.get("this"), node.args.get("expression") or node.args.get("query"))
        for column, other in (sides, sides[::-1]):
            if guess is None or not isinstance(column, exp.Column) or not isinstance(other, exp.Expr):
                continue
            query = other.find(exp.Query)
            if query is not None and owner(column, block.columns) == name:
                yield column.name.lower(), guess, query


def _join_columns(block: SelectBlock, name: str) -> frozenset[str]:
    """Return the columns of a relation in conditions over several relations of the block's chains."""
    columns = (
        column
        for condition in inner_join_conjuncts(block.plan, include_preserved=True)
        if len(condition.names) > 1
        for column in condition.node.find_all(exp.Column)
    )
    return _columns_of(block, name, columns)


def _rank_partition_columns(block: SelectBlock, name: str) -> frozenset[str]:
    """Return the columns of a relation that partition the windows of the block's ranks."""
    columns = (column for partition in _rank_partitions(block.select).values() for column in partition)
    return _columns_of(block, name, columns)


def _columns_of(block: SelectBlock, name: str, columns: Iterable[exp.Expr]) -> frozenset[str]:
    return frozenset(column.name.lower() for column in columns if owner(column, block.columns) == name)


@dataclass(frozen=True)
class RankLimit:
    """A condition that keeps rows of a number of `ranks` in each partition of a window. `column` holds the rank."""

    column: str
    ranks: int
    partition: tuple[exp.Expr, ...]

    def rows(self, rows: float, distinct: Callable[[exp.Expr], float | None]) -> float:
        """Return the remaining rows. `distinct` returns the distinct values of a partition column, None if unknown.

        >>> RankLimit("place", 3, (exp.column("shop"),)).rows(1000.0, lambda _: 20.0)
        60.0
        """
        counts = [distinct(column) for column in self.partition]
        partitions = math.prod(count for count in counts if count is not None)
        if None in counts:
            partitions = max(partitions, _estimated_groups(rows))
        return max(min(rows, self.ranks * partitions), 1.0)


def rank_limits(select: exp.Select, conditions: Iterable[exp.Expr]) -> Iterator[RankLimit]:
    """Yield the limits that conditions on the columns of a SELECT set for its ranks.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a, rank() OVER (PARTITION BY b ORDER BY c) AS place FROM t", dialect="spark")
    >>> [limit.ranks for limit in rank_limits(query, [sqlglot.condition("11 > q.place")])]
    [10]
    """
    partitions = _rank_partitions(select)
    for condition in conditions if partitions else ():
        limit = _rank_count(condition.unnest())
        if limit is not None and limit[0] in partitions:
            yield RankLimit(*limit, partitions[limit[0]])


def _rank_partitions(select: exp.Select) -> Mapping[str, tuple[exp.Expr, ...]]:
    """Return the partitions of the windows of a SELECT's ranks by the lower-case names of the ranks."""
    return {
        item.alias.lower(): tuple(item.this.args.get("partition_by") or ())
        for item in select.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window) and isinstance(item.this.this, _RANKS)
    }


def _rank_count(condition: exp.Expr) -> tuple[str, int] | None:
    """Return the column that a condition compares with a number, and how many ranks satisfy it."""
    if not isinstance(condition, exp.Binary):
        return None
    comparison: type[exp.Expr] | None = type(condition)
    column, number = condition.left.unnest(), condition.right.unnest()
    if isinstance(column, exp.Literal):
        comparison, column, number = _MIRRORED.get(type(condition)), number, column
    if comparison not in _RANK_COUNTS or not isinstance(column, exp.Column) or not isinstance(number, exp.Literal):
        return None
    return (column.name.lower(), max(_RANK_COUNTS[comparison](int(number.name)), 0)) if number.is_int else None
