"""Temporary views that stand for DataFrames while Spark analyzes a query."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.expressions.predicate import METADATA_COLUMN
from pushdown_spark.optimizer.catalyst import CATALYST, query_with_metadata
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import analyzed_plan, session_catalog


def has_metadata_name(sql: str) -> bool:
    """Return whether SQL contains the name of Spark's column `_metadata`, which views do not have."""
    return METADATA_COLUMN in sql.lower()


class PrivateViews:
    """The views of a session that stand for DataFrames.

    They are registered in the session catalog directly. `createOrReplaceTempView` runs a command for each view,
    which is slow for queries over many sources, and dropping a view that way uncaches data that users cached.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._catalog = session_catalog(spark)
        self._factory: _ViewFactory | None = None

    @contextmanager
    def register(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Register a view for each DataFrame, and drop the views at the end."""
        try:
            for name, frame in frames.items():
                if self._factory is None:
                    self._factory = self._new_factory(frame)
                self._catalog.createTempView(name, self._factory.view(name, frame), True)
            yield
        finally:
            for name in frames:
                self._catalog.dropTempView(name)

    def query(self, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return SQL over DataFrames under unique names."""
        with self.register(frames):
            return self._spark.sql(sql)

    def query_as_written(self, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return SQL over DataFrames under names that users chose, whether or not it reads Spark's `_metadata`."""
        if has_metadata_name(sql):
            return query_with_metadata(self._spark, sql, frames)
        with self._shadow_all(frames):
            return self._spark.sql(sql)

    @contextmanager
    def _shadow_all(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Register views under names that users chose, and restore the session's views of these names at the end."""
        with ExitStack() as stack:
            for name, frame in frames.items():
                stack.enter_context(self._shadow(name, frame))
            yield

    @contextmanager
    def _shadow(self, name: str, frame: DataFrame) -> Iterator[None]:
        user_view = self._catalog.getRawTempView(name)
        try:
            with self.register({name: frame}):
                yield
        finally:
            if user_view.isDefined():
                self._catalog.createTempView(name, user_view.get(), True)

    def _new_factory(self, frame: DataFrame) -> _ViewFactory:
        # PySpark creates one view, under a unique name, to show the JVM objects that represent it.
        name = f"pushdown_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        try:
            return _ViewFactory(self._spark, self._catalog.getRawTempView(name).get())
        finally:
            self._catalog.dropTempView(name)


class _ViewFactory:
    """Creates the JVM representation of temporary views after the model of one view."""

    def __init__(self, spark: SparkSession, model: JavaObject) -> None:
        table = model.tableMeta()
        self._table = java_class(spark, table.getClass().getName())
        # All views of DataFrames have the same metadata, except for the name.
        self._metadata = [table.productElement(number) for number in range(1, table.productArity())]
        self._view = java_class(spark, model.getClass().getName())
        self._identifier = java_class(spark, f"{CATALYST}.TableIdentifier")
        self._some = java_class(spark, "scala.Some")

    def view(self, name: str, frame: DataFrame) -> JavaObject:
        """Return the representation of a view over a DataFrame."""
        table = self._table(self._identifier(name), *self._metadata)
        return self._view(table, self._some(analyzed_plan(frame)))
