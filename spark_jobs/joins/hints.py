"""Hints Spark to broadcast what comes out of joins: its SQL has no word for that, its plans do."""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.gateway import frame_of, indexed, jvm, text_of
from spark_jobs.joins.outline import children, outline


def with_hints(frame: DataFrame, joined: frozenset[frozenset[str]]) -> DataFrame:
    """The frame, with a hint for every side of a join that joins just the views of one of the sets.

    A hint changes how Spark joins, never what. A set that no side has is passed over.
    """
    if not joined:
        return frame
    spark = frame.sparkSession
    return frame_of(spark, _Hints(spark, frame._jdf.queryExecution().analyzed(), joined).hinted())


def broadcast_hint(spark: SparkSession) -> JavaObject:
    """What the side of a join has in Spark's plan that is to be broadcast."""
    scala, logical = jvm(spark).scala, jvm(spark).org.apache.spark.sql.catalyst.plans.logical
    broadcast = getattr(logical, "BROADCAST$").__getattr__("MODULE$")
    return scala.Some(logical.HintInfo(scala.Some(broadcast)))


class _Hints:
    """Writes hints into a plan that Spark has analysed."""

    def __init__(self, spark: SparkSession, plan: JavaObject, joined: frozenset[frozenset[str]]) -> None:
        self._spark = spark
        self._plan = plan
        self._joined = joined
        self._logical = jvm(spark).org.apache.spark.sql.catalyst.plans.logical
        self._lines = outline(plan, text_of(spark, plan))
        self._children = children(self._lines)
        self._reads = self._read_below()
        self._changes = self._changed()

    def hinted(self, number: int = 0) -> JavaObject:
        """A node of the plan with the hints for it and for what is below."""
        node, below = self._plan.apply(number), self._children[number]
        if not self._changes[number]:
            return node
        sides = [self.hinted(child) for child in below]
        if not self._has_side(number):
            return node.withNewChildren(indexed(self._spark, sides))
        hints = [self._hint(child, known) for child, known in zip(below, _known(node.hint()), strict=True)]
        return self._logical.Join(*sides, node.joinType(), node.condition(), self._logical.JoinHint(*hints))

    def _read_below(self) -> list[frozenset[str]]:
        """For each node what it reads: the names of views in the sets, and numbers of other leaves."""
        named = frozenset[str]().union(*self._joined)
        found: list[frozenset[str]] = [frozenset()] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            kind, _, alias = self._lines[number].text.partition(" ")
            below = self._children[number]
            if kind == "SubqueryAlias" and alias in named:
                found[number] = frozenset({alias})
            else:
                found[number] = frozenset[str]().union(*(found[child] for child in below)) or frozenset({str(number)})
        return found

    def _changed(self) -> list[bool]:
        """For each node whether it is a join with a side to hint, or above one."""
        found = [False] * len(self._lines)
        for number in reversed(range(len(self._lines))):
            found[number] = self._has_side(number) or any(found[child] for child in self._children[number])
        return found

    def _has_side(self, number: int) -> bool:
        is_join = self._lines[number].text.startswith("Join ")
        return is_join and any(self._reads[child] in self._joined for child in self._children[number])

    def _hint(self, side: int, known: JavaObject) -> JavaObject:
        if self._reads[side] not in self._joined or known.isDefined():
            return known
        return broadcast_hint(self._spark)


def _known(hint: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The hints that the sides of a join have already."""
    return hint.leftHint(), hint.rightHint()
