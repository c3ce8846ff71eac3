"""Relations of files: the files are listed and their schema is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pushdown_spark.contract import OnMissingColumn, SourceFormat
from pushdown_spark.errors import BadSpecError, MissingPathError, PushdownError, UnsupportedError
from pushdown_spark.expressions.constant_folding import cached_fold
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import is_enabled, session_name_rule
from pushdown_spark.projection.file_locations import directories, location, max_depth, root_of, scan_root
from pushdown_spark.projection.implicit_columns import FileMetadata
from pushdown_spark.projection.implicit_values import ImplicitValues
from pushdown_spark.projection.path_expressions import PathContext
from pushdown_spark.projection.paths import parse_paths
from pushdown_spark.projection.required_columns import required_columns
from pushdown_spark.projection.resolver import FIELDS_COLUMN, Projection, resolve
from pushdown_spark.projection.schema_merge import MergeRules, merge_schemas
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.schemas.csv_schemas import required_field_count
from pushdown_spark.relations.schemas.discovery import TYPED_FORMATS, FileSchemaReader, TableSchema, discover_schema
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import FileLoader
from pushdown_spark.sources.request import ScanRequest, check_predicate
from pushdown_spark.sources.stores.listing import Listing, decode_uri

_ONE_COLUMN = StructType([StructField("column", StringType())])
"""Any schema, with which Spark lists files without reading one."""


class FileRelation(Relation):
    """A source of files. `open` lists the files and finds their schema."""

    def __init__(
        self, loader: FileLoader, listing: Listing, table_schema: TableSchema, parent: FileRelation | None = None
    ) -> None:
        """`listing` has the files that `loader` found. `parent` is the relation that this one is a file group of."""
        super().__init__(loader.spark, loader.source)
        self.loader = loader
        self.listing = listing
        self.table_schema = table_schema
        self._parent = parent

    @classmethod
    def open(cls, spark: SparkSession, source: Source) -> FileRelation:
        """List the files and merge their schemas.

        Raises BadSpecError, BadSchemaError, MissingPathError and SchemaConflictError, which name the parameter.
        """
        is_inferred = source.format not in TYPED_FORMATS
        rules = MergeRules(source.on_schema_conflict, session_name_rule(spark), is_inferred=is_inferred)
        loader = FileLoader(spark, source)
        try:
            listing = loader.load()
        except PushdownError as problem:
            if not isinstance(problem, MissingPathError):
                _check_each_file(loader, rules)
            raise
        relation = cls(loader, listing, TableSchema(rules))
        table_schema = relation._discover_schema()
        if table_schema.table is None or table_schema.table == relation.data_schema:
            return cls(loader, relation.listing, table_schema)
        # Spark inferred another schema.
        return cls._load(replace(loader, schema=table_schema.table), table_schema)

    @staticmethod
    def _load(loader: FileLoader, table_schema: TableSchema, parent: FileRelation | None = None) -> FileRelation:
        return FileRelation(loader, loader.load(), table_schema, parent)

    def open_group(self, source: Source, schema: StructType) -> FileRelation:
        """Return the relation of a file group. `source` declares its files, and `schema` is their common schema."""
        # Spark's reader takes char and varchar as metadata of strings, but not in a schema as text.
        loader = FileLoader(self._spark, source, schema)
        return self._load(loader, TableSchema(self.table_schema.rules), parent=self)

    @property
    def spark_frame(self) -> DataFrame:
        """Spark's own lazy DataFrame over the files."""
        return self.listing.frame

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files, as Spark listed them."""
        return self.listing.uris

    @property
    def schema(self) -> StructType:
        """The columns of the table: declared or inferred, and the partition columns."""
        return self.spark_frame.schema

    @property
    def data_schema(self) -> StructType:
        """The columns of the table without the partition columns."""
        return StructType(
            [field for field in self.spark_frame.schema.fields if field.name not in self._partition_names]
        )

    @property
    def partition_schema(self) -> StructType:
        """The partition columns."""
        return StructType([self.schema[name] for name in self._partition_names])

    @property
    def _partition_names(self) -> tuple[str, ...]:
        return self.listing.partition_columns

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories below which `dir0` counts."""
        if self._parent is not None:
            return self._parent.roots
        files = {location(decode_uri(uri)) for uri in self.uris}
        qualify = HadoopFiles(self._spark).qualify
        return tuple(scan_root(path, is_file=location(path) in files) for path in map(qualify, self.source.paths))

    def _discover_schema(self) -> TableSchema:
        """Merge the schemas of the files."""
        source, rules = self.source, self.table_schema.rules
        try:
            self._check_partition_columns()
            reader = FileSchemaReader(self._spark, source, self.listing, self.loader.infer_schema, rules)
            return discover_schema(reader)
        except UnsupportedError as problem:
            if source.on_missing_column is OnMissingColumn.ERROR:
                raise BadSpecError(
                    f"{source.parameter('on_missing_column')}: 'error' is not possible: {problem}; use 'null'"
                ) from problem
            return TableSchema(rules, notes=(f"the columns of single files are unknown: {problem}",))

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """Resolve the columns of a query. None stands for all. Raises UnknownColumnError and KindMismatchError."""
        context = PathContext(
            self.schema,
            self._name_rule,
            self._origin,
            self.source.implicit_catalog,
            depth=cache(lambda: max_depth(map(decode_uri, self.uris), self.roots)),
            has_unnamed_fields=has_unnamed_fields(self.source),
        )
        return resolve(columns, context)

    def with_unnamed_fields(self, columns: Sequence[str] | None) -> FileRelation:
        """Return a relation with all fields that `columns` needs. Spark takes their number from the first line."""
        if columns is None or not has_unnamed_fields(self.source):
            return self
        paths = [path for path in parse_paths(columns) if not path.is_wildcard and path.head.lower() == FIELDS_COLUMN]
        data = self.data_schema
        if not paths or any(not isinstance(field.dataType, StringType) for field in data.fields):
            return self
        width = required_field_count(self._spark, self.source, self.uris, paths)
        if width <= len(data):
            return self
        schema = StructType([StructField(f"_c{position}", StringType()) for position in range(width)])
        table_schema = TableSchema(self.table_schema.rules, notes=self.table_schema.notes)
        return self._load(FileLoader(self._spark, self.source, schema), table_schema)

    def _origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""
        if self.source.schema is not None:
            return "in the declared schema"
        file = self.table_schema.origin(column) or location(decode_uri(min(self.uris, default="")))
        return f"in {file}"

    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request for a projection and a predicate."""
        predicate = self.without_ambiguous_tree(predicate)
        columns, implicit_columns = set(projection.table_columns), set(projection.implicit_columns)
        if predicate is not None and predicate.tree is None:
            # It may refer to any column.
            columns |= set(self.schema.fieldNames())
        elif predicate is not None and predicate.tree is not None:
            columns |= self.referenced_columns(predicate.tree)
            catalog = self.source.implicit_catalog
            implicit_columns |= set(catalog.references(predicate.tree, self.schema, name_rule=self._name_rule))
        spark_only_reason = None
        try:
            self._check_pushdown(predicate)
        except UnsupportedError as problem:
            spark_only_reason = str(problem)
        read_schema = self._prune_members(columns, projection, predicate)
        if self.source.on_missing_column is OnMissingColumn.ERROR:
            self.table_schema.check_columns(read_schema)
        # If a JSON value does not fit its type, what Spark's parser keeps of the struct depends on all its members.
        keeps_members = self.source.format is SourceFormat.JSON
        return ScanRequest(
            source=self.source,
            load_listing=lambda: self.listing,
            schema=self.data_schema,
            columns=tuple(name for name in self.schema.fieldNames() if name in columns),
            implicit_columns=tuple(sorted(implicit_columns)),
            predicate=predicate,
            fold=cached_fold(self._spark),
            pruned_schema=None if keeps_members else read_schema,
            implicit_values=self.implicit_values() if implicit_columns else None,
            spark_only_reason=spark_only_reason,
            notes=projection.notes,
        )

    def _check_pushdown(self, predicate: Predicate | None) -> None:
        """Raise UnsupportedError if only Spark's reader can scan the files for a predicate."""
        check_predicate(predicate)
        self._check_partition_columns()
        if self.source.max_malformed is not None:
            raise UnsupportedError("max_malformed must parse every line to count malformed lines")

    def _check_partition_columns(self) -> None:
        """Raise UnsupportedError if a column of CSV files is a partition column too."""
        name = self._duplicate_partition_column
        if name is not None:
            raise UnsupportedError(f"the CSV files have column {name}, which is a partition column as well")

    @cached_property
    def _duplicate_partition_column(self) -> str | None:
        """A column of CSV files that is a partition column too. A reader that omits it shifts the columns after it."""
        if self.source.format is not SourceFormat.CSV or not self._partition_names:
            return None
        key = self._name_rule.key
        partitions = set(map(key, self._partition_names))
        return next((name for name in self.listing.data_columns if key(name) in partitions), None)

    def _prune_members(self, columns: set[str], projection: Projection, predicate: Predicate | None) -> StructType:
        """Return the columns to read, without struct members that neither projection nor predicate needs."""
        schema = StructType([field for field in self.data_schema.fields if field.name in columns])
        if not is_enabled(self._spark, "spark.sql.optimizer.nestedSchemaPruning.enabled", default=True):
            return schema
        tree = projection.tree
        if predicate is not None:
            if predicate.tree is None:
                return schema
            tree = tree.merge(required_columns(predicate.tree, self.schema, name_rule=self._name_rule))
        return tree.prune(schema)

    def implicit_values(self) -> ImplicitValues:
        """Return the values of the implicit columns, from Spark's own listing where files are not local."""
        table = self._parent or self
        roots = self.roots
        return ImplicitValues(self.source.implicit_catalog, roots, cache(lambda: _file_metadata(table.listing, roots)))


