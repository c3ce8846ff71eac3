"""What every reader is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pushdown_spark.contract import (
    ONLY_SOURCE,
    ConjunctReport,
    Exactness,
    OnMissingColumn,
    OnSchemaConflict,
    OrcOptions,
    ReaderChoice,
    RemoteConnection,
    RemoteSourceSpec,
    SourceFormat,
    SourceReport,
)
from pushdown_spark.expressions.predicate import Predicate, reads_file_metadata
from pushdown_spark.projection.catalog import BUILT_IN, ImplicitCatalog
from pushdown_spark.projection.fill import ImplicitFill
from pushdown_spark.readers.malformed import MalformedLines


@dataclass(frozen=True)
class Source:
    """A named source as declared: format, paths, options in Spark's names (lower-cased), reader choice.

    `cold` tells that the session has just begun: our reader would have to wait for its first Python workers.
    """

    name: str
    format: SourceFormat
    paths: tuple[str, ...]
    schema: str | None
    options: Mapping[str, str]
    reader: ReaderChoice
    filter_pushdown: bool
    orc: OrcOptions = field(default_factory=OrcOptions)
    on_schema_conflict: OnSchemaConflict = OnSchemaConflict.ERROR
    on_missing_column: OnMissingColumn = OnMissingColumn.NULL
    catalog: ImplicitCatalog = BUILT_IN
    cold: bool = False
    max_malformed: int | None = None

    def parameter(self, name: str) -> str:
        """Return a parameter of this source for a message, with the source's name if there may be others."""
        return name if self.name == ONLY_SOURCE else f"{name} of source {self.name!r}"


@dataclass(frozen=True)
class RemoteSource:
    """A named remote table as declared, and how to reach its database."""

    name: str
    spec: RemoteSourceSpec
    connection: RemoteConnection

    @property
    def as_files(self) -> Source:
        """What stands for the table where requests name their source."""
        pushdown = self.spec.filter_pushdown
        return Source(self.name, SourceFormat.REMOTE, (), None, {}, ReaderChoice.PUSHDOWN, pushdown)


AnySource = Source | RemoteSource


@dataclass(frozen=True)
class Directories:
    """Hive partitions `key=value` that a scan reads.

    `fields` are their columns, `values` the columns' values as SQL constants by the path of the directory, of those
    alone that the predicate leaves; `conjuncts` are what it leaves them by.
    """

    fields: StructType
    values: Mapping[str, tuple[str, ...]]
    conjuncts: tuple[ConjunctReport, ...]


@dataclass(frozen=True)
class ScanRequest:
    """What a query wants of a source.

    `loaded` makes `native`, Spark's own, lazy frame over the source: it supplies schema and file listing, and is the
    fallback. `columns` are the table columns that must be read, `implicit` the file columns beside them. `predicate`
    is the whole predicate, which Spark evaluates again in any case.
    `pruned` are those columns with just the struct members that anybody needs, None where all are; readers take
    `read_schema`. `fill` knows the values of the implicit columns, None where none is asked for.
    `spark_only` says why none but Spark's own reader will do, None where any may read. `directories` are the source's
    partitions where a reader of ours is to tell their values; the predicate is then without what they answer.
    `malformed` counts the malformed lines of the source, None where nobody asked for that.
    """

    source: Source
    loaded: Callable[[], DataFrame]
    schema: StructType
    columns: tuple[str, ...]
    implicit: tuple[str, ...]
    predicate: Predicate | None
    pruned: StructType | None = None
    fill: ImplicitFill | None = None
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


class Scan(Protocol):
    """A planned scan of one source."""

    @property
    def exact(self) -> bool:
        """Whether every row already satisfies the predicate, so that nobody needs to evaluate it again."""

    @property
    def spark_counts_bytes(self) -> bool:
        """Whether Spark's input metrics tell the bytes that were read."""

    def frame(self) -> DataFrame:
        """The rows that may satisfy the predicate, lazily, with at least the requested columns."""

    def report(self) -> SourceReport:
        """What was planned and, once an action ran over the frame, what happened."""

    def limited(self, limit: int) -> LimitedScan | None:
        """How to stop early after `limit` rows, or None where Spark's own LIMIT stops the scan by itself."""


@dataclass(frozen=True)
class ColumnStatistics:
    """Distinct values of a column, None where nobody has counted them, and its share of nulls."""

    distinct: float | None
    null_share: float = 0.0


@dataclass(frozen=True)
class TableStatistics:
    """What a source itself expects: rows in all, rows that a predicate keeps, columns by their names.

    `judged` tells that the predicate's effect was estimated; else `kept` are the rows that are looked at for it. `few`
    rows are fetched by the driver, so that Spark knows how few they are.
    """

    rows: float
    kept: float
    few: bool
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    judged: bool = False


@runtime_checkable
class CountedSource(Protocol):
    """A source that has statistics of its own."""

    def statistics(self, where: str | None, columns: Sequence[str]) -> TableStatistics | None:
        """What it expects of a predicate and some columns, None where that is nothing. Reads no row."""


@runtime_checkable
class LimitingScan(Protocol):
    """A scan whose source can stop after some rows by itself."""

    def limited_frame(self, limit: int) -> DataFrame | None:
        """At most `limit` rows that satisfy the predicate, lazily; None where only Spark can tell them."""


@runtime_checkable
class GatheringScan(Protocol):
    """A scan whose rows the driver may fetch by itself, where they are so few that a job for them takes longer."""

    def gathered(self, limit: int | None) -> DataFrame | None:
        """The rows of now, at most `limit`, in a frame that reads nothing any more; None where there may be many."""


@runtime_checkable
class HoldingScan(Protocol):
    """A scan that holds something for its tasks while they run, such as a snapshot of a database."""

    def release(self) -> None:
        """Give it up; frames made before can no longer be run."""


@runtime_checkable
class TunedScan(Protocol):
    """A scan that runs faster under settings of Spark that change no answer."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings, by their names in Spark's configuration."""


@runtime_checkable
class MixedScan(Protocol):
    """A scan of several parts, by readers of several kinds."""

    @property
    def is_mixed(self) -> bool:
        """Whether Spark counts some of the rows and our readers the others, so that nobody knows the sum."""


class LimitedScan(Protocol):
    """A scan that is run piece by piece until enough rows are found."""

    def next_frame(self) -> DataFrame | None:
        """The rows of the next piece, or None behind the last one."""


def spark_only(sql: str | None) -> str | None:
    """Why none but Spark's own reader serves a predicate or query, None where any does."""
    if sql is None or not reads_file_metadata(sql):
        return None
    return "input_file_name() and _metadata are known to the rows of Spark's own reader alone"


def undivided(predicate: Predicate | None) -> str | None:
    """Return why no conjunct may drop rows before the others are evaluated; None if each may."""
    if predicate is None or not predicate.needs_every_row:
        return None
    return "the predicate calls a function that must see every row, or whose value depends on the rows before"


def unsupported(conjunct: str, reason: str) -> ConjunctReport:
    """A conjunct that is left to Spark."""
    return ConjunctReport(sql=conjunct, exactness=Exactness.UNSUPPORTED, reason=reason)
