"""Reorder the joins of all SELECTs of a query by their estimated costs, without changing its result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.expressions.session_settings import is_case_sensitive, is_enabled
from pushdown_spark.optimizer.broadcast_hints import broadcast_threshold, max_broadcast_bytes
from pushdown_spark.optimizer.catalyst import Analyze
from pushdown_spark.optimizer.join_order.decision import (
    JoinOrderOptimizer,
    ReorderDecision,
    ReorderSettings,
    StatisticsOf,
    chain_estimator,
    relation_label,
    tree_report,
)
from pushdown_spark.optimizer.join_order.equalities import ChainEqualities, ClassMember
from pushdown_spark.optimizer.logical_plan import (
    ChainTree,
    Conjunct,
    Filter,
    Join,
    JoinChain,
    JoinKind,
    OrderedChain,
    Plan,
    RelationLeaf,
    extract_chain,
    heuristic_order,
    relation_names,
)
from pushdown_spark.optimizer.push_predicates import implied_predicates
from pushdown_spark.optimizer.query_context import OptimizedQuery, QueryContext, remove_qualifier
from pushdown_spark.optimizer.reorder_safety import TypeInfo, block_obstacle, rewrite_obstacle, session_obstacle
from pushdown_spark.optimizer.select_block import SelectBlock, join_on, select_blocks, write_plan
from pushdown_spark.optimizer.semi_joins import KeyPredicate, reduce_by_known_keys
from pushdown_spark.optimizer.sql_reader import ColumnNameResolver, ParsedQuery, to_sql
from pushdown_spark.optimizer.statistics.derived_statistics import QueryStatistics, TableStatisticsOf
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics
from pushdown_spark.optimizer.statistics.source_statistics import StatisticsRequest

_MAX_REFERENCES = 4
"""References to a large source from which on its scans are assumed to share generated code."""
_LARGE_SOURCE_BYTES = 32 << 20


def reorder_joins(context: QueryContext) -> None:
    """Set the query with its joins in the cheapest order."""

    def table_statistics(
        table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
    ) -> RelationStatistics | None:
        reference = context.by_view.get(table.name)
        if reference is None or table.alias_column_names:
            return None
        unqualified = tuple(remove_qualifier(condition, name) for condition in conditions)
        columns = frozenset(context.required[reference.view].columns)
        request = StatisticsRequest(name, unqualified, keys, columns)
        return context.statistics.statistics_of(reference.declared, reference.relation, request)

    reordering = JoinReordering(
        context.spark,
        context.options,
        context.resolver,
        table_statistics,
        context.types_in,
        context.policy.obstacle,
        hints_joins=True,
        uses_known_keys=context.has_plain_literals and not _has_many_references(context),
    )
    context.reordered = reordering.reorder(context.query, context.analyze)


def _has_many_references(context: QueryContext) -> bool:
    """Return whether a query refers to a large source many times.

    Spark compiles one piece of code for all these scans, unless key predicates have different constants in each.
    """
    counts = Counter(reference.declared.name for reference in context.references)
    repeated = {
        reference.declared.name: reference
        for reference in context.references
        if counts[reference.declared.name] > _MAX_REFERENCES
    }
    sizes = (context.statistics.file_bytes(each.declared, each.relation) for each in repeated.values())
    return any((size or 0) > _LARGE_SOURCE_BYTES for size in sizes)


class JoinReordering:
    """Reorders the joins of one query."""

    def __init__(
        self,
        spark: SparkSession,
        options: JoinOptions,
        resolver: ColumnNameResolver,
        table_statistics: TableStatisticsOf,
        types_of: Callable[[SelectBlock], TypeInfo],
        obstacle: str | None = None,
        *,
        hints_joins: bool = False,
        uses_known_keys: bool = False,
    ) -> None:
        """Read the settings of the session.

        `obstacle` is the reason not to collect statistics. `hints_joins` requires that every table has a unique name
        and that the caller adds the hints in `OptimizedQuery.broadcast`. `uses_known_keys` requires that the statistics
        of a table describe exactly the rows of its files.
        """
        self._resolver = resolver
        self._table_statistics = table_statistics

        ansi = is_enabled(spark, "spark.sql.ansi.enabled", default=True)
        threshold = broadcast_threshold(spark.conf.get("spark.sql.autoBroadcastJoinThreshold", "10MB"))
        self._session_obstacle = session_obstacle(
            commas_bind_weaker=ansi and is_enabled(spark, "spark.sql.ansi.relationPrecedence"),
            case_sensitive=is_case_sensitive(spark),
            cross_joins=is_enabled(spark, "spark.sql.crossJoin.enabled", default=True),
        )
        self._settings = ReorderSettings(
            options,
            lambda block, name, conditions: None,
            types_of,
            max_broadcast_bytes(threshold),
            ansi,
            threshold,
            obstacle,
            hints_joins,
            uses_known_keys,
            # Spark Connect does not report its processors.
            spark.sparkContext.defaultParallelism if isinstance(spark, SparkSession) else 1,
        )

    def reorder(self, query: ParsedQuery, analyze: Analyze) -> OptimizedQuery:
        """Return the query with its joins in order.

        The query stays as it is if Spark does not parse the rewritten text as the same query, or if its columns would
        differ.
        """
        tree = query.tree.copy()
        blocks = list(select_blocks(tree, self._resolver.columns_of))
        settings = self._with_statistics(blocks)
        # Inner SELECTs first, because the SELECT around them copies them.
        results = [result for block in reversed(blocks) if (result := reorder_block(block, settings)) is not None]
        joins = tuple(report for result in reversed(results) for report in result.reports)
        broadcast = frozenset(names for result in results for names in result.broadcast_joins)
        rewritten = to_sql(tree)
        if rewritten == query.rewritten:
            return OptimizedQuery(query.sql, joins, broadcast)
        # Hints alone do not change which rows a condition is evaluated on.
        check_casts = settings.ansi and any(report.reordered for report in joins)
        obstacle = self._session_obstacle or rewrite_obstacle(query, rewritten, analyze, check_casts=check_casts)
        if obstacle is None:
            return OptimizedQuery(rewritten, joins, broadcast)
        return OptimizedQuery(query.sql, tuple(unchanged_report(report, obstacle) for report in joins))

    def _with_statistics(self, blocks: list[SelectBlock]) -> ReorderSettings:
        """Return the settings with access to the statistics of the relations of these blocks."""

        def block_rows(block: SelectBlock) -> float | None:
            return estimated_rows(block, settings)

        types_of = self._settings.types_of
        statistics = QueryStatistics(
            blocks, self._table_statistics, lambda block: types_of(block).is_exact_equality, block_rows
        )
        settings = replace(self._settings, statistics_of=statistics.statistics_of)
        return settings


def unchanged_report(report: JoinReport, reason: str) -> JoinReport:
    """Return a report of joins that keep their order for a reason."""
    return report.model_copy(update={"after": report.before, "reordered": False, "reason": reason})


@dataclass(frozen=True)
class ReorderedBlock:
    """The reports of the chains of a SELECT, and the sets of tables whose joins are to be broadcast."""

    reports: tuple[JoinReport, ...]
    broadcast_joins: frozenset[frozenset[str]] = frozenset()


def reorder_block(block: SelectBlock, settings: ReorderSettings) -> ReorderedBlock | None:
    """Reorder the joins of a SELECT in place. Return None if it has no chain of joins.

    The rows, columns and their order stay the same. The `before` of a report is Spark's own order.

    >>> from pushdown_spark.optimizer.reorder_safety import UnknownTypes
    >>> from pushdown_spark.optimizer.sql_reader import parse_query
    >>> rows = {"a": 1e6, "b": 1e6, "c": 10.0}
    >>> def statistics_of(block, name, conditions):
    ...     return RelationStatistics(rows[name], rows[name])
    >>> settings = ReorderSettings(JoinOptions(), statistics_of, lambda block: UnknownTypes(), broadcast_bytes=-1)
    >>> query = parse_query("SELECT a.x FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m")
    >>> block = next(select_blocks(query, lambda table: frozenset({"k", "m", "x"})))
    >>> reorder_block(block, settings).reports[0].reordered
    True
    >>> query.sql("spark")
    'SELECT a.x FROM b JOIN c ON b.m = c.m JOIN a ON a.k = b.k'
    """
    chains = _BlockChains(block, settings)
    plan = chains.ordered_plan()
    if not chains.reports:
        return None
    if chains.is_changed:
        hinted = frozenset[str]().union(*(decision.broadcast_relations for decision in chains.decisions))
        write_plan(replace(block, plan=plan, joins=chains.joins), hinted)
    broadcast_joins = frozenset(
        frozenset(block.relations[name].name for name in names)
        for decision in chains.decisions
        for names in decision.broadcast_joins
    )
    return ReorderedBlock(tuple(reversed(chains.reports)), broadcast_joins)


class _BlockChains:
    """The chains of a SELECT: the one at the top of its plan, and those below joins that preserve their left side.

    `reports` describe all chains, innermost first. `decisions` are those that change something. `joins` maps the joins
    of the ordered plan to their syntax trees.
    """

    def __init__(self, block: SelectBlock, settings: ReorderSettings) -> None:
        self._block = block
        self._settings = settings
        self.reports: list[JoinReport] = []
        self.decisions: list[ReorderDecision] = []
        self.is_changed = False
        self.joins = dict(block.joins)

    def ordered_plan(self) -> Plan:
        """Return the plan with its chains in order."""
        plan = self._with_inner_chains(self._block.plan, ())
        chain = extract_chain(plan)
        after = None if chain is None else self._order(chain)
        return plan if chain is None or after is None else Filter(after.above, self._as_plan(after.tree, chain))

    def _with_inner_chains(self, plan: Plan, above: tuple[Conjunct, ...]) -> Plan:
        """Return the plan with the chains below left outer, semi and anti joins in order.

        The conjuncts `above` hold for the rows of the plan.
        """
        if isinstance(plan, Filter):
            return replace(plan, child=self._with_inner_chains(plan.child, plan.conjuncts))
        if not isinstance(plan, Join) or plan.hinted:
            return plan
        if plan.kind.is_inner:
            left = self._with_inner_chains(plan.left, (*above, *plan.conjuncts))
        elif plan.kind.preserves_left:
            left = self._with_ordered_chain(plan.left, above)
        else:
            return plan
        if left is plan.left:
            return plan
        join = replace(plan, left=left)
        self.joins[id(join)] = self.joins[id(plan)]
        return join

    def _with_ordered_chain(self, plan: Plan, above: tuple[Conjunct, ...]) -> Plan:
        """Return the left side of a preserving join in order. Conditions above that join connect its relations too."""
        plan = self._with_inner_chains(plan, above)
        chain = extract_chain(plan)
        if chain is None:
            return plan
        connecting = (each for each in above if each.is_joinable and len(each.names) > 1 and each.names <= plan.names)
        after = self._order(replace(chain, conjuncts=(*chain.conjuncts, *connecting)))
        if after is None or isinstance(after.tree, int):
            return plan
        return self._as_plan(replace(after.tree, conjuncts=(*after.tree.conjuncts, *after.above)), chain)

    def _order(self, chain: JoinChain) -> OrderedChain | None:
        """Return the order of a chain, or None if it stays as it is written."""
        started = time.perf_counter()
        block, settings = self._block, self._settings
        types = settings.types_of(block)
        before = heuristic_order(chain)
        equalities = ChainEqualities(block, chain, types)
        reason = None if settings.options.reorder else "join_reorder is off"
        reason = reason or block_obstacle(block, chain, types, ansi=settings.ansi)
        if reason:
            return self._keep_order(chain, before, before, reason)
        without_redundant = equalities.remove_redundant(before)
        if settings.obstacle and not _must_reorder(before.tree, chain, settings):
            return self._keep_order(chain, before, without_redundant, settings.obstacle)
        statistics = [item_statistics(block, item.plan, settings.statistics_of) for item in chain.items]
        relations = [relation for relation in statistics if relation is not None]
        if len(relations) < len(statistics):
            missing = [
                relation_label(item.plan)
                for item, relation in zip(chain.items, statistics, strict=True)
                if relation is None
            ]
            return self._keep_order(chain, before, without_redundant, f"no statistics for {', '.join(missing)}")
        key_predicates: tuple[KeyPredicate, ...] = ()
        if settings.uses_known_keys:
            relations, key_predicates = reduce_by_known_keys(
                relations, equalities.classes, self._is_table, self._statistics_with
            )
        optimizer = JoinOrderOptimizer(block, chain, equalities, relations, settings, key_predicates)
        decision = optimizer.decide(before, started)
        self.reports.append(decision.report)
        if not decision.changes_query:
            return None
        self.decisions.append(decision)
        return self._changed(decision.after, chain)

    def _keep_order(
        self, chain: JoinChain, before: OrderedChain, after: OrderedChain, reason: str
    ) -> OrderedChain | None:
        """Report a chain that keeps its order. Return the order if it has fewer conditions than the written one."""
        trees = [tree_report(ordered.tree, chain.items, None, ()) for ordered in (before, after)]
        self.reports.append(JoinReport(before=trees[0], after=trees[1], reason=reason))
        return self._changed(after, chain) if after != before else None

    def _changed(self, after: OrderedChain, chain: JoinChain) -> OrderedChain:
        """Return the order with what conditions over several relations imply for each of these.

        Spark infers that as well, but Spark 4.3.0 does not push it through every join.
        """
        self.is_changed = True
        implied = (part for condition in chain.conjuncts for part in implied_predicates(condition, self._block.columns))
        return replace(after, above=(*after.above, *dict.fromkeys(implied)))

    def _is_table(self, column: ClassMember) -> bool:
        return self._block.is_table(column.key[0])

    def _statistics_with(self, column: ClassMember, conditions: Sequence[exp.Expr]) -> RelationStatistics | None:
        return self._settings.statistics_of(self._block, column.key[0], conditions)

    def _as_plan(self, tree: ChainTree, chain: JoinChain) -> Plan:
        if isinstance(tree, int):
            return chain.items[tree].plan
        left, right = self._as_plan(tree.left, chain), self._as_plan(tree.right, chain)
        join = Join(left, right, tree.kind, tree.conjuncts)
        self.joins[id(join)] = join_on(tree.conjuncts)
        return join


def _must_reorder(tree: ChainTree, chain: JoinChain, settings: ReorderSettings) -> bool:
    """Return whether the written order has a nested loop, so that statistics are collected at any cost.

    An explicit `min_bytes` takes precedence.
    """
    return len(chain.items) > 2 and settings.options.min_bytes is None and _has_nested_loop(tree, chain)


def _has_nested_loop(tree: ChainTree, chain: JoinChain) -> bool:
    """Return whether a join has no equality between its sides, so that Spark compares all pairs of rows."""
    if isinstance(tree, int):
        return False
    left, right = relation_names(tree.left, chain.items), relation_names(tree.right, chain.items)
    has_equality = any(
        isinstance(conjunct.node, exp.EQ | exp.NullSafeEQ) and conjunct.names & left and conjunct.names & right
        for conjunct in tree.conjuncts
    )
    return not has_equality or _has_nested_loop(tree.left, chain) or _has_nested_loop(tree.right, chain)


def estimated_rows(block: SelectBlock, settings: ReorderSettings) -> float | None:
    """Return the estimated rows of the FROM and WHERE clauses of a block, or None without statistics."""
    chain = extract_chain(block.plan)
    if chain is None:
        plan = block.plan.child if isinstance(block.plan, Filter) else block.plan
        statistics = item_statistics(block, plan, settings.statistics_of)
        return None if statistics is None else statistics.filtered_rows
    items = [item_statistics(block, item.plan, settings.statistics_of) for item in chain.items]
    relations = [relation for relation in items if relation is not None]
    if len(relations) < len(items):
        return None
    equalities = ChainEqualities(block, chain, settings.types_of(block))
    return chain_estimator(block, chain, equalities, relations, settings).rows((1 << len(relations)) - 1)


def item_statistics(block: SelectBlock, plan: Plan, statistics_of: StatisticsOf) -> RelationStatistics | None:
    """Return the statistics of an item of a chain. Those of a join are those of the side that it preserves."""
    if isinstance(plan, RelationLeaf):
        return statistics_of(block, plan.name, ())
    if not isinstance(plan, Join):
        return item_statistics(block, plan.child, statistics_of)
    left, right = (item_statistics(block, side, statistics_of) for side in (plan.left, plan.right))
    if left is None or right is None:
        return None
    if plan.kind.preserves_left:
        preserved = left
    elif plan.kind is JoinKind.RIGHT:
        preserved = right
    else:
        preserved = left if left.filtered_rows >= right.filtered_rows else right
    columns = {key: _uncertain(column) for side in (left, right) for key, column in side.columns.items()}
    rows = preserved.filtered_rows
    return RelationStatistics(max(preserved.rows, rows), rows, columns)


def _uncertain(column: JoinColumnStatistics) -> JoinColumnStatistics:
    """Return a column whose keys must not become predicates: outer joins return rows without any key."""
    return column if column.values is None else replace(column, values=replace(column.values, is_certain=False))
