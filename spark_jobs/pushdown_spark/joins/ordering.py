"""Puts all SELECTs of a query into the order that the estimates favour, and makes sure that it is the same query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.joins.block import Block, blocks, owner
from pushdown_spark.joins.broadcast import HINTED_BYTES, threshold_bytes
from pushdown_spark.joins.cardinality import ColumnFigures, RelationFigures
from pushdown_spark.joins.chooser import Setting
from pushdown_spark.joins.failing import casts_may_fail
from pushdown_spark.joins.graph import Filter
from pushdown_spark.joins.outputs import OutputNames
from pushdown_spark.joins.push import Types, inner_conditions, reaching
from pushdown_spark.joins.ranks import groups_of, partitions_of_ranks, rank_bounds
from pushdown_spark.joins.reorder import estimated_rows, reorder
from pushdown_spark.joins.same import is_same_query
from pushdown_spark.joins.text import ReadQuery, expression_of, written

NO_CROSS_JOINS = "Spark is to refuse joins without conditions that nobody wrote (spark.sql.crossJoin.enabled)"
_Guess = Callable[[float], float]
"""A share of rows, by the distinct values of a column."""
_GUESSES: dict[type[exp.Expr], _Guess] = {
    exp.EQ: lambda distinct: 1.0 / distinct,
    exp.In: lambda _: 0.5,
    **dict.fromkeys((exp.LT, exp.LTE, exp.GT, exp.GTE), lambda _: 1 / 3),
}
"""What a comparison with a sub-query keeps."""

TableFigures = Callable[[exp.Table, str, tuple[exp.Expr, ...], frozenset[str]], RelationFigures | None]
"""Figures of a table under a name, with conditions on it alone and the columns that are keys of joins."""


@dataclass(frozen=True)
class OrderedQuery:
    """A query's text as it is run, and the joins of its SELECTs, outer ones first.

    `broadcast` are sets of tables, by name: what comes out of their joins is to be broadcast.
    """

    text: str
    joins: tuple[JoinReport, ...]
    broadcast: frozenset[frozenset[str]] = frozenset()


class Ordering:
    """Orders the joins of one query, given as text over private views."""

    def __init__(
        self,
        spark: SparkSession,
        options: JoinOptions,
        names: OutputNames,
        tables: TableFigures,
        types: Callable[[Block], Types],
        idle: str | None = None,
        *,
        hints_joins: bool = False,
        lists_keys: bool = False,
    ) -> None:
        """`idle` says why no order is looked for, None to look for one.

        `hints_joins` promises that every table has a name of its own, and that `OrderedQuery.broadcast` is heeded, and
        `lists_keys` that the figures of a table are those of just its files' rows.
        """
        self._names = names
        self._tables = tables
        self._blocks: dict[int, Block] = {}
        self._figures: dict[tuple[int, str], RelationFigures | None] = {}

        def is_on(key: str, default: str = "false") -> bool:
            return spark.conf.get(key, default) == "true"

        limit = threshold_bytes(spark.conf.get("spark.sql.autoBroadcastJoinThreshold", "10MB"))
        ansi = is_on("spark.sql.ansi.enabled", "true")
        self._refusal = _refusal(
            commas_bind_weaker=ansi and is_on("spark.sql.ansi.relationPrecedence"),
            case_sensitive=is_on("spark.sql.caseSensitive"),
            cross_joins=is_on("spark.sql.crossJoin.enabled", "true"),
        )
        broadcast_bytes = -1 if limit < 0 else HINTED_BYTES
        self._setting = Setting(
            options,
            self._of,
            types,
            broadcast_bytes,
            ansi,
            small_files=limit,
            idle=idle,
            hints_joins=hints_joins,
            lists_keys=lists_keys,
            processors=_processors(spark),
        )

    def ordered(self, query: ReadQuery, frame: Callable[[str], DataFrame]) -> OrderedQuery:
        """The query's text with its joins in order; `frame` has Spark analyse a text.

        It is left alone where Spark does not take the tree that it was read as for the same query, or where the
        columns would not be the same.
        """
        tree = query.tree.copy()
        found = list(blocks(tree, self._names.of))
        self._blocks = {id(block.select): block for block in found}
        # Inner ones first: the SELECT around them copies them.
        chosen = [done for block in reversed(found) if (done := reorder(block, self._setting)) is not None]
        joins = tuple(report for each in reversed(chosen) for report in each.reports)
        broadcast = frozenset(names for each in chosen for names in each.joined)
        changed = written(tree)
        if changed == query.again:
            return OrderedQuery(query.text, joins, broadcast)
        # Hints alone show no condition rows that it would not have met.
        may_cast = not self._setting.ansi or not any(report.reordered for report in joins)
        problem = self._refusal or _difference(query, changed, frame, may_cast=may_cast)
        if problem is None:
            return OrderedQuery(changed, joins, broadcast)
        return OrderedQuery(query.text, tuple(_as_before(report, problem) for report in joins))

    def _of(self, block: Block, name: str, more: Sequence[exp.Expr] = ()) -> RelationFigures | None:
        """Figures of a relation of a block, worked out once; of a table with more conditions, each time."""
        key = id(block.select), name
        if more:
            return self._relation(block, name, tuple(more))
        if key not in self._figures:
            self._figures[key] = self._relation(block, name)
        return self._figures[key]

    def _relation(self, block: Block, name: str, more: tuple[exp.Expr, ...] = ()) -> RelationFigures | None:
        node = block.relations[name]
        asked = [
            (column, guess) for column, guess, query in _compared_with_queries(block, name) if self._stands_alone(query)
        ]
        keys = _join_columns(block, name) | _ranked_by(block, name) | {column for column, _ in asked}
        found = self._of_node(block, name, node, keys, more)
        if found is None:
            return None
        shares = [guess(found.distinct((name, column))) for column, guess in asked]
        return replace(found, kept=found.kept * math.prod(shares)) if asked else found

    def _stands_alone(self, query: exp.Query) -> bool:
        """Whether a sub-query refers to nothing around it: of any other Spark makes a join, and no condition."""
        selects = list(query.find_all(exp.Select))
        blocks = [self._blocks.get(id(select)) for select in selects]
        return all(
            block is not None and all(owner(column, block.columns) for column in block.select.find_all(exp.Column))
            for block in blocks
        )

    def _of_node(
        self, block: Block, name: str, node: exp.Expr, keys: frozenset[str], more: tuple[exp.Expr, ...]
    ) -> RelationFigures | None:
        """Figures of a relation but for what sub-queries leave of it."""
        if isinstance(node, exp.Table):
            expression = expression_of(node)
            if expression is None:
                return self._tables(node, name, (*self._conditions(block, name), *more), keys)
            if expression.parent is not None and expression.parent.args.get("recursive"):
                return None
            node = expression
        figures = self._derived(node.this, name)
        return None if figures is None else self._within_ranks(figures, node.this, name, self._conditions(block, name))

    def _conditions(self, block: Block, name: str) -> tuple[exp.Expr, ...]:
        """The conditions on a relation alone."""
        return reaching(block.plan, block.columns, self._setting.types(block).spelt_once)[name]

    def _within_ranks(
        self, figures: RelationFigures, query: exp.Expr, name: str, conditions: Sequence[exp.Expr]
    ) -> RelationFigures:
        """Figures of a sub-query of which only rows of some ranks matter."""
        block = self._blocks.get(id(query))
        if block is None:
            return figures
        for bound in rank_bounds(block.select, conditions):
            rows = bound.rows(figures.rows, partial(self._distinct, block))
            ranks = ColumnFigures(min(float(bound.ranks), rows))
            figures = RelationFigures(rows, rows, {**figures.columns, (name, bound.column): ranks})
        return figures

    def _derived(self, query: exp.Expr, name: str) -> RelationFigures | None:
        """Figures of a sub-query: rows of its joins, fewer where it groups or limits, and columns that it passes on."""
        if isinstance(query, exp.Values):
            return RelationFigures(float(len(query.expressions)), float(len(query.expressions)), at_most=0.0)
        if isinstance(query, exp.SetOperation):
            return self._combined(query, name)
        block = self._blocks.get(id(query))
        rows = None if block is None else estimated_rows(block, self._setting)
        if block is None or rows is None:
            return None
        rows = _reduced(block.select, rows)
        columns = {(name, column): ColumnFigures(min(distinct, rows)) for column, distinct in self._passed_on(block)}
        return RelationFigures(rows, rows, columns)

    def _combined(self, query: exp.SetOperation, name: str) -> RelationFigures | None:
        """Figures of a set operation, whose columns have the names of its first SELECT's."""
        first, second = (self._derived(side.unnest(), name) for side in (query.left, query.right))
        if first is None or second is None:
            return None
        rows = first.rows if isinstance(query, exp.Except) else min(first.rows, second.rows)
        if isinstance(query, exp.Union):
            rows = first.rows + second.rows
        if query.args.get("distinct"):
            rows = groups_of(rows)
        columns = {key: ColumnFigures(min(known.distinct, rows)) for key, known in first.columns.items()}
        return RelationFigures(rows, rows, columns)

    def _passed_on(self, block: Block) -> Iterator[tuple[str, float]]:
        """The columns that a SELECT passes on, under the names that it gives them, and their distinct values."""
        for item in block.select.expressions:
            distinct = self._distinct(block, item.unalias())
            if item.is_star:
                names = [item.table.lower()] if isinstance(item, exp.Column) else block.relations
                seen = (self._of(block, name) for name in names if name in block.relations and name not in block.hidden)
                for figures in seen:
                    if figures is not None:
                        yield from ((key[1], figures.distinct_kept(key)) for key in figures.columns)
            elif distinct is not None and item.alias_or_name:
                yield item.alias_or_name.lower(), distinct

    def _distinct(self, block: Block, column: exp.Expr) -> float | None:
        """Distinct values of a column of a block's relations, None for any other expression."""
        home = owner(column, block.columns)
        figures = self._of(block, home) if home is not None else None
        if figures is None or home is None:
            return None
        return figures.distinct_kept((home, column.name.lower()))


