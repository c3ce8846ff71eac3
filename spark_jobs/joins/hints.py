"""Hints Spark to broadcast what comes out of joins: its SQL has no word for that, its plans do."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.gateway import elements, jvm


def with_hints(frame: DataFrame, joined: frozenset[frozenset[str]]) -> DataFrame:
    """The frame, with a hint for every side of a join that joins just the views of one of the sets.

    A hint changes how Spark joins, never what. A set that no side has is passed over.
    """
    if not joined:
        return frame
    plan = frame._jdf.queryExecution().analyzed()
    hinted, _ = _Hints(frame.sparkSession, joined).hinted(plan)
    made = jvm(frame.sparkSession).org.apache.spark.sql.classic.Dataset.ofRows(
        frame.sparkSession._jsparkSession, hinted
    )
    return DataFrame(made, frame.sparkSession)


class _Hints:
    """Writes hints into a plan that Spark has analysed."""

    def __init__(self, spark: SparkSession, joined: frozenset[frozenset[str]]) -> None:
        self._views = frozenset[str]().union(*joined)
        self._joined = joined
        self._jvm = jvm(spark)
        self._logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical

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
            plan = plan.withNewChildren(self._indexed([new for new, _ in found]))
        if kind == "Join" and any(names in self._joined for _, names in found):
            hints = [self._hint(names, known) for (_, names), known in zip(found, _known(plan.hint()), strict=True)]
            plan = self._logical.Join(
                plan.left(), plan.right(), plan.joinType(), plan.condition(), self._logical.JoinHint(*hints)
            )
        return plan, views

    def _hint(self, names: frozenset[str], known: JavaObject) -> JavaObject:
        if names not in self._joined or known.isDefined():
            return known
        broadcast = getattr(self._logical, "BROADCAST$").__getattr__("MODULE$")
        return self._jvm.scala.Some(self._logical.HintInfo(self._jvm.scala.Some(broadcast)))

    def _indexed(self, plans: Sequence[JavaObject]) -> JavaObject:
        gathered = self._jvm.java.util.ArrayList()
        for plan in plans:
            gathered.add(plan)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(gathered).toIndexedSeq()


def _known(hint: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The hints that the sides of a join have already."""
    return hint.leftHint(), hint.rightHint()
