"""The decision on the join order of one chain, with its broadcast hints and its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport, JoinTree
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import is_enabled
from pushdown_spark.optimizer.join_order.enumeration import (
    CostModel,
    SearchResult,
    are_adjacent,
    bits,
    connected_components,
    find_cheapest_tree,
    relation_mask,
)
from pushdown_spark.optimizer.join_order.equalities import ChainEqualities
from pushdown_spark.optimizer.join_order.output_columns import RequiredOutputColumns
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.join_order.star_detection import detect_star, star_first
from pushdown_spark.optimizer.join_order.static_semi_joins import KeyPredicate, reduce_statically
from pushdown_spark.optimizer.passes.add_broadcast_hints import (
    MAX_BROADCAST_BYTES,
    fits_broadcast,
    supports_join_hints,
)
from pushdown_spark.optimizer.plans.logical_plan import (
    ChainItem,
    ChainTree,
    Conjunct,
    Join,
    JoinChain,
    JoinNode,
    OrderedChain,
    Plan,
    RelationLeaf,
    attach_conjuncts,
    heuristic_order,
    relation_names,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.query_context import remove_qualifier
from pushdown_spark.optimizer.statistics.derived_statistics import StatisticsOf, chain_estimator, item_statistics
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics
from pushdown_spark.runtime.spark_internals import session_state

_MAX_COST_FRACTION = 0.9
"""Maximum cost of another order, relative to the cost of the written order."""
_STAGE_ROWS = 500_000.0
"""Rows that a processor joins in the time that an empty stage takes, measured with TPC-H and TPC-DS."""


@dataclass(frozen=True, kw_only=True)
class ReorderSettings:
    """Settings that affect the join order of a query."""

    options: JoinOptions
    broadcast_bytes: int
    """The size in memory up to which a relation may be hinted, or -1 if none may."""
    ansi: bool = True
    broadcast_threshold: int = 0
    """The size in files up to which Spark broadcasts a relation without a hint."""
    obstacle: str | None = None
    """The reason not to collect statistics, unless the written order has a nested loop."""
    hints_joins: bool = False
    """Whether the results of joins can be hinted, too. If so, every table has a distinct name, and the caller adds the
    hints in `OptimizedQuery.broadcast`."""
    reduces_statically: bool = False
    """Whether keys seen in files may become predicates. The statistics of a table then describe exactly the rows of its
    files."""
    processors: int = 1
    """The processors that run Spark's tasks."""

    @classmethod
    def of_session(cls, spark: SparkSession, options: JoinOptions) -> ReorderSettings:
        """Return the settings of a session."""
        ansi = is_enabled(spark, "spark.sql.ansi.enabled", default=True)
        if not isinstance(spark, SparkSession):
            # Sizes of relations are unknown with Spark Connect, and it does not report its processors.
            return cls(options=options, broadcast_bytes=-1, ansi=ansi)
        threshold = int(session_state(spark).conf().autoBroadcastJoinThreshold())
        hinted_bytes = -1 if threshold < 0 else MAX_BROADCAST_BYTES
        return cls(
            options=options,
            broadcast_bytes=hinted_bytes,
            ansi=ansi,
            broadcast_threshold=threshold,
            processors=spark.sparkContext.defaultParallelism,
        )


@dataclass(frozen=True)
class ReorderDecision:
    """The order of a chain, the sets of relations to broadcast, and the report.

    `changes_conditions` means that redundant conditions were dropped or key predicates added. `keys` has for each key
    predicate its relation, the conditions on it, and the predicate on its own column, without the relation's name.
    """

    after: OrderedChain
    broadcast: frozenset[frozenset[str]]
    report: JoinReport
    changes_conditions: bool = False
    keys: tuple[tuple[str, exp.Expr, exp.Expr], ...] = ()

    @property
    def changes_query(self) -> bool:
        """Whether the query has to be rewritten."""
        return self.report.reordered or bool(self.broadcast) or self.changes_conditions

    @property
    def broadcast_relations(self) -> frozenset[str]:
        """The single relations to broadcast."""
        return frozenset(name for names in self.broadcast if len(names) == 1 for name in names)

    @property
    def broadcast_joins(self) -> frozenset[frozenset[str]]:
        """The sets of several relations whose join is to be broadcast."""
        return frozenset(names for names in self.broadcast if len(names) > 1)


