"""Join reordering of DataFrames, in Spark's logical plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import is_enabled
from pushdown_spark.optimizer.catalyst import CATALYST, LOGICAL
from pushdown_spark.optimizer.dataframe_plan import (
    CatalystChain,
    column_name,
    computes_columns,
    conjuncts_of,
)
from pushdown_spark.optimizer.join_order.decision import ReorderDecision, ReorderSettings, order_chain
from pushdown_spark.optimizer.join_order.reorder_safety import (
    NO_CROSS_JOINS,
    OTHER_COLUMNS,
    ColumnTypes,
    casts_may_fail,
)
from pushdown_spark.optimizer.passes.add_broadcast_hints import broadcast_hint
from pushdown_spark.optimizer.passes.reorder_joins import unchanged_report
from pushdown_spark.optimizer.plans.logical_plan import ChainTree
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.plans.sql_dialect import parse_sql
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics, StatisticsRequest
from pushdown_spark.optimizer.statistics.session_statistics import SessionTableStatistics
from pushdown_spark.runtime.jvm_gateway import elements, java_class, scala_seq
from pushdown_spark.runtime.spark_internals import plan_dataframe, query_execution

_TRANSPARENT = frozenset({"Filter", "SubqueryAlias", "View", "Project"})
"""Nodes between an item of a chain and the relation that it reads."""


class DataFrameJoins:
    """Reorders the joins of DataFrames in Spark's logical plan.

    Attributes keep their ids, so `frame["column"]`, duplicate column names and self joins keep their meaning.
    """

    def __init__(self, spark: SparkSession, options: JoinOptions, statistics: SessionTableStatistics) -> None:
        self._spark = spark
        self._statistics = statistics
        self._reports: list[JoinReport] = []
        self._settings = ReorderSettings.of_session(spark, options)
        self._cross_joins = is_enabled(spark, "spark.sql.crossJoin.enabled", default=True)

    def reorder(self, frame: DataFrame) -> tuple[DataFrame, tuple[JoinReport, ...]]:
        """Return a DataFrame with its joins in order, or the same object if nothing changes, and the joins."""
        plan = query_execution(frame).withCachedData()
        if plan.isStreaming() or (self._settings.ansi and casts_may_fail(frame)):
            return frame, ()
        try:
            new_plan = self._rewrite(plan)
        except RecursionError:
            # Conditions that are nested too deeply to translate say nothing about the order.
            return frame, ()
        if new_plan is None:
            return frame, tuple(self._reports)
        new_frame = plan_dataframe(self._spark, new_plan)
        if new_frame.schema != frame.schema:
            return frame, tuple(unchanged_report(report, OTHER_COLUMNS) for report in self._reports)
        return new_frame, tuple(self._reports)

    def _rewrite(self, plan: JavaObject) -> JavaObject | None:
        """Return a plan with its chains in order, or None if none of them changes."""
        # An alias stays above its joins, because it hides columns that Spark would find below a projection.
        chain = None if plan.nodeName() == "SubqueryAlias" else CatalystChain.from_plan(self._spark, plan)
        if chain is not None:
            return self._rewrite_chain(plan, chain)
        children = self._rewrite_all(list(elements(plan.children())))
        return None if children is None else plan.withNewChildren(scala_seq(self._spark, children))

    def _rewrite_all(self, plans: Sequence[JavaObject]) -> list[JavaObject] | None:
        """Return plans with their chains in order, or None if none of them changes."""
        new_plans = [self._rewrite(plan) for plan in plans]
        if all(plan is None for plan in new_plans):
            return None
        return [old if new is None else new for old, new in zip(plans, new_plans, strict=True)]

    def _rewrite_chain(self, plan: JavaObject, chain: CatalystChain) -> JavaObject | None:
        """Return the plan of a chain in its best order, or None if neither the chain nor its items change."""
        items = self._rewrite_all(chain.items)
        decision = self._decide(chain)
        if decision is None:
            return None if items is None else self._with_items(plan, items)
        join = self._joins(decision.after.tree, chain, items or chain.items, decision.broadcast_relations)
        above = [chain.expression(conjunct) for conjunct in decision.after.above]
        if above:
            join = self._class(f"{LOGICAL}.Filter")(self._conjunction(above), join)
        project = self._class(f"{LOGICAL}.Project")
        projection = project(plan.output(), join)
        # DataFrames above may still refer to the keys that a join by name hides.
        projection.setTagValue(project.hiddenOutputTag(), plan.metadataOutput())
        return projection

    def _with_items(self, plan: JavaObject, items: Sequence[JavaObject]) -> JavaObject:
        """Return the plan of a chain in its written order over other items."""
        if len(items) == 1:
            return items[0]
        if plan.nodeName() == "Join":
            children = [self._with_items(plan.left(), items[:-1]), items[-1]]
        else:
            children = [self._with_items(plan.child(), items)]
        return plan.withNewChildren(scala_seq(self._spark, children))

    def _decide(self, chain: CatalystChain) -> ReorderDecision | None:
        """Return the order and hints of a chain, or None if it stays as it is."""
        plans = {name: str(item.toString()) for name, item in zip(chain.names, chain.items, strict=True)}
        # Spark would drop a hint inside of an item that gets another hint.
        has_hints = any("ResolvedHint" in plan for plan in plans.values())
        settings = replace(self._settings, broadcast_bytes=-1) if has_hints else self._settings

        def statistics_of(_block: SelectBlock, name: str, _conditions: Sequence[exp.Expr]) -> RelationStatistics | None:
            # Spark cannot optimize a reference to a common table expression alone.
            is_complete = "CTERelationRef" not in plans[name]
            return self._item_statistics(chain, chain.names.index(name)) if is_complete else None

        # Without types no equality is exact, so none is added: Spark infers further equalities itself.
        decision = order_chain(
            chain.block,
            chain.chain,
            ColumnTypes(),
            statistics_of=statistics_of,
            settings=settings,
            check=lambda: self._check_chain(chain),
        )
        self._reports.append(decision.report)
        return decision if decision.changes_query else None

    def _check_chain(self, chain: CatalystChain) -> None:
        """Raise UnsupportedError if a chain must keep its order."""
        chain.check(ansi=self._settings.ansi)
        if not self._cross_joins:
            raise UnsupportedError(NO_CROSS_JOINS)

    def _item_statistics(self, chain: CatalystChain, number: int) -> RelationStatistics | None:
        """Return the statistics of an item: those of the relation below its filters, with all conditions on it."""
        name, relation = chain.names[number], chain.items[number]
        conditions, is_stored = list(chain.conditions_on(number)), True
        while relation.nodeName() in _TRANSPARENT:
            if relation.nodeName() == "Filter":
                conditions += conjuncts_of(relation.condition())
            is_stored = is_stored and not computes_columns(relation)
            relation = relation.child()
        columns = {column_name(attribute): str(attribute.name()) for attribute in elements(relation.output())}
        keys = {columns[key].lower(): key for key in chain.keys_of(number) if key in columns}
        sql_conditions = (_parse_condition(condition, frozenset(columns)) for condition in conditions)
        request = StatisticsRequest(
            name, tuple(condition for condition in sql_conditions if condition is not None), frozenset(keys)
        )
        frame = plan_dataframe(self._spark, relation)
        statistics = self._statistics.statistics_of(f"{name} {frame.semanticHash()}", frame, request)
        if statistics is None:
            return None
        return RelationStatistics(
            statistics.rows,
            statistics.filtered_rows,
            {(name, keys[key]): column for (_, key), column in statistics.columns.items() if key in keys},
            statistics.max_bytes if is_stored else None,
            statistics.file_bytes,
        )

    def _joins(
        self, tree: ChainTree, chain: CatalystChain, items: Sequence[JavaObject], broadcast: frozenset[str]
    ) -> JavaObject:
        """Return a join tree as a Spark plan."""
        if isinstance(tree, int):
            return items[tree]
        left, right = (self._joins(side, chain, items, broadcast) for side in (tree.left, tree.right))
        conditions = [chain.expression(conjunct) for conjunct in tree.conjuncts]
        nothing = self._class("scala.Option").empty()
        condition = self._class("scala.Some")(self._conjunction(conditions)) if conditions else nothing
        kind = self._class(f"{CATALYST}.plans.JoinType").apply("inner" if conditions else "cross")
        hints = [
            broadcast_hint(self._spark) if isinstance(side, int) and chain.names[side] in broadcast else nothing
            for side in (tree.left, tree.right)
        ]
        join_hint = self._class(f"{LOGICAL}.JoinHint")(*hints)
        return self._class(f"{LOGICAL}.Join")(left, right, kind, condition, join_hint)

    def _conjunction(self, conditions: Sequence[JavaObject]) -> JavaObject:
        return reduce(self._class(f"{CATALYST}.expressions.And"), conditions)

    def _class(self, name: str) -> JavaClass:
        return java_class(self._spark, name)


def _parse_condition(condition: JavaObject, columns: frozenset[str]) -> exp.Expr | None:
    """Return a condition over these columns without qualifiers, or None if sqlglot cannot read it."""
    if any(column_name(attribute) not in columns for attribute in elements(condition.references())):
        return None
    try:
        tree = parse_sql(str(condition.sql()))
    except SqlglotError:
        return None
    return tree.transform(lambda node: exp.column(node.name) if isinstance(node, exp.Column) else node)
