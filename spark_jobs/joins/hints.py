"""Hints Spark to broadcast what comes out of joins: its SQL has no word for that, its plans do."""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.gateway import elements, frame_of, indexed, jvm


def with_hints(frame: DataFrame, joined: frozenset[frozenset[str]]) -> DataFrame:
    """The frame, with a hint for every side of a join that joins just the views of one of the sets.

    A hint changes how Spark joins, never what. A set that no side has is passed over.
    """
    if not joined:
        return frame
    spark = frame.sparkSession
    hinted, _ = _Hints(spark, joined).hinted(frame._jdf.queryExecution().analyzed())
    return frame_of(spark, hinted)


def broadcast_hint(spark: SparkSession) -> JavaObject:
    """What the side of a join has in Spark's plan that is to be broadcast."""
    scala, logical = jvm(spark).scala, jvm(spark).org.apache.spark.sql.catalyst.plans.logical
    broadcast = getattr(logical, "BROADCAST$").__getattr__("MODULE$")
    return scala.Some(logical.HintInfo(scala.Some(broadcast)))


class _Hints:
    """Writes hints into a plan that Spark has analysed."""

    def __init__(self, spark: SparkSession, joined: frozenset[frozenset[str]]) -> None:
        self._views = frozenset[str]().union(*joined)
        self._joined = joined
        self._spark = spark
        self._logical = jvm(spark).org.apache.spark.sql.catalyst.plans.logical

    def hinted(self, plan: JavaObject) -> tuple[JavaObject, frozenset[str]]:
        """The plan with its hints, and the views in it."""
        kind = str(plan.nodeName())
        if kind == "SubqueryAlias" and (name := str(plan.alias())) in self._views:
            return plan, frozenset({name})
        children = list(elements(plan.children()))
        found = [self.hinted(child) for child in children]
        views = frozenset[str]().union(*(names for _, names in found))
        if not views:
            return plan, views
        if any(new is not old for (new, _), old in zip(found, children, strict=True)):
            plan = plan.withNewChildren(indexed(self._spark, [new for new, _ in found]))
        if kind == "Join" and any(names in self._joined for _, names in found):
            hints = [self._hint(names, known) for (_, names), known in zip(found, _known(plan.hint()), strict=True)]
            plan = self._logical.Join(
                plan.left(), plan.right(), plan.joinType(), plan.condition(), self._logical.JoinHint(*hints)
            )
        return plan, views

    def _hint(self, names: frozenset[str], known: JavaObject) -> JavaObject:
        if names not in self._joined or known.isDefined():
            return known
        return broadcast_hint(self._spark)


def _known(hint: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The hints that the sides of a join have already."""
    return hint.leftHint(), hint.rightHint()
