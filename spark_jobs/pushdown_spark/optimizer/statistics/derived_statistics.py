"""Statistics of the relations of a query's SELECTs, including joins, sub-queries and set operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from pushdown_spark.optimizer.join_order.equalities import ChainEqualities
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.passes.push_predicates import (
    Predicates,
    implied_predicates,
    inner_join_conjuncts,
    pushdown_predicates,
)
from pushdown_spark.optimizer.plans.logical_plan import (
    Conjunct,
    Filter,
    Join,
    JoinChain,
    JoinKind,
    Plan,
    RelationLeaf,
    extract_chain,
    owner,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.plans.sql_reader import referenced_cte
from pushdown_spark.optimizer.query_context import remove_qualifier
from pushdown_spark.optimizer.statistics.cardinality import (
    CardinalityEstimator,
    JoinFilter,
    OutputColumns,
    guess_selectivity,
)
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics

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
StatisticsOf = Callable[[SelectBlock, str, Sequence[exp.Expr]], RelationStatistics | None]
"""Returns the statistics of a relation of a block with additional conditions, or None if nothing is known."""

TableStatisticsOf = Callable[[exp.Table, str, tuple[exp.Expr, ...], frozenset[str]], RelationStatistics | None]
"""Returns the statistics of a table, given its name in the SELECT, unqualified conditions on it, and its join keys."""


class QueryStatistics:
    """Statistics of the relations of all SELECTs of one query."""

    def __init__(
        self,
        blocks: Iterable[SelectBlock],
        table_statistics: TableStatisticsOf,
        types_of: Callable[[SelectBlock], ColumnTypes],
    ) -> None:
        """Prepare the statistics of these blocks. `types_of` returns the column types of a block."""
        self._blocks = {id(block.select): block for block in blocks}
        self._table_statistics = table_statistics
        self._types_of = types_of
        self._statistics: dict[tuple[int, str], RelationStatistics | None] = {}
        self._predicates: dict[int, Predicates] = {}

    def statistics_of(
        self, block: SelectBlock, name: str, conditions: Sequence[exp.Expr] = ()
    ) -> RelationStatistics | None:
        """Return the statistics of a relation of a block, with additional conditions on it."""
        if conditions:
            return self._filtered_by_subqueries(block, name, tuple(conditions))
        key = id(block.select), name
        if key not in self._statistics:
            self._statistics[key] = self._filtered_by_subqueries(block, name)
        return self._statistics[key]

    def _filtered_by_subqueries(
        self, block: SelectBlock, name: str, conditions: tuple[exp.Expr, ...] = ()
    ) -> RelationStatistics | None:
        """Return the statistics of a relation after comparisons with sub-queries in WHERE."""
        comparisons = [
            (column, guess)
            for column, guess, query in _subquery_comparisons(block, name)
            if self._is_uncorrelated(query)
        ]
        keys = _join_columns(block, name) | {column for column, _ in comparisons}
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
        if isinstance(node, exp.Table):
            cte = referenced_cte(node)
            if cte is None:
                conditions = (*self._pushed_predicates(block)[name], *additional)
                own_conditions = tuple(remove_qualifier(condition, name) for condition in conditions)
                return self._table_statistics(node, name, own_conditions, keys)
            if cte.parent is not None and cte.parent.args.get("recursive"):
                return None
            node = cte
        return self._derive(node.this, name)

    def _pushed_predicates(self, block: SelectBlock) -> Predicates:
        key = id(block.select)
        if key not in self._predicates:
            types = self._types_of(block)
            self._predicates[key] = pushdown_predicates(block.plan, block.columns, types.is_exact_equality)
        return self._predicates[key]

    def _derive(self, query: exp.Expr, name: str) -> RelationStatistics | None:
        """Return the statistics of the result of a sub-query."""
        if isinstance(query, exp.Values):
            rows = float(len(query.expressions))
            return RelationStatistics(rows, rows, max_bytes=0.0)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query, name)
        block = self._blocks.get(id(query))
        joined_rows = None if block is None else self._joined_rows(block)
        if block is None or joined_rows is None:
            return None
        rows = _output_rows(block.select, joined_rows)
        columns = {
            (name, column): JoinColumnStatistics(min(distinct, rows)) for column, distinct in self._output(block)
        }
        return RelationStatistics(rows, rows, columns)

    def _joined_rows(self, block: SelectBlock) -> float | None:
        """Return the estimated rows of the FROM and WHERE clauses of a block, or None without statistics."""
        chain = extract_chain(block.plan)
        if chain is None:
            plan = block.plan.child if isinstance(block.plan, Filter) else block.plan
            statistics = item_statistics(block, plan, self.statistics_of)
            return None if statistics is None else statistics.filtered_rows
        items = [item_statistics(block, item.plan, self.statistics_of) for item in chain.items]
        relations = [relation for relation in items if relation is not None]
        if len(relations) < len(items):
            return None
        equalities = ChainEqualities(block, chain, self._types_of(block))
        return chain_estimator(block, chain, equalities, relations).rows((1 << len(relations)) - 1)

    def _set_operation(self, query: exp.SetOperation, name: str) -> RelationStatistics | None:
        """Return the statistics of a set operation. Its columns have the names of the first SELECT."""
        first, second = (self._derive(side.unnest(), name) for side in (query.left, query.right))
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
    return frozenset(
        column.name.lower()
        for condition in inner_join_conjuncts(block.plan, include_preserved=True)
        if len(condition.names) > 1
        for column in condition.node.find_all(exp.Column)
        if owner(column, block.columns) == name
    )


def item_statistics(block: SelectBlock, plan: Plan, statistics_of: StatisticsOf) -> RelationStatistics | None:
    """Return the statistics of an item of a chain. A join has the statistics of the side that it preserves."""
    if isinstance(plan, RelationLeaf):
        return statistics_of(block, plan.name, ())
    if not isinstance(plan, Join):
        return item_statistics(block, plan.child, statistics_of)
    left, right = (item_statistics(block, side, statistics_of) for side in (plan.left, plan.right))
    if left is None or right is None:
        return None
    if plan.kind.preserves_left:
        preserved_side = left
    elif plan.kind is JoinKind.RIGHT:
        preserved_side = right
    else:
        preserved_side = left if left.filtered_rows >= right.filtered_rows else right
    columns = {key: _uncertain(column) for side in (left, right) for key, column in side.columns.items()}
    rows = preserved_side.filtered_rows
    return RelationStatistics(max(preserved_side.rows, rows), rows, columns)


def _uncertain(column: JoinColumnStatistics) -> JoinColumnStatistics:
    """Return a column whose keys must not become predicates: outer joins return rows without any key."""
    return column if column.values is None else replace(column, values=replace(column.values, is_certain=False))


def chain_estimator(
    block: SelectBlock,
    chain: JoinChain,
    equalities: ChainEqualities,
    relations: Sequence[RelationStatistics],
    output_columns: OutputColumns | None = None,
) -> CardinalityEstimator:
    """Return an estimator for the joins of a chain, given the statistics of its items."""
    distinct = {key: column.distinct for relation in relations for key, column in relation.columns.items()}

    def selectivity(condition: Conjunct) -> float:
        # The statistics of each relation include what the condition implies for it alone.
        factors = (guess_selectivity(part.node, distinct) for part in implied_predicates(condition, block.columns))
        return min(guess_selectivity(condition.node, distinct) / max(math.prod(factors), 1e-9), 1.0)

    filters = [
        JoinFilter(equalities.mask_of(condition), selectivity(condition))
        for condition in chain.conjuncts
        if condition.is_joinable
        and equalities.mask_of(condition).bit_count() > 1
        and equalities.equality_of(condition) is None
    ]
    return CardinalityEstimator(relations, equalities.all, filters, output_columns)
