"""Discovery of the schema of a table whose files may have different columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import OnMissingColumn, OnSchemaConflict, SourceFormat
from pushdown_spark.errors import SchemaConflictError, UnsupportedError
from pushdown_spark.expressions.session_settings import is_option_on
from pushdown_spark.projection.schema_alignment import SchemaGroup, groups_by_name, groups_by_position, missing_column
from pushdown_spark.projection.schema_merge import FileSchema, MergeRules, merge_schemas
from pushdown_spark.projection.type_widening import INTEGER_TYPES
from pushdown_spark.relations.schemas.csv_schemas import InferSchema
from pushdown_spark.relations.schemas.file_schemas import file_schemas
from pushdown_spark.relations.schemas.json_schemas import strings_as_variants
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.malformed_lines import declared_corrupt_column
from pushdown_spark.sources.stores.listing import Listing

TYPED_FORMATS = frozenset({SourceFormat.ORC, SourceFormat.PARQUET, SourceFormat.AVRO})
"""Formats whose files have the types of their columns."""
_AVRO_SCHEMA_OPTIONS = frozenset(
    {
        "avroschema",
        "avroschemaurl",
        "positionalfieldmatching",
        "recursivefieldmaxdepth",
        "enablestableidentifiersforuniontype",
    }
)
"""Avro options that can give a table other columns than its files."""


@dataclass(frozen=True)
class FileSchemaReader:
    """A reader of the columns of each file of a source.

    `infer_schema` returns the schema that Spark infers for some files.
    """

    spark: SparkSession
    source: Source
    listing: Listing
    infer_schema: InferSchema
    rules: MergeRules

    def read(self, variants: t.StructType | None = None) -> tuple[FileSchema, ...]:
        """Return the columns of each file without partition columns, for JSON files only those in `variants` if given.

        CSV files keep all columns, because their columns go by position. Raises UnsupportedError if the columns of
        single files cannot be determined.
        """
        files = file_schemas(self.spark, self.source, self.listing, self.infer_schema, variants)
        key = self.rules.name_rule.key
        partitions = set(map(key, self.listing.partition_columns))
        if self.source.format is SourceFormat.CSV or not partitions:
            return files

        def data_schema(schema: t.StructType) -> t.StructType:
            return t.StructType([field for field in schema.fields if key(field.name) not in partitions])

        return tuple(replace(file, schema=data_schema(file.schema)) for file in files)


@dataclass(frozen=True)
class TableSchema:
    """The schema of the table that consists of a source's files."""

    rules: MergeRules
    table: t.StructType | None = None
    """The columns without partition columns, or None if Spark's schema is right."""
    groups: tuple[SchemaGroup, ...] = ()
    """The groups of files with equal schemas, or none if all files are read with one schema."""
    files: tuple[FileSchema, ...] = ()
    """The columns of the files, if they were read."""
    notes: tuple[str, ...] = ()
    """Lines for the report."""
    reader: FileSchemaReader | None = None
    """Reads the columns of the files later, if only an error message needs them."""

    def origin(self, column: str) -> str | None:
        """Return a file that has a column, or None if no file has it or the files cannot be read one by one."""
        key = self.rules.name_rule.key(column)
        files = self.files
        if not files and self.reader is not None:
            try:
                files = self.reader.read()
            except UnsupportedError:
                return None
        locations = (file.file for file in files if key in map(self.rules.name_rule.key, file.schema.fieldNames()))
        return min(locations, default=None)

    def check_columns(self, columns: t.StructType) -> None:
        """Raise SchemaConflictError for the first column or struct member that a file lacks."""
        for file in self.files:
            if name := missing_column(file.schema, columns, name_rule=self.rules.name_rule):
                raise SchemaConflictError(
                    f"column {name} is missing in {file.file}; remove the file from `path`, or use "
                    "on_missing_column='null'"
                )