def order_chain(
    block: SelectBlock,
    chain: JoinChain,
    types: ColumnTypes,
    *,
    statistics_of: StatisticsOf,
    settings: ReorderSettings,
    check: Callable[[], None],
) -> ReorderDecision:
    """Return the cheapest order of a chain, or the written order with the reason in the report.

    `check` raises UnsupportedError if the chain must keep its order.
    """
    start_time = time.perf_counter()
    before = heuristic_order(chain)
    if not settings.options.reorder:
        return _keep_order(chain, before, before, "join_reorder is off")
    try:
        check()
    except UnsupportedError as problem:
        return _keep_order(chain, before, before, str(problem))
    equalities = ChainEqualities(block, chain, types)
    without_redundant = equalities.remove_redundant(before)
    if settings.obstacle and not _must_reorder(before.tree, chain, settings):
        return _keep_order(chain, before, without_redundant, settings.obstacle)
    statistics = [(item.plan, item_statistics(block, item.plan, statistics_of)) for item in chain.items]
    relations = [relation for _, relation in statistics if relation is not None]
    if len(relations) < len(statistics):
        missing = ", ".join(relation_label(plan) for plan, relation in statistics if relation is None)
        return _keep_order(chain, before, without_redundant, f"no statistics for {missing}")
    key_predicates: tuple[KeyPredicate, ...] = ()
    if settings.reduces_statically:
        relations, key_predicates = reduce_statically(
            relations,
            equalities.classes,
            lambda column: block.is_table(column.key[0]),
            lambda column, conditions: statistics_of(block, column.key[0], conditions),
        )
    return JoinOrderOptimizer(
        block, chain, equalities, relations=relations, settings=settings, key_predicates=key_predicates
    ).decide(before, start_time)


def _keep_order(chain: JoinChain, before: OrderedChain, after: OrderedChain, reason: str) -> ReorderDecision:
    """Return the decision to keep the order. `after` may have fewer conditions than the written order."""
    trees = [tree_report(order.tree, chain.items, None, ()) for order in (before, after)]
    report = JoinReport(before=trees[0], after=trees[1], reason=reason)
    return ReorderDecision(after, frozenset(), report, changes_conditions=after != before)


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


