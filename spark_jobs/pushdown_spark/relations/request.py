"""What a query asks of one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pushdown_spark.contract import ConjunctReport, Exactness
from pushdown_spark.expressions.predicate import Predicate, reads_file_metadata
from pushdown_spark.projection.metadata_values import ImplicitValues
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.malformed_lines import MalformedLines


@dataclass(frozen=True)
class Directories:
    """The partitions (`key=value` directories) of a scan after partition pruning.

    `fields` are the partition columns. `values` maps the path of each remaining directory to the values as SQL
    constants. `conjuncts` are the conjuncts that pruned the others.
    """

    fields: StructType
    values: Mapping[str, tuple[str, ...]]
    conjuncts: tuple[ConjunctReport, ...]


@dataclass(frozen=True)
class ScanRequest:
    """What a query asks of one relation.

    `loaded` returns Spark's own lazy DataFrame over the source, which has the schema and the file listing, and is the
    fallback. `columns` are the required table columns, `implicit` the required implicit columns. `predicate` is the
    whole predicate, which Spark re-evaluates. `pruned` are the columns with only the required struct members, None if
    all members are required; readers use `read_schema`. `implicit_values` has the values of the implicit columns, None
    without any. `spark_only` is the reason why only Spark's reader can scan the source, None if any reader can.
    `directories` are the partitions for our readers; the tree of `predicate` then lacks the conjuncts that pruned
    partitions. `malformed` counts malformed lines, None if they are not counted.
    """

    source: Source
    loaded: Callable[[], DataFrame]
    schema: StructType
    columns: tuple[str, ...]
    implicit: tuple[str, ...]
    predicate: Predicate | None
    pruned: StructType | None = None
    implicit_values: ImplicitValues | None = None
    spark_only: str | None = None
    directories: Directories | None = None
    malformed: MalformedLines | None = None

    @property
    def native(self) -> DataFrame:
        """Spark's own DataFrame over the source."""
        return self.loaded()

    @property
    def read_schema(self) -> StructType:
        """The columns to read, in the order of the table, with only the required struct members."""
        if self.pruned is not None:
            return self.pruned
        return StructType([field for field in self.schema.fields if field.name in set(self.columns)])


@dataclass(frozen=True)
class Refusal:
    """The reason why Spark's reader takes a scan instead of ours.

    `with_filter` is whether the lazy filter of Spark's ORC reader pays, None if that was not estimated.
    """

    reason: str
    with_filter: bool | None = None


def spark_only(sql: str | None) -> str | None:
    """Return why only Spark's own reader can run a predicate or query, None if any reader can."""
    if sql is None or not reads_file_metadata(sql):
        return None
    return "only Spark's own reader supports input_file_name() and _metadata"


def undivided(predicate: Predicate | None) -> str | None:
    """Return why no conjunct may drop rows before the others are evaluated, None if each may."""
    if predicate is None or not predicate.needs_every_row:
        return None
    return "the predicate calls a function that must see every row or depends on earlier rows"


def unsupported(conjunct: str, reason: str) -> ConjunctReport:
    """Return the report of a conjunct that Spark evaluates."""
    return ConjunctReport(sql=conjunct, exactness=Exactness.UNSUPPORTED, reason=reason)
