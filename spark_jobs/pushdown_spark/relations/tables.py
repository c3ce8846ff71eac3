"""Relations of tables and views of Spark's catalog: tables of files that the pushdown readers read too, and all others.

The catalog decides what Spark reads: the columns and their types, the options, the partitions and the directories of
the files. The relation of a table of files takes all of this from Spark's own plan of the table, so that the pushdown
readers read the same files with the same schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import CONNECTOR_FORMATS, ONLY_SOURCE, ErrorCode, ReaderChoice, TableSourceSpec
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.local_paths import is_local
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.resolver import Projection
from pushdown_spark.projection.schema_alignment import ddl
from pushdown_spark.projection.schema_merge import MergeRules
from pushdown_spark.relations.base_relation import Relation, RelationWithoutFiles
from pushdown_spark.relations.file_relation import FileRelation
from pushdown_spark.relations.schemas.discovery import TableSchema
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import class_name, elements
from pushdown_spark.runtime.spark_internals import optimized_plan, physical_plan, plan_dataframe
from pushdown_spark.sources.catalog import (
    MEMORY_INDEX,
    CatalogTable,
    check_column,
    describe_catalog_table,
    plan_below_names,
    source_directories,
)
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import FileLoader
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import Listing

_STALE = "Spark's listing of the table is older than its files; run REFRESH TABLE"


def open_table(spark: SparkSession, source: Source) -> Relation:
    """Open a table or view of the catalog, or a table of a connector's format in a directory.

    Raises typed errors that name the parameter if there is no such table.
    """
    frame = load_table(spark, source)
    if source.format in CONNECTOR_FORMATS:
        return SparkRelation(spark, source, frame, f"format {source.format} is read by its Spark connector")
    try:
        table = describe_catalog_table(frame)
    except UnsupportedError as problem:
        return SparkRelation(spark, source, frame, str(problem))
    return TableRelation(spark, source, frame, table)


def load_table(spark: SparkSession, source: Source, options: Mapping[str, str] | None = None) -> DataFrame:
    """Return Spark's own DataFrame over a table, with additional options if given. Raises typed errors."""
    reader = spark.read.options(**{**source.options, **(options or {})})
    parameter = "path" if source.table is None else "table"
    try:
        if source.table is None:
            return reader.format(source.format).load(*source.paths)
        return reader.table(source.table)
    except (AnalysisException, ParseException, Py4JJavaError) as problem:
        raise typed_error(problem, about=source.parameter(parameter), text_error=ErrorCode.BAD_SPEC) from problem


def table_directories(spark: SparkSession, table: TableSourceSpec) -> set[str]:
    """Return the directories of all files that a table or view reads. Raises typed errors if there is no such table."""
    return source_directories(load_table(spark, Source.of(ONLY_SOURCE, table)))


@dataclass(frozen=True)
class TableLoader(FileLoader):
    """Loads a table of the catalog with Spark's own reader. `table` is the declared source."""

    table: Source = field(kw_only=True)

    def load(self, options: Mapping[str, str] | None = None, schema: StructType | None = None) -> Listing:
        """List the files of the table, with additional options and the schema of the catalog."""
        assert schema is None, "a table has the schema of the catalog"
        return Listing(load_table(self.spark, self.table, options))


class TableRelation(FileRelation):
    """A table of files in Spark's catalog. `open_table` makes one."""

    def __init__(self, spark: SparkSession, source: Source, frame: DataFrame, table: CatalogTable) -> None:
        """`frame` is Spark's DataFrame over the table, and `table` describes how it reads the files."""
        file_source = replace(
            source, format=table.format, options=table.options, paths=table.roots, schema=ddl(frame.schema)
        )
        note = f"{source.table} is a table of {table.format} files in {', '.join(map(location, table.roots[:1]))}"
        rules = MergeRules(source.on_schema_conflict, session_name_rule(spark), is_inferred=False)
        super().__init__(
            TableLoader(spark, file_source, table=source),
            Listing(plan_dataframe(spark, plan_below_names(frame))),
            TableSchema(rules, notes=(note,)),
        )
        self._table = table

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories below which `dir0` counts."""
        return tuple(map(location, self.source.paths))

    def _origin(self, column: str) -> str:
        return f"in table {self.source.table}"

    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request over the partitions that can have matching rows."""
        request = super().request(projection, predicate)
        try:
            level = self.spark_frame.storageLevel
            if level.useMemory or level.useDisk or level.useOffHeap:
                # The cached rows may be older than the files.
                raise UnsupportedError("the table is cached in Spark, which reads the cached rows")
            request = request.with_frame(self._prune_partitions(request.predicate))
            _check_listing(request.listing)
            self._check_buckets(request)
            for field in (*request.read_schema.fields, *self.partition_schema.fields):
                check_column(field)
        except UnsupportedError as problem:
            return request.for_spark_only(str(problem))
        return request

    def _prune_partitions(self, predicate: Predicate | None) -> DataFrame:
        """Return a DataFrame over the partitions that a predicate selects.

        Spark's optimizer asks the catalog for them. Without a predicate, or above padded columns, it has all
        partitions.
        """
        if predicate is None or not self._table.is_listed_by_catalog or self._table.pads:
            return self.spark_frame
        try:
            plan = optimized_plan(self.spark_frame.where(predicate.sql))
        except (PySparkException, Py4JJavaError):
            # Spark's reader raises the error of the query.
            return self.spark_frame
        leaves = list(elements(plan.collectLeaves()))
        if len(leaves) != 1 or class_name(leaves[0]) != "LogicalRelation":
            return self.spark_frame
        is_pruned = leaves[0].relation().location().getClass().getName() == MEMORY_INDEX
        frame = plan_dataframe(self._spark, leaves[0])
        return frame if is_pruned and frame.schema == self.spark_frame.schema else self.spark_frame

    def _check_buckets(self, request: ScanRequest) -> None:
        """Raise UnsupportedError if the reader is chosen by cost, and Spark reads only some buckets."""
        predicate = request.predicate
        if not self._table.is_bucketed or predicate is None or self.source.reader is not ReaderChoice.AUTO:
            return
        try:
            plan = physical_plan(request.spark_frame.where(predicate.sql))
        except (PySparkException, Py4JJavaError):
            return
        leaf = plan.collectLeaves().head()
        if class_name(leaf) == "FileSourceScanExec" and leaf.optionalBucketSet().isDefined():
            raise UnsupportedError("Spark reads only the buckets that the predicate selects")


def _check_listing(listing: Listing) -> None:
    """Raise UnsupportedError if local files have changed since Spark listed them.

    Spark keeps the listing of a table for the session, and reads the files that it has in the sizes that it has.
    """
    if not all(map(is_local, listing.uris)):
        return
    try:
        size = sum(file.size for file in listing.local_files)
    except OSError as problem:
        raise UnsupportedError(_STALE) from problem
    if size != listing.total_bytes():
        raise UnsupportedError(_STALE)


class SparkRelation(RelationWithoutFiles):
    """A table or view that Spark reads, with the columns, the predicate and the limit of a query in Spark's plan."""

    def __init__(self, spark: SparkSession, source: Source, frame: DataFrame, reason: str) -> None:
        """`frame` is Spark's DataFrame over the table, and `reason` says why only Spark reads it."""
        super().__init__(spark, source)
        self._frame = frame
        self._reason = reason

    @property
    def spark_frame(self) -> DataFrame:
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

    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request for a projection and a predicate."""
        request = super().request(projection, predicate)
        return request.for_spark_only(self._reason)
