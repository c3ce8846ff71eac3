"""Requests for scans: the columns and the predicate that a query needs from one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.contract import SPARK_REQUESTED, ConjunctReport, Exactness, ReaderChoice
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.predicate import (
    EVERY_ROW,
    FILE_METADATA,
    UNPARSED,
    Predicate,
    needs_every_row,
    reads_file_metadata,
    sql_function,
)
from pushdown_spark.expressions.scope import Fold
from pushdown_spark.projection.implicit_values import ImplicitValues
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.malformed_lines import MalformedLines
from pushdown_spark.sources.stores.listing import Listing


@dataclass(frozen=True)
class Directories:
    """The partitions (`key=value` directories) of a scan after partition pruning.

    `fields` are the partition columns. `values` maps the path of each remaining directory to the values as SQL
    constants. `conjuncts` are the conjuncts that pruned the others.
    """

    fields: StructType
    values: Mapping[str, tuple[str, ...]]
    conjuncts: tuple[ConjunctReport, ...]


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """The columns and the predicate that a query needs from one relation."""

    source: Source
    load_listing: Callable[[], Listing]
    """Returns Spark's own lazy DataFrame over the source, with its file listing. It is the fallback."""
    schema: StructType
    """All columns of the table."""
    columns: tuple[str, ...]
    """The required table columns."""
    implicit_columns: tuple[str, ...]
    """The required implicit columns."""
    predicate: Predicate | None
    """The whole predicate, which Spark re-evaluates."""
    fold: Fold
    """Evaluates constants of the predicate, each once."""
    pruned_schema: StructType | None = None
    """The columns with only the required struct members, or None if all are required. Readers use `read_schema`."""
    implicit_values: ImplicitValues | None = None
    """The values of the implicit columns, or None without any."""
    spark_only_reason: str | None = None
    """Why only Spark's reader can scan the source, or None if any reader can."""
    directories: Directories | None = None
    """The partitions for the pushdown readers. The tree of `predicate` then lacks the conjuncts that pruned some."""
    malformed_lines: MalformedLines | None = None
    """Counts malformed lines, or None if they are not counted."""
    notes: tuple[str, ...] = ()
    """Lines for the report of the scan."""
    query: str | None = None
    """The SQL of the whole query, from which Spark may derive other filters than `predicate`. None for a plain scan."""
    query_tree: exp.Expr | None = None
    """The syntax tree of that query, or None if only Spark can parse it."""

    @property
    def spark_frame(self) -> DataFrame:
        """Spark's own DataFrame over the source."""
        return self.listing.frame

    @property
    def listing(self) -> Listing:
        """The files that Spark listed for that DataFrame."""
        return self.load_listing()

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files, as Spark listed them."""
        return self.listing.uris

    @property
    def read_schema(self) -> StructType:
        """The columns to read, in the order of the table, with only the required struct members."""
        if self.pruned_schema is not None:
            return self.pruned_schema
        return StructType([field for field in self.schema.fields if field.name in set(self.columns)])

    @cached_property
    def sql_function(self) -> str | None:
        """A function of the query whose body is SQL, which only Spark knows, or None if it calls no such function."""
        spark = self.spark_frame.sparkSession
        if self.query is not None:
            return sql_function(spark, self.query, self.query_tree)
        return None if self.predicate is None else sql_function(spark, self.predicate.sql, self.predicate.tree)

    @cached_property
    def needs_every_row(self) -> bool:
        """Whether a WHERE of the whole query calls a function that must see every row. `predicate` tells its own."""
        if self.query is None:
            return False
        if self.query_tree is None:
            return needs_every_row(self.query, None)
        return any(needs_every_row(self.query, where) for where in self.query_tree.find_all(exp.Where))

    def for_query(self, sql: str, tree: exp.Expr | None) -> ScanRequest:
        """Return the request for a whole query. If the query reads file metadata, only Spark's reader can serve it."""
        request = replace(self, query=sql, query_tree=tree)
        return request.for_spark_only(FILE_METADATA) if reads_file_metadata(sql, tree) else request

    def with_notes(self, *notes: str) -> ScanRequest:
        """Return the request with more lines for the report."""
        return replace(self, notes=(*self.notes, *notes))

    def with_frame(self, frame: DataFrame) -> ScanRequest:
        """Return the request over another DataFrame of the same source."""
        return self if frame is self.spark_frame else self.with_listing(Listing(frame))

    def with_listing(self, listing: Listing) -> ScanRequest:
        """Return the request over other files of the same source."""
        return replace(self, load_listing=lambda: listing)

    def for_spark_only(self, reason: str) -> ScanRequest:
        """Return the request for Spark's reader only. An earlier reason is kept."""
        return replace(self, spark_only_reason=self.spark_only_reason or reason)

    def check_pushdown(self) -> None:
        """Raise UnsupportedError if only Spark's reader may scan the source for the predicate."""
        if self.source.reader is ReaderChoice.SPARK:
            raise UnsupportedError(SPARK_REQUESTED)
        if not self.source.filter_pushdown:
            raise UnsupportedError("filter_pushdown=False")
        if self.predicate is not None and self.predicate.tree is None:
            raise UnsupportedError(UNPARSED)
        if self.spark_only_reason is not None:
            raise UnsupportedError(self.spark_only_reason)
        if self.sql_function is not None:
            raise UnsupportedError(f"only Spark knows the body of the function {self.sql_function}")


def check_predicate(predicate: Predicate | None) -> None:
    """Raise UnsupportedError if only Spark's reader can scan files for a predicate."""
    if predicate is not None and predicate.reads_file_metadata:
        raise UnsupportedError(FILE_METADATA)
    if predicate is not None and predicate.needs_every_row:
        raise UnsupportedError(EVERY_ROW)


def unsupported_conjunct(conjunct: str, reason: str) -> ConjunctReport:
    """Return the report of a conjunct that Spark evaluates."""
    return ConjunctReport(sql=conjunct, exactness=Exactness.UNSUPPORTED, reason=reason)