def discover_schema(reader: FileSchemaReader) -> TableSchema:
    """Read the columns of the files if they matter, and merge them.

    Raises SchemaConflictError for types that the source's setting does not merge, and UnsupportedError if the columns
    of single files cannot be determined.
    """
    source, listing, rules = reader.source, reader.listing, reader.rules
    if not _needs_file_schemas(source, listing):
        return TableSchema(rules)
    partitions = set(listing.partition_columns)
    data = t.StructType([field for field in listing.frame.schema.fields if field.name not in partitions])
    if (
        source.format is SourceFormat.JSON
        and source.schema is None
        and source.on_schema_conflict is OnSchemaConflict.ERROR
        and source.on_missing_column is OnMissingColumn.NULL
    ):
        # Spark infers the schema, and only conflicts between the files matter.
        return _check_conflicts(reader, data)
    files = reader.read()
    corrupt = declared_corrupt_column(reader.spark, source.options)
    return _merge(source, files, data, rules, corrupt) if files else TableSchema(rules)


def _needs_file_schemas(source: Source, listing: Listing) -> bool:
    """Return whether the columns of single files matter. Each costs a read of its footer, its header or all of it."""
    if source.format in (SourceFormat.TEXT, SourceFormat.REMOTE) or "singlevariantcolumn" in source.options:
        return False
    if source.on_missing_column is OnMissingColumn.ERROR:
        return True
    has_several_files = len(listing.uris) > 1
    if source.format is SourceFormat.CSV:
        if not is_option_on(source.options, "enforceschema", default=True):
            return False
        return has_several_files if source.schema is None else is_option_on(source.options, "header")
    if source.format is SourceFormat.JSON:
        return has_several_files and source.schema is None and source.on_schema_conflict is not OnSchemaConflict.WIDEN
    if source.schema is None:
        return has_several_files and _AVRO_SCHEMA_OPTIONS.isdisjoint(source.options)
    return source.on_schema_conflict is not OnSchemaConflict.ERROR


def _check_conflicts(reader: FileSchemaReader, data: t.StructType) -> TableSchema:
    """Check that JSON files have no conflicting types. Raises SchemaConflictError.

    Spark's inference turns conflicting types into strings, so only the columns with strings are read once more.
    """
    variants = strings_as_variants(data, declared_corrupt_column(reader.spark, reader.source.options))
    if not variants.fields:
        return TableSchema(reader.rules, reader=reader)
    merge_schemas(reader.read(variants), reader.rules)
    note = "no schema is declared, so the strings of all files were read once more to compare the types of the files"
    return TableSchema(reader.rules, reader=reader, notes=(note,))


def _merge(
    source: Source, files: tuple[FileSchema, ...], data: t.StructType, rules: MergeRules, corrupt: str
) -> TableSchema:
    is_declared = source.schema is not None
    if source.format is SourceFormat.JSON:
        table_schema = _merge_json(
            _with_corrupt_column(files, data, rules, corrupt), data, rules, is_declared=is_declared
        )
        note = "all records were read once more, to determine the columns of each file"
        return replace(table_schema, notes=(*table_schema.notes, note))
    if source.format is SourceFormat.CSV and is_declared:
        return _merge_declared_csv(files, data, rules, corrupt)
    if source.format is SourceFormat.CSV:
        table = merge_schemas(files, rules)
        return _with_groups(files, table, groups_by_position(files, table, rules), rules)
    table = data if is_declared else merge_schemas(files, rules)
    if [(field.name, field.dataType) for field in table] == [(field.name, field.dataType) for field in data]:
        # The metadata of Spark's schema has more, such as the lengths of strings.
        table = data
    return _with_groups(files, table, groups_by_name(files, table, rules, _widens_integers), rules)


