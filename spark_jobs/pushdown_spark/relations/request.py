"""What a query asks of one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness
from pushdown_spark.predicates.parse import asks_of_its_file, needs_every_row
from pushdown_spark.projection.metadata_values import ImplicitValues
from pushdown_spark.readers.malformed import MalformedLines
from pushdown_spark.relations.declaration import Source


@dataclass(frozen=True)
class Directories:
    """The directories `key=value` that a scan reads.

    `fields` are the partition columns. `values` are their values as SQL constants, by directory, without the
    directories that the predicate prunes. `conjuncts` are the conjuncts that pruned them.
    """

    fields: StructType
    values: Mapping[str, tuple[str, ...]]
    conjuncts: tuple[ConjunctReport, ...]


@dataclass(frozen=True)
class ScanRequest:
    """What a query wants of a source.

    `loaded` makes `native`, Spark's own, lazy frame over the source: it supplies schema and file listing, and is the
    fallback. `columns` are the table columns that must be read, `implicit` the file columns beside them. `where` is the
    whole predicate as text (Spark evaluates it again in any case), `predicate` its AST where sqlglot can read it.
    `pruned` are those columns with just the struct members that anybody needs, None where all are; readers take
    `read_schema`. `implicit_values` has the values of the implicit columns, None where none is asked for.
    `spark_only` says why none but Spark's own reader will do, None where any may read. `directories` are the source's
    partitions where a reader of ours is to tell their values; predicate and `where` are then without what they answer.
    `malformed` counts the malformed lines of the source, None where nobody asked for that.
    """

    source: Source
    loaded: Callable[[], DataFrame]
    schema: StructType
    columns: tuple[str, ...]
    implicit: tuple[str, ...]
    where: str | None
    predicate: exp.Expr | None
    pruned: StructType | None = None
    implicit_values: ImplicitValues | None = None
    spark_only: str | None = None
    directories: Directories | None = None
    malformed: MalformedLines | None = None

    @property
    def native(self) -> DataFrame:
        """Spark's own frame."""
        return self.loaded()

    @property
    def read_schema(self) -> StructType:
        """The columns to read, in the table's order, without struct members that nobody needs."""
        if self.pruned is not None:
            return self.pruned
        return StructType([field for field in self.schema.fields if field.name in set(self.columns)])


@dataclass(frozen=True)
class Refusal:
    """Why Spark's reader takes a scan instead of ours.

    `with_filter` says whether the lazy filter of Spark's ORC reader pays, None where that was not estimated.
    """

    reason: str
    with_filter: bool | None = None


def spark_only(sql: str | None) -> str | None:
    """Why none but Spark's own reader serves a predicate or query, None where any does."""
    if sql is None or not asks_of_its_file(sql):
        return None
    return "input_file_name() and _metadata are known to the rows of Spark's own reader alone"


def undivided(where: str | None) -> str | None:
    """Why no conjunct of a predicate may drop rows before the others are evaluated, None where each may."""
    if where is None or not needs_every_row(where):
        return None
    return "the predicate calls a function that must see every row, or whose value depends on the rows before"


def unsupported(conjunct: str, reason: str) -> ConjunctReport:
    """A conjunct that is left to Spark."""
    return ConjunctReport(sql=conjunct, exactness=Exactness.UNSUPPORTED, reason=reason)