def has_unnamed_fields(source: Source) -> bool:
    """Return whether the fields of lines have no names: CSV without a header and without a declared schema."""
    has_header = source.options.get("header", "false").lower() == "true"
    return source.format is SourceFormat.CSV and source.schema is None and not has_header


def _check_each_file(loader: FileLoader, rules: MergeRules) -> None:
    """Raise an error that names the file from which Spark cannot infer the schema, if it can be found."""
    if loader.source.schema is not None or loader.source.format not in TYPED_FORMATS:
        return
    with suppress(UnsupportedError):
        listing = loader.load(schema=_ONE_COLUMN)
        reader = FileSchemaReader(loader.spark, loader.source, listing, loader.infer_schema, rules)
        merge_schemas(reader.read(), rules)


def _file_metadata(listing: Listing, roots: Sequence[str]) -> Mapping[str, FileMetadata]:
    """Return the metadata of the files that Spark listed. For objects it comes from the listing.

    Raises OSError if a local file was deleted.
    """

    def of_file(path: str, size: int, modified: int) -> FileMetadata:
        # Hadoop's listings have milliseconds since 1970.
        time = datetime.fromtimestamp(modified // 1000, UTC).replace(microsecond=modified % 1000 * 1000)
        return FileMetadata(location(path), directories(path, root_of(path, roots) or path), size, time)

    local = listing.local_files
    metadata = {location(f.path): of_file(f.path, f.size, f.modified // 1_000_000) for f in local}
    if len(local) < len(listing.uris):
        objects = (entry for entry in listing.entries() if location(entry.path) not in metadata)
        metadata |= {location(entry.path): of_file(entry.path, entry.length, entry.modified) for entry in objects}
    return metadata
