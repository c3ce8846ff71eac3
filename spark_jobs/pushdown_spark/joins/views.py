"""Temporary views that stand for frames while Spark analyses a text."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.runtime.jvm_gateway import java_class


class PrivateViews:
    """The catalog of a session, told of views itself.

    PySpark's function runs a command for each view, with events and all, which takes Spark 4.3 eight milliseconds and
    three more to drop it, where a query may read twenty sources in half a second; and dropping one gives up what users
    have cached of the same files. One view is made that way, under a name of its own, to see what the catalog holds of
    it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._catalog = spark._jsparkSession.sessionState().catalog()
        self._relations: _Relations | None = None

    @contextmanager
    def over(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Has each name stand for a frame, as long as this lasts."""
        try:
            for name, frame in frames.items():
                if self._relations is None:
                    self._relations = self._seen(frame)
                self._catalog.createTempView(name, self._relations.relation(name, frame), True)
            yield
        finally:
            for name in frames:
                self._catalog.dropTempView(name)

    @contextmanager
    def under(self, name: str, frame: DataFrame) -> Iterator[None]:
        """The same for a name that a user chose: a view that the session has of that name is back afterwards."""
        hidden = self._catalog.getRawTempView(name)
        try:
            with self.over({name: frame}):
                yield
        finally:
            if hidden.isDefined():
                self._catalog.createTempView(name, hidden.get(), True)

    def _seen(self, frame: DataFrame) -> _Relations:
        name = f"pushdown_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        try:
            return _Relations(self._spark, self._catalog.getRawTempView(name).get())
        finally:
            self._catalog.dropTempView(name)


class NamedViews:
    """Views under the names that a query itself has for its sources."""

    def __init__(self, private: PrivateViews) -> None:
        self._private = private

    @contextmanager
    def over(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Has each name stand for a frame, as long as this lasts, whatever else it stands for in the session."""
        with ExitStack() as stack:
            for name, frame in frames.items():
                stack.enter_context(self._private.under(name, frame))
            yield


class _Relations:
    """What the catalog holds of views over frames, made of what it holds of one of them."""

    def __init__(self, spark: SparkSession, like: JavaObject) -> None:
        table = like.tableMeta()
        self._table = java_class(spark, table.getClass().getName())
        # All but its name: what describes a view is the same for all that stand for a frame.
        self._rest = [table.productElement(number) for number in range(1, table.productArity())]
        self._relation = java_class(spark, like.getClass().getName())
        self._name = java_class(spark, "org.apache.spark.sql.catalyst.TableIdentifier")
        self._some = java_class(spark, "scala.Some")

    def relation(self, name: str, frame: DataFrame) -> JavaObject:
        """What is held of a view of this name over this frame."""
        table = self._table(self._name(name), *self._rest)
        return self._relation(table, self._some(frame._jdf.queryExecution().analyzed()))