def _processors(spark: SparkSession) -> int:
    """The processors that Spark runs tasks on, one where it does not tell: with Spark Connect."""
    return spark.sparkContext.defaultParallelism if isinstance(spark, SparkSession) else 1


def _reduced(select: exp.Select, rows: float) -> float:
    """Rows of a SELECT after its grouping, DISTINCT and LIMIT."""
    group = select.args.get("group")
    if group is not None or select.args.get("distinct") is not None:
        rows = groups_of(rows)
    elif any(item.find(exp.AggFunc) is not None and item.find(exp.Window) is None for item in select.expressions):
        rows = 1.0
    limit = select.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and not limit.expression.is_string:
        rows = min(rows, float(limit.expression.name))
    return max(rows, 1.0)


def _compared_with_queries(block: Block, name: str) -> Iterator[tuple[str, _Guess, exp.Query]]:
    """The columns of a relation that WHERE compares with sub-queries, guesses at what these keep, and the queries."""
    conditions = block.plan.conjuncts if isinstance(block.plan, Filter) else ()
    for condition in conditions:
        node = condition.node.unnest()
        sides = (node.args.get("this"), node.args.get("expression") or node.args.get("query"))
        for column, other in (sides, sides[::-1]):
            if type(node) not in _GUESSES or not isinstance(column, exp.Column) or not isinstance(other, exp.Expr):
                continue
            query = other.find(exp.Query)
            if query is not None and owner(column, block.columns) == name:
                yield column.name.lower(), _GUESSES[type(node)], query


