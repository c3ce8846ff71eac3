"""Relations that only Spark can read: views, and tables of catalog plug-ins and of formats with a connector."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.projection.resolver import Projection
from pushdown_spark.relations.base import RelationWithoutFiles
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.request import ScanRequest


class SparkRelation(RelationWithoutFiles):
    """A table or view that Spark reads, with the columns, the predicate and the limit of a query in Spark's plan."""

    def __init__(self, spark: SparkSession, source: Source, frame: DataFrame, reason: str) -> None:
        """`frame` is Spark's DataFrame over the table, and `reason` says why only Spark reads it."""
        super().__init__(spark, source)
        self._frame = frame
        self._reason = reason

    @property
    def native(self) -> DataFrame:
        """Spark's own lazy DataFrame over the table."""
        return self._frame

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        return self._frame.schema

    @property
    def kind(self) -> str:
        """The kind of the source with its article, for error messages."""
        return f"{self.source.table or self.source.paths[0]}, which only Spark reads,"

    def origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""
        return f"in {self.source.table or self.source.paths[0]}"

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """Return what Spark must deliver for a projection and a predicate."""
        request = super().request(projection, where)
        return request.for_spark_only(self._reason)
