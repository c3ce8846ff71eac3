"""Orders the joins of a DataFrame: reads chains from Spark's plan, and puts them into it again in another order.

Attributes keep their ids, so that `frame["column"]`, columns of one name and self joins mean what they meant.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import reduce

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.joins.block import Block
from pushdown_spark.joins.broadcast import HINTED_BYTES, threshold_bytes
from pushdown_spark.joins.cardinality import RelationFigures
from pushdown_spark.joins.chain import CatalystChain, column_name, computes, conjuncts_of, is_chained
from pushdown_spark.joins.chooser import Chooser, Setting, tree_report
from pushdown_spark.joins.equalities import Equalities
from pushdown_spark.joins.failing import casts_may_fail
from pushdown_spark.joins.figures import Wanted
from pushdown_spark.joins.graph import Ordered, Tree
from pushdown_spark.joins.hints import CATALYST, LOGICAL, broadcast_hint
from pushdown_spark.joins.kept import read
from pushdown_spark.joins.ordering import NO_CROSS_JOINS
from pushdown_spark.joins.push import Types, Untyped
from pushdown_spark.joins.rule import documented_order
from pushdown_spark.joins.tables import TableFacts
from pushdown_spark.runtime.jvm_gateway import elements, java_class, plan_dataframe, scala_seq

_THROUGH = frozenset({"Filter", "SubqueryAlias", "View", "Project"})
"""Nodes below which an item's own relation may be found."""