def _join_columns(block: Block, name: str) -> frozenset[str]:
    """The columns of a relation that conditions of the block's chains compare with others, or name beside them."""
    columns = [
        column
        for condition in inner_conditions(block.plan, kept_sides=True)
        if len(condition.names) > 1
        for column in condition.node.find_all(exp.Column)
    ]
    return frozenset(column.name.lower() for column in columns if owner(column, block.columns) == name)


def _ranked_by(block: Block, name: str) -> frozenset[str]:
    """The columns of a relation that partition the windows of the block's ranks."""
    columns = [column for partition in partitions_of_ranks(block.select).values() for column in partition]
    return frozenset(column.name.lower() for column in columns if owner(column, block.columns) == name)


def _refusal(*, commas_bind_weaker: bool, case_sensitive: bool, cross_joins: bool) -> str | None:
    """Why no query of the session is touched, None where they may be."""
    if commas_bind_weaker:
        return "the comma binds weaker than JOIN here (spark.sql.ansi.relationPrecedence)"
    if not cross_joins:
        return NO_CROSS_JOINS
    return "names may differ by case alone (spark.sql.caseSensitive)" if case_sensitive else None


def _difference(query: ReadQuery, changed: str, frame: Callable[[str], DataFrame], *, may_cast: bool) -> str | None:
    """Why a changed text must not stand for the original, None where it may."""
    try:
        original = frame(query.text)
        if not may_cast and casts_may_fail(original):
            return "a comparison casts, and could fail in another order on rows that it never met before"
        if not is_same_query(original, frame(query.again)):
            return "Spark reads the query differently once it is written anew"
        if _columns(frame(changed)) != _columns(original):
            return "the columns would not be the same"
    except PySparkException as problem:
        return f"Spark refuses the query once it is written anew: {str(problem).splitlines()[0]}"
    return None


def _columns(frame: DataFrame) -> Sequence[tuple[str, str]]:
    return [(field.name, field.dataType.json()) for field in frame.schema.fields]


def _as_before(report: JoinReport, problem: str) -> JoinReport:
    return report.model_copy(update={"after": report.before, "reordered": False, "reason": problem})