def _merge_json(
    files: tuple[FileSchema, ...], data: t.StructType, rules: MergeRules, *, is_declared: bool
) -> TableSchema:
    """Merge the schemas of JSON files. Spark's inference has merged the types if the settings accept its result."""
    if is_declared or rules.on_conflict is OnSchemaConflict.WIDEN:
        return TableSchema(rules, files=files)
    files = tuple(replace(file, schema=_with_inferred_types(file.schema, data, rules)) for file in files)
    table_of_files = merge_schemas(files, rules)
    if rules.on_conflict is OnSchemaConflict.ERROR:
        return TableSchema(rules, files=files)
    key = rules.name_rule.key
    keys = set(map(key, table_of_files.fieldNames()))
    # Spark's inference adds a column for corrupt records.
    table = t.StructType([*table_of_files.fields, *(field for field in data.fields if key(field.name) not in keys)])
    # Text is parsed as any type.
    return _with_groups(files, table, groups_by_name(files, table, rules, lambda *_: True), rules)


def _with_inferred_types(file: t.StructType, table: t.StructType, rules: MergeRules) -> t.StructType:
    """Return a schema with the types that Spark inferred for all files, except strings: they may be conflicts."""
    key = rules.name_rule.key
    type_by_key = {key(field.name): field.dataType for field in table.fields}

    def merged_type(own: t.DataType, spark: t.DataType | None) -> t.DataType:
        match own, spark:
            case t.StructType(), t.StructType():
                return _with_inferred_types(own, spark, rules)
            case t.ArrayType(), t.ArrayType():
                return t.ArrayType(merged_type(own.elementType, spark.elementType), True)
            case _, t.AtomicType() if not isinstance(spark, t.StringType) and not isinstance(own, t.NullType):
                return spark
        return own

    return t.StructType(
        [t.StructField(f.name, merged_type(f.dataType, type_by_key.get(key(f.name)))) for f in file.fields]
    )


def _merge_declared_csv(
    files: tuple[FileSchema, ...], table: t.StructType, rules: MergeRules, corrupt: str
) -> TableSchema:
    """Match columns by the names in headers; by position, as Spark does, if no header has a name of the schema."""
    key = rules.name_rule.key
    names = set(map(key, table.fieldNames()))
    if not any(names.intersection(map(key, file.schema.fieldNames())) for file in files):
        note = "no header has a name of the declared schema, so columns are matched by position"
        return TableSchema(rules, notes=(note,))
    files = _with_corrupt_column(files, table, rules, corrupt)
    return _with_groups(files, table, groups_by_position(files, table, rules), rules)


def _with_corrupt_column(
    files: tuple[FileSchema, ...], table: t.StructType, rules: MergeRules, corrupt: str
) -> tuple[FileSchema, ...]:
    """Return the schemas with the table's column of malformed lines, if it has one. Spark adds it to every file."""
    column = next((field for field in table.fields if field.name == corrupt), None)
    if column is None:
        return files
    key = rules.name_rule.key

    def with_column(schema: t.StructType) -> t.StructType:
        return schema if key(corrupt) in map(key, schema.fieldNames()) else t.StructType([*schema.fields, column])

    # Many files share one schema object.
    schemas = {id(file.schema): with_column(file.schema) for file in files}
    return tuple(replace(file, schema=schemas[id(file.schema)]) for file in files)


def _with_groups(
    files: tuple[FileSchema, ...], table: t.StructType, groups: tuple[SchemaGroup, ...], rules: MergeRules
) -> TableSchema:
    if len(groups) == 1 and groups[0].schema == table:
        return TableSchema(rules, table, files=files)
    different = sum(len(group.files) for group in groups if group.schema != table)
    note = f"{different} of {len(files)} files have other columns or types than the table and are read separately"
    return TableSchema(rules, table, groups, files=files, notes=(note,))


def _widens_integers(file: t.DataType, table: t.DataType) -> bool:
    """Return whether the readers of ORC, Parquet and Avro convert the type: all of them widen integers."""
    return file == table or (isinstance(file, INTEGER_TYPES) and isinstance(table, INTEGER_TYPES))