class JoinOrderOptimizer:
    """Decides on the order of one chain."""

    def __init__(
        self,
        block: SelectBlock,
        chain: JoinChain,
        equalities: ChainEqualities,
        *,
        relations: Sequence[RelationStatistics],
        settings: ReorderSettings,
        key_predicates: Sequence[KeyPredicate],
    ) -> None:
        """Create an optimizer. `relations` are the statistics with the additional `key_predicates` applied."""
        self._chain = chain
        self._equalities = equalities
        self._relations = relations
        self._settings = settings
        self._key_predicates = key_predicates
        self._hints_joins = settings.hints_joins and supports_join_hints(block.select)
        output_columns = RequiredOutputColumns(block, chain, equalities.classes).columns if self._hints_joins else None
        self._estimator = chain_estimator(block, chain, equalities, relations, output_columns)
        equality_edges = equalities.edges(only_equalities=True)
        self._tables = sum(
            1 << number
            for number, item in enumerate(chain.items)
            if isinstance(item.plan, RelationLeaf) and block.is_table(item.plan.name)
        )
        self._model = CostModel(
            self._estimator.rows,
            cache(lambda mask: self._is_below_threshold(mask) or self._may_hint(mask)),
            lambda left, right: are_adjacent(left, right, equality_edges),
            _STAGE_ROWS * settings.processors,
        )

    def decide(self, written_order: OrderedChain, start_time: float) -> ReorderDecision:
        """Return the cheapest order if it is much cheaper than the written order, or else the written order.

        `start_time` is the `perf_counter` time at which work on the chain began.
        """
        star, search = self._search()
        # A stage costs the same in both orders of a report, so that its rows compare with those that Spark counts.
        reported_model = replace(self._model, stage_rows=0.0)
        written_cost, found_cost = reported_model.tree_cost(written_order.tree), reported_model.tree_cost(search.tree)
        is_better = (
            len(self._chain.items) > 2
            and found_cost < _MAX_COST_FRACTION * written_cost
            and search.cost < self._model.tree_cost(written_order.tree)
        )
        tree = self._with_build_sides_right(search.tree) if is_better else written_order.tree
        complete = self._equalities.with_implied(attach_conjuncts(tree, self._chain.items, self._chain.conjuncts))
        minimal_order = self._equalities.remove_redundant(complete)
        after = replace(minimal_order, above=(*minimal_order.above, *self._key_conjuncts()))
        broadcast = self._broadcast_sets(after.tree)
        if is_better:
            reason = f"about {found_cost:,.0f} rows joined or moved instead of {written_cost:,.0f}"
        else:
            reason = f"about {written_cost:,.0f} rows joined or moved, no order is much better"
        report = JoinReport(
            before=tree_report(written_order.tree, self._chain.items, self._estimator.rows, ()),
            after=tree_report(after.tree, self._chain.items, self._estimator.rows, broadcast),
            reason="; ".join([reason, *map(str, self._key_predicates)]),
            reordered=is_better,
            method=search.method,
            star=tuple(relation_label(self._chain.items[number].plan) for number in star),
            seconds=round(time.perf_counter() - start_time, 3),
        )
        keys = tuple(map(self._keys, self._key_predicates))
        return ReorderDecision(after, broadcast, report, changes_conditions=after != complete, keys=keys)

    def _search(self) -> tuple[tuple[int, ...], SearchResult]:
        """Return the star, if any, and the cheapest tree."""
        options = self._settings.options
        star = detect_star(self._relations, self._equalities.all) if options.star_schema else ()
        edges = self._equalities.edges()
        # Parts that nothing connects are joined last, so that a star across them cannot come first.
        is_allowed = star_first(star if len(connected_components(edges)) == 1 else ())
        return star, find_cheapest_tree(edges, self._model, threshold=options.dp_threshold, is_allowed=is_allowed)

    def _key_conjuncts(self) -> list[Conjunct]:
        """Return the key predicates for all equal columns. Spark infers them for directly equated columns only."""
        return [
            Conjunct(predicate.condition(self._equalities.column(member.key)), frozenset({member.key[0]}))
            for predicate in self._key_predicates
            for member in predicate.members
        ]

    def _keys(self, predicate: KeyPredicate) -> tuple[str, exp.Expr, exp.Expr]:
        """Return the relation of a key predicate, the conditions on it, and the predicate on its own column."""
        name = predicate.member.key[0]
        keys = remove_qualifier(predicate.condition(self._equalities.column(predicate.member.key)), name)
        return name, exp.and_(*predicate.conditions), keys

    def _with_build_sides_right(self, tree: ChainTree) -> ChainTree:
        """Return the tree with the build side of each join on the right: a single relation, or the smaller side."""
        if isinstance(tree, int):
            return tree
        left, right = self._with_build_sides_right(tree.left), self._with_build_sides_right(tree.right)
        if isinstance(left, int) is isinstance(right, int):
            swap = self._estimator.rows(relation_mask(left)) < self._estimator.rows(relation_mask(right))
        else:
            swap = isinstance(left, int)
        return JoinNode(right, left) if swap else JoinNode(left, right)

    def _broadcast_sets(self, tree: ChainTree) -> frozenset[frozenset[str]]:
        """Return the sets of relations that are the smaller side of a join and provably fit a broadcast.

        A set is left out if Spark broadcasts the relation on the other side anyway and that is cheaper.
        """
        if isinstance(tree, int):
            return frozenset()
        below = self._broadcast_sets(tree.left) | self._broadcast_sets(tree.right)
        masks = (relation_mask(side) for side in (tree.left, tree.right))
        smaller, larger = sorted(masks, key=self._estimator.rows)
        has_equality = any(isinstance(conjunct.node, exp.EQ) for conjunct in tree.conjuncts)
        sends_larger = self._is_below_threshold(larger) and (
            self._model.broadcast_cost(larger) < self._model.broadcast_cost(smaller)
        )
        if sends_larger or not has_equality or not self._may_hint(smaller):
            return below
        return below | {frozenset(name for number in bits(smaller) for name in self._chain.items[number].plan.names)}

    def _may_hint(self, mask: int) -> bool:
        """Return whether a set of relations may be hinted: a single relation, or a join of tables.

        Tables are hinted by their names in Spark's plan of the query.
        """
        is_hintable = self._is_relation(mask) or (self._hints_joins and mask & ~self._tables == 0)
        if not is_hintable:
            return False
        max_bytes, fraction = self._estimator.max_bytes(mask), self._estimator.expected_fraction(mask)
        return fits_broadcast(max_bytes, fraction, self._settings.broadcast_bytes)

    def _is_relation(self, mask: int) -> bool:
        """Return whether a set is a single relation, as opposed to an item that consists of joins."""
        return mask.bit_count() == 1 and isinstance(self._chain.items[mask.bit_length() - 1].plan, RelationLeaf)

    def _is_below_threshold(self, mask: int) -> bool:
        """Return whether a set is a single relation that Spark broadcasts without a hint because of its file size."""
        if not self._is_relation(mask):
            return False
        file_bytes = self._relations[mask.bit_length() - 1].file_bytes
        return file_bytes is not None and file_bytes <= self._settings.broadcast_threshold


def relation_label(plan: Plan) -> str:
    """Return the name of a relation, or a short description of the joins that an item consists of."""
    if isinstance(plan, RelationLeaf):
        return plan.name
    if isinstance(plan, Join):
        return f"({relation_label(plan.left)} {plan.kind.value} JOIN {relation_label(plan.right)})"
    return relation_label(plan.child)


def tree_report(
    tree: ChainTree,
    items: Sequence[ChainItem],
    rows: Callable[[int], float] | None,
    broadcast: Collection[frozenset[str]],
) -> JoinTree:
    """Return a tree for the report. `broadcast` holds the relations of each hinted side of a join."""
    hint = "BROADCAST" if relation_names(tree, items) in broadcast else None
    row_estimate = None if rows is None else round(rows(relation_mask(tree)), 1)
    if isinstance(tree, int):
        return JoinTree(relation=relation_label(items[tree].plan), hint=hint, estimated=row_estimate)
    return JoinTree(
        hint=hint,
        kind=tree.kind.value,
        condition=" AND ".join(conjunct.sql for conjunct in tree.conjuncts) or None,
        estimated=row_estimate,
        left=tree_report(tree.left, items, rows, broadcast),
        right=tree_report(tree.right, items, rows, broadcast),
    )
