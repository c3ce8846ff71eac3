"""Reorder the joins of all SELECTs of a query by their estimated costs, without changing its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinReport, JoinTree
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.optimizer.catalyst import Analyze
from pushdown_spark.optimizer.join_order.decision import ReorderDecision, ReorderSettings, order_chain
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes, check_block, check_rewrite, check_session
from pushdown_spark.optimizer.key_guard import KeyGuard
from pushdown_spark.optimizer.passes.push_predicates import implied_predicates
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.logical_plan import (
    ChainTree,
    Conjunct,
    Filter,
    Join,
    JoinChain,
    OrderedChain,
    Plan,
    extract_chain,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock, select_blocks, write_plan
from pushdown_spark.optimizer.plans.sql_dialect import to_sql
from pushdown_spark.optimizer.plans.sql_reader import ParsedQuery
from pushdown_spark.optimizer.query_context import OptimizedQuery, QueryContext, QueryPlan
from pushdown_spark.optimizer.statistics.derived_statistics import QueryStatistics, StatisticsOf, TableStatisticsOf
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics, StatisticsRequest


def reorder_joins(context: QueryContext, plan: QueryPlan) -> QueryPlan:
    """Return the plan of the query with its joins in the cheapest order."""

    def table_statistics(
        table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
    ) -> RelationStatistics | None:
        reference = context.by_view.get(table.name)
        if reference is None or table.alias_column_names:
            return None
        columns = frozenset(plan.required[reference.view].columns)
        request = StatisticsRequest(name, conditions, keys, columns)
        return context.statistics.statistics_of(reference.relation, request)

    settings = replace(
        ReorderSettings.of_session(context.spark, context.options),
        obstacle=context.statistics_obstacle,
        hints_joins=True,
        reduces_statically=context.uses_keys and context.has_plain_literals,
    )
    source_names = {view: reference.key for view, reference in context.by_view.items()}
    reordering = JoinReordering(
        context.spark,
        settings,
        resolver=context.resolver,
        table_statistics=table_statistics,
        types_of=context.types_in,
        source_names=source_names,
    )
    optimized_query = reordering.reorder(context.query, context.analyze, lambda: context.is_lossless)
    return replace(plan, optimized_query=optimized_query)


class JoinReordering:
    """Reorders the joins of one query. `source_names` are the names of the sources in reports, by view."""

    def __init__(
        self,
        spark: SparkSession,
        settings: ReorderSettings,
        *,
        resolver: ColumnNameResolver,
        table_statistics: TableStatisticsOf,
        types_of: Callable[[SelectBlock], ColumnTypes],
        source_names: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._resolver = resolver
        self._table_statistics = table_statistics
        self._types_of = types_of
        self._source_names = source_names or {}

    def reorder(self, query: ParsedQuery, analyze: Analyze, is_lossless: Callable[[], bool]) -> OptimizedQuery:
        """Return the query with its joins in order.

        `is_lossless` returns whether Spark reads the SQL that sqlglot writes of the query as the same query. The query
        stays as it is if not, or if its columns would differ.
        """
        tree = query.tree.copy()
        blocks = list(select_blocks(tree, self._resolver.columns_of))
        statistics_of = QueryStatistics(blocks, self._table_statistics, self._types_of).statistics_of
        joins: list[JoinReport] = []
        broadcast: set[frozenset[str]] = set()
        guards: list[KeyGuard] = []
        changes_query = False
        # Inner SELECTs first, because the SELECT around them copies them.
        for block in reversed(blocks):
            for decision in reorder_block(block, self._types_of(block), statistics_of, self._settings):
                joins.insert(0, with_sources(decision.report, self._sources_in(block)))
                broadcast |= {
                    frozenset(block.relations[name].name for name in names) for names in decision.broadcast_joins
                }
                guards += self._guards(block, decision)
                changes_query |= decision.changes_query
        new_sql = to_sql(tree) if changes_query else query.generated_sql
        if new_sql == query.generated_sql:
            return OptimizedQuery(query.sql, tuple(joins), frozenset(broadcast))
        # Hints alone do not change which rows a condition is evaluated on.
        check_casts = self._settings.ansi and any(report.reordered for report in joins)
        try:
            check_session(self._spark)
            if not is_lossless():
                raise UnsupportedError("Spark does not parse the rewritten query as the same query")
            check_rewrite(query, new_sql, analyze, check_casts=check_casts)
        except UnsupportedError as problem:
            return OptimizedQuery(query.sql, tuple(unchanged_report(report, str(problem)) for report in joins))
        return OptimizedQuery(new_sql, tuple(joins), frozenset(broadcast), tuple(guards))

    def _guards(self, block: SelectBlock, decision: ReorderDecision) -> Iterator[KeyGuard]:
        """Yield the guards of the keys that became predicates in a block."""
        for name, conditions, keys in decision.keys:
            view = block.relations[name].name
            yield KeyGuard(view, self._source_names[view], to_sql(conditions), to_sql(keys))

    def _sources_in(self, block: SelectBlock) -> dict[str, str]:
        """Return the names of the sources that the relations of a block refer to."""
        tables = {name: node.name for name, node in block.relations.items() if isinstance(node, exp.Table)}
        return {name: self._source_names[view] for name, view in tables.items() if view in self._source_names}


def with_sources(report: JoinReport, sources: Mapping[str, str]) -> JoinReport:
    """Return a report whose trees have the sources of their relations."""

    def with_source(tree: JoinTree) -> JoinTree:
        if tree.left is None or tree.right is None:
            return tree.model_copy(update={"source": sources.get(tree.relation or "")})
        return tree.model_copy(update={"left": with_source(tree.left), "right": with_source(tree.right)})

    return report.model_copy(update={"before": with_source(report.before), "after": with_source(report.after)})


def unchanged_report(report: JoinReport, reason: str) -> JoinReport:
    """Return a report of joins that keep their order for a reason."""
    return report.model_copy(update={"after": report.before, "reordered": False, "reason": reason})


def reorder_block(
    block: SelectBlock, types: ColumnTypes, statistics_of: StatisticsOf, settings: ReorderSettings
) -> list[ReorderDecision]:
    """Reorder the joins of a SELECT in place. Return the decisions on its chains, innermost first.

    The rows, columns and their order stay the same. The `before` of a report is Spark's own order.

    >>> from pushdown_spark.optimizer.plans.sql_reader import parse_query
    >>> rows = {"a": 1e6, "b": 1e6, "c": 10.0}
    >>> def statistics_of(block, name, conditions):
    ...     return RelationStatistics(rows[name], rows[name])
    >>> from pushdown_spark.contract import JoinOptions
    >>> query = parse_query("SELECT a.x FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m")
    >>> block = next(select_blocks(query, lambda table: frozenset({"k", "m", "x"})))
    >>> settings = ReorderSettings(options=JoinOptions(), broadcast_bytes=-1)
    >>> [decision.report.reordered for decision in reorder_block(block, ColumnTypes(), statistics_of, settings)]
    [True]
    >>> query.sql("spark")
    'SELECT a.x FROM b JOIN c ON b.m = c.m JOIN a ON a.k = b.k'
    """
    chains = _BlockChains(block, types, statistics_of, settings)
    plan = chains.ordered_plan()
    if any(decision.changes_query for decision in chains.decisions):
        broadcast = frozenset[str]().union(*(decision.broadcast_relations for decision in chains.decisions))
        write_plan(block, plan, broadcast)
    return chains.decisions


class _BlockChains:
    """The chains of a SELECT: the one at the top of its plan, and those below joins that preserve their left side.

    `decisions` has one for each chain, innermost first.
    """

    def __init__(
        self, block: SelectBlock, types: ColumnTypes, statistics_of: StatisticsOf, settings: ReorderSettings
    ) -> None:
        self._block = block
        self._types = types
        self._statistics_of = statistics_of
        self._settings = settings
        self.decisions: list[ReorderDecision] = []

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
        if not isinstance(plan, Join) or plan.has_hint:
            return plan
        if plan.kind.is_inner:
            return replace(plan, left=self._with_inner_chains(plan.left, (*above, *plan.conjuncts)))
        if plan.kind.preserves_left:
            return replace(plan, left=self._with_ordered_chain(plan.left, above))
        return plan

    def _with_ordered_chain(self, plan: Plan, above: tuple[Conjunct, ...]) -> Plan:
        """Return the left side of a preserving join in order. Conditions above the join also connect its relations."""
        plan = self._with_inner_chains(plan, above)
        chain = extract_chain(plan)
        if chain is None:
            return plan
        connections = (
            condition
            for condition in above
            if condition.is_joinable and len(condition.names) > 1 and condition.names <= plan.names
        )
        after = self._order(replace(chain, conjuncts=(*chain.conjuncts, *connections)))
        if after is None or isinstance(after.tree, int):
            return plan
        return self._as_plan(replace(after.tree, conjuncts=(*after.tree.conjuncts, *after.above)), chain)

    def _order(self, chain: JoinChain) -> OrderedChain | None:
        """Return the order of a chain, or None if it stays as it is written.

        The order includes the predicates on single relations that conditions over several relations imply. Spark 4.3.0
        infers them too, but does not push them through every join.
        """
        block = self._block
        check = partial(check_block, block, chain, self._types, ansi=self._settings.ansi)
        decision = order_chain(
            block, chain, self._types, statistics_of=self._statistics_of, settings=self._settings, check=check
        )
        self.decisions.append(decision)
        if not decision.changes_query:
            return None
        conjuncts = (part for condition in chain.conjuncts for part in implied_predicates(condition, block.columns))
        return replace(decision.after, above=(*decision.after.above, *dict.fromkeys(conjuncts)))

    def _as_plan(self, tree: ChainTree, chain: JoinChain) -> Plan:
        if isinstance(tree, int):
            return chain.items[tree].plan
        left, right = self._as_plan(tree.left, chain), self._as_plan(tree.right, chain)
        return Join(left, right, tree.kind, tree.conjuncts)
