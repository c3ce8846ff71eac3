"""What has a remote table's columns where Spark analyses a query, and can never be taken for its rows."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import SourceReport
from pushdown_spark.projection.paths import quote_name, sql_type
from pushdown_spark.scan.base import Scan


class StandIn(Scan):
    """A scan of which only the columns matter: reading it is an error. It asks no database anything."""

    def __init__(self, spark: SparkSession, place: str, schema: StructType) -> None:
        """`place` tells a table from all others, for Spark as well: frames of two tables are never the same query."""
        # A digest: names may hold anything that ends a text in SQL.
        self._said = f"the stand-in for table {sha256(place.encode()).hexdigest()} was read"
        self._spark = spark
        self._schema = schema

    @cached_property
    def _frame(self) -> DataFrame:
        """Made where it is asked for: it takes Spark a hundredth of a second."""
        fields = self._schema.fields
        columns = [f"CAST(NULL AS {sql_type(each.dataType)}) AS {quote_name(each.name)}" for each in fields]
        return self._spark.sql(f"SELECT {', '.join(columns)} WHERE raise_error('{self._said}') IS NULL")

    def frame(self) -> DataFrame:
        """The columns."""
        return self._frame

    def report(self) -> SourceReport:
        """Nothing that was planned."""
        return SourceReport(reader="remote", reason=self._said)