class CatalystJoins:
    """Orders the joins of frames of a classic session."""

    def __init__(self, spark: SparkSession, options: JoinOptions, facts: TableFacts) -> None:
        self._spark = spark
        self._options = options
        self._facts = facts
        self._reports: list[JoinReport] = []
        ansi = spark.conf.get("spark.sql.ansi.enabled", "true") == "true"
        limit = threshold_bytes(spark.conf.get("spark.sql.autoBroadcastJoinThreshold", "10MB"))
        self._ansi = ansi
        self._cross_joins = spark.conf.get("spark.sql.crossJoin.enabled", "true") == "true"
        self._broadcast_bytes = -1 if limit < 0 else HINTED_BYTES
        self._small_files = limit

    def reordered(self, frame: DataFrame) -> tuple[DataFrame, tuple[JoinReport, ...]]:
        """The frame with its joins in order, or the very frame where they are best left alone; and the joins."""
        self._reports = []
        changed = self._changed(frame)
        if changed is None:
            return frame, tuple(self._reports)
        found = plan_dataframe(self._spark, changed)
        if found.schema != frame.schema:
            reason = "the columns would not be the same"
            return frame, tuple(
                report.model_copy(update={"after": report.before, "reordered": False, "reason": reason})
                for report in self._reports
            )
        return found, tuple(self._reports)

    def _changed(self, frame: DataFrame) -> JavaObject | None:
        """The frame's plan with its joins in order, None to leave it alone."""
        plan = frame._jdf.queryExecution().withCachedData()
        if plan.isStreaming() or (self._ansi and casts_may_fail(frame)):
            return None
        try:
            return self._rewritten(plan)
        except RecursionError:
            # Conditions that lie deeper in each other than we can follow say nothing about the order.
            self._reports = []
            return None

    def _rewritten(self, plan: JavaObject) -> JavaObject | None:
        """The plan with its chains in order, None where none of them changes."""
        # An alias stays above its joins: it hides columns that Spark would look for below a projection.
        chain = None if plan.nodeName() == "SubqueryAlias" else CatalystChain.starting_at(plan)
        if chain is not None:
            return self._chain(plan, chain)
        children = list(elements(plan.children()))
        found = [self._rewritten(child) for child in children]
        if all(each is None for each in found):
            return None
        taken = [old if new is None else new for old, new in zip(children, found, strict=True)]
        return plan.withNewChildren(scala_seq(self._spark, taken))

    def _chain(self, plan: JavaObject, chain: CatalystChain) -> JavaObject | None:
        items = [self._rewritten(item) for item in chain.items]
        taken = [old if new is None else new for old, new in zip(chain.items, items, strict=True)]
        ordered = self._ordered(chain)
        if ordered is None:
            return None if all(each is None for each in items) else self._with_items(plan, taken)
        after, hinted = ordered
        built = self._joined(after.tree, chain, taken, hinted)
        above = [chain.expression(conjunct) for conjunct in after.above]
        if above:
            built = self._class(f"{LOGICAL}.Filter")(self._all_of(above), built)
        project = self._class(f"{LOGICAL}.Project")
        found = project(plan.output(), built)
        # The keys of the right sides of joins by name, which frames above may still ask for.
        found.setTagValue(project.hiddenOutputTag(), plan.metadataOutput())
        return found

    def _with_items(self, plan: JavaObject, items: Sequence[JavaObject]) -> JavaObject:
        """The plan of a chain as it is written, over other items."""
        if not is_chained(plan):
            return items[0]
        if plan.nodeName() == "Join":
            below = [self._with_items(plan.left(), items[:-1]), items[-1]]
        else:
            below = [self._with_items(plan.child(), items)]
        return plan.withNewChildren(scala_seq(self._spark, below))

    def _ordered(self, chain: CatalystChain) -> tuple[Ordered, frozenset[str]] | None:
        """The order to take and the relations to broadcast, None to leave the chain alone."""
        started = time.perf_counter()
        before = documented_order(chain.graph)
        reason = chain.obstacle(ansi=self._ansi) if self._options.reorder else "join_reorder is off"
        reason = reason or (None if self._cross_joins else NO_CROSS_JOINS)
        figures = [] if reason else [self._figures(chain, place) for place in range(len(chain.items))]
        if reason or None in figures:
            tree = tree_report(before.tree, chain.graph.items, None, ())
            reason = reason or "nothing is known of a relation"
            self._reports.append(JoinReport(before=tree, after=tree, reason=reason))
            return None
        setting = Setting(
            self._options,
            lambda block, name, conditions: None,
            self._types,
            self._hinted_bytes(chain),
            self._ansi,
            self._small_files,
            processors=self._spark.sparkContext.defaultParallelism,
        )
        known = [each for each in figures if each is not None]
        equalities = Equalities(chain.block, chain.graph, setting.types(chain.block))
        choice = Chooser(chain.block, chain.graph, equalities, known, setting).choice(before, started)
        self._reports.append(choice.report)
        return (choice.after, choice.hinted) if choice.changes else None

    @staticmethod
    def _types(_block: Block) -> Types:
        # What Spark infers by itself connects as well; an equality that nobody wrote is not added to a frame.
        return Untyped()

    def _hinted_bytes(self, chain: CatalystChain) -> int:
        """What may be hinted: nothing where a relation has a hint of the query's, which Spark drops beside ours."""
        has_hints = any("ResolvedHint" in str(item.toString()) for item in chain.items)
        return -1 if has_hints else self._broadcast_bytes

    def _figures(self, chain: CatalystChain, place: int) -> RelationFigures | None:
        """Figures of an item: of the relation below its filters, by the conditions on it alone."""
        name, relation = chain.names[place], chain.items[place]
        conditions, as_stored = list(chain.conditions_on(place)), True
        while relation.nodeName() in _THROUGH:
            if relation.nodeName() == "Filter":
                conditions += conjuncts_of(relation.condition())
            as_stored = as_stored and not computes(relation)
            relation = relation.child()
        columns = {column_name(attribute): str(attribute.name()) for attribute in elements(relation.output())}
        keys = {columns[key].lower(): key for key in chain.keys_of(place) if key in columns}
        parts = (_parsed(condition, frozenset(columns)) for condition in conditions)
        wanted = Wanted(name, tuple(part for part in parts if part is not None), frozenset(keys))
        made = plan_dataframe(self._spark, relation)
        known = self._facts.of(f"{name} {made.semanticHash()}", made, wanted)
        if known is None:
            return None
        found = {(name, keys[key]): figures for (_, key), figures in known.columns.items() if key in keys}
        return RelationFigures(known.rows, known.kept, found, known.at_most if as_stored else None, known.stored)

    def _joined(
        self, tree: Tree, chain: CatalystChain, items: Sequence[JavaObject], hinted: frozenset[str]
    ) -> JavaObject:
        if isinstance(tree, int):
            return items[tree]
        left, right = (self._joined(side, chain, items, hinted) for side in (tree.left, tree.right))
        conditions = [chain.expression(conjunct) for conjunct in tree.conjuncts]
        condition = self._class("scala.Some")(self._all_of(conditions)) if conditions else self._nothing()
        kind = self._class(f"{CATALYST}.plans.JoinType").apply("inner" if conditions else "cross")
        hints = [self._hint(side, chain, hinted) for side in (tree.left, tree.right)]
        both = self._class(f"{LOGICAL}.JoinHint")(*hints)
        return self._class(f"{LOGICAL}.Join")(left, right, kind, condition, both)

    def _hint(self, side: Tree, chain: CatalystChain, hinted: frozenset[str]) -> JavaObject:
        if not isinstance(side, int) or chain.names[side] not in hinted:
            return self._nothing()
        return broadcast_hint(self._spark)

    def _all_of(self, conditions: Sequence[JavaObject]) -> JavaObject:
        return reduce(self._class(f"{CATALYST}.expressions.And"), conditions)

    def _class(self, name: str) -> JavaClass:
        return java_class(self._spark, name)

    def _nothing(self) -> JavaObject:
        return self._class("scala.Option").empty()


def _parsed(condition: JavaObject, columns: frozenset[str]) -> exp.Expr | None:
    """A condition over columns without the names of their relation, None where its text cannot be read."""
    if any(column_name(attribute) not in columns for attribute in elements(condition.references())):
        return None
    try:
        tree = read(str(condition.sql()))
    except SqlglotError:
        return None
    return tree.transform(lambda node: exp.column(node.name) if isinstance(node, exp.Column) else node)
