"""Decides how the files of a source make one table, where they do not all have the same columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import OnMissingColumn, OnSchemaConflict, SourceFormat
from pushdown_spark.errors import BadSpecError, SchemaConflictError
from pushdown_spark.formats.columnar import conf
from pushdown_spark.projection.alignment import Part, missing, parts, parts_by_position
from pushdown_spark.projection.evolution import FileSchema, Rules, unified
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.file_schemas import file_schemas
from pushdown_spark.relations.json_schemas import NoSchemasError, texts_of
from pushdown_spark.relations.listing import partition_columns

_TYPED = frozenset({SourceFormat.ORC, SourceFormat.PARQUET, SourceFormat.AVRO})
"""Formats whose files say the types of their columns."""
_OTHER_SCHEMAS = frozenset(
    {
        "avroschema",
        "avroschemaurl",
        "positionalfieldmatching",
        "recursivefieldmaxdepth",
        "enablestableidentifiersforuniontype",
    }
)
"""Options of Avro sources by which a table's columns are not simply those of its files."""
CORRUPT = "_corrupt_record"
"""What Spark calls the column of corrupt records where nobody says otherwise."""
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


class Look(Protocol):
    """Gives the columns of each file; of JSON files those of `texts` alone where these are given."""

    def __call__(self, texts: t.StructType | None = None) -> tuple[FileSchema, ...]:
        """Raises NoSchemasError where they cannot be told."""


@dataclass(frozen=True)
class MergedSchema:
    """The table that a source's files make.

    `table` are its columns without those of directories, None where they are as Spark has them. `parts` are the files
    that are read each with a schema of their own, none where one schema does for all. `files` are the files' own
    columns, where they were looked at; `look` does so where only an error's words need it. `notes` are remarks for the
    report.
    """

    rules: Rules
    table: t.StructType | None = None
    parts: tuple[Part, ...] = ()
    files: tuple[FileSchema, ...] = ()
    notes: tuple[str, ...] = ()
    look: Look | None = None

    def origin(self, column: str) -> str | None:
        """A file that has a column, None where no file was looked at or has it."""
        key = self.rules.key(column)
        files = self.files or self._looked_at()
        having = (file.file for file in files if any(self.rules.key(name) == key for name in file.schema.fieldNames()))
        return min(having, default=None)

    def _looked_at(self) -> tuple[FileSchema, ...]:
        try:
            return () if self.look is None else self.look()
        except NoSchemasError:
            return ()

    def require(self, wanted: t.StructType) -> None:
        """Raises SchemaConflictError for the first wanted column that a file lacks."""
        for file in self.files:
            if lacking := missing(file.schema, wanted, self.rules):
                raise SchemaConflictError(
                    f"column {lacking} is missing in {file.file}; leave the file out of `path`, or give "
                    "on_missing_column='null'"
                )


def merge_schemas(
    spark: SparkSession,
    source: Source,
    native: DataFrame,
    uris: Callable[[], Sequence[str]],
    load: Callable[[Sequence[str]], DataFrame],
    *,
    case_sensitive: bool,
) -> MergedSchema:
    """Look at the files' columns where that can matter, and bring them together.

    Raises SchemaConflictError where they contradict each other and the source does not say what then, and BadSpecError
    where missing columns are to be errors but nobody can tell which are missing.
    """
    guessed = source.format not in _TYPED
    rules = Rules(source.on_schema_conflict, case_sensitive, guessed=guessed)
    if not _asks(source, uris):
        return MergedSchema(rules)
    inside = set(partition_columns(native))
    data = t.StructType([field for field in native.schema.fields if field.name not in inside])
    look = partial(_looked, partial(file_schemas, spark, source, native, load), source.format, inside, rules)
    try:
        if _only_compared(source):
            return _compared(source, data, conf(spark, "spark.sql.columnNameOfCorruptRecord", CORRUPT), rules, look)
        files = look()
    except NoSchemasError as problem:
        if source.on_missing_column is OnMissingColumn.ERROR:
            raise BadSpecError(
                f"{source.parameter('on_missing_column')}: 'error' cannot be kept: {problem}; give 'null'"
            ) from problem
        return MergedSchema(rules, notes=(f"the columns of single files are not known: {problem}",))
    if not files:
        return MergedSchema(rules)
    return _evolved(source, files, data, rules)


def _asks(source: Source, uris: Callable[[], Sequence[str]]) -> bool:
    """Whether the columns of single files matter: a look at each costs a read of its footer, header or all of it."""
    if source.format in (SourceFormat.TEXT, SourceFormat.REMOTE):
        return False
    if source.on_missing_column is OnMissingColumn.ERROR:
        return True
    several = len(uris()) > 1
    if source.format is SourceFormat.CSV:
        if source.options.get("enforceschema", "true").lower() != "true":
            return False
        return several if source.schema is None else source.options.get("header", "false").lower() == "true"
    if source.format is SourceFormat.JSON:
        return several and source.schema is None and source.on_schema_conflict is not OnSchemaConflict.WIDEN
    if source.schema is None:
        return several and _OTHER_SCHEMAS.isdisjoint(source.options)
    return source.on_schema_conflict is not OnSchemaConflict.ERROR


def _only_compared(source: Source) -> bool:
    """Whether nobody asks for more than that the files do not contradict each other, whose types Spark infers."""
    compares = source.on_schema_conflict is OnSchemaConflict.ERROR and source.on_missing_column is OnMissingColumn.NULL
    return source.format is SourceFormat.JSON and source.schema is None and compares


def _compared(source: Source, data: t.StructType, corrupt: str, rules: Rules, look: Look) -> MergedSchema:
    """JSON files whose types Spark's inference has brought together, which makes text of what does not fit.

    So only texts are looked at once more, and nothing where there are none. Raises SchemaConflictError.
    """
    texts = texts_of(data, source.options.get("columnnameofcorruptrecord", corrupt))
    if not texts.fields:
        return MergedSchema(rules, look=look)
    unified(look(texts), rules)
    note = "no schema is declared, so the texts of all files were read once more to see whether their types agree"
    return MergedSchema(rules, look=look, notes=(note,))


def _looked(
    look: Look, source_format: SourceFormat, inside: AbstractSet[str], rules: Rules, texts: t.StructType | None = None
) -> tuple[FileSchema, ...]:
    """The columns of each file without those that its directories tell better: all that Spark reads of the file.

    Not of CSV files, whose columns go by their places.
    """
    files = look(texts)
    if source_format is SourceFormat.CSV or not inside:
        return files
    told = {rules.key(name) for name in inside}

    def others(schema: t.StructType) -> t.StructType:
        return t.StructType([field for field in schema.fields if rules.key(field.name) not in told])

    return tuple(replace(file, schema=others(file.schema)) for file in files)


def _evolved(source: Source, files: tuple[FileSchema, ...], data: t.StructType, rules: Rules) -> MergedSchema:
    declared = source.schema is not None
    if source.format is SourceFormat.JSON:
        found = _evolved_json(files, data, rules, declared=declared)
        return replace(found, notes=(*found.notes, "all records were read once more, to know the columns of each file"))
    if source.format is SourceFormat.CSV:
        return _evolved_csv(files, data if declared else unified(files, rules), rules, declared=declared)
    table = data if declared else _spelled(unified(files, rules), data)
    return _read_apart(files, table, parts(files, table, rules, _widens), rules)


def _evolved_json(files: tuple[FileSchema, ...], data: t.StructType, rules: Rules, *, declared: bool) -> MergedSchema:
    """Spark's inference brings types together by itself, once it is clear that nobody objects."""
    if declared or rules.on_conflict is OnSchemaConflict.WIDEN:
        return MergedSchema(rules, files=files)
    files = tuple(replace(file, schema=_as_inferred(file.schema, data, rules)) for file in files)
    found = unified(files, rules)
    if rules.on_conflict is OnSchemaConflict.ERROR:
        return MergedSchema(rules, files=files)
    held = {rules.key(name) for name in found.fieldNames()}
    # Spark's inference adds a column for the text of corrupt records.
    table = t.StructType([*found.fields, *(field for field in data.fields if rules.key(field.name) not in held)])
    return _read_apart(files, table, parts(files, table, rules, _as_text), rules)


def _as_inferred(file: t.StructType, table: t.StructType, rules: Rules) -> t.StructType:
    """A file's types as Spark has inferred them for all files, but where these are texts: a conflict ends as text."""
    known = {rules.key(field.name): field.dataType for field in table.fields}

    def kind(own: t.DataType, spark: t.DataType | None) -> t.DataType:
        match own, spark:
            case t.StructType(), t.StructType():
                return _as_inferred(own, spark, rules)
            case t.ArrayType(), t.ArrayType():
                return t.ArrayType(kind(own.elementType, spark.elementType), True)
            case _, t.AtomicType() if not isinstance(spark, t.StringType) and not isinstance(own, t.NullType):
                return spark
        return own

    return t.StructType([t.StructField(f.name, kind(f.dataType, known.get(rules.key(f.name)))) for f in file.fields])


def _evolved_csv(files: tuple[FileSchema, ...], table: t.StructType, rules: Rules, *, declared: bool) -> MergedSchema:
    """By the names of headers; a declared schema none of whose names is in a header goes by position, as in Spark."""
    names = {rules.key(name) for name in table.fieldNames()}
    if declared and not any(names & {rules.key(name) for name in file.schema.fieldNames()} for file in files):
        note = "no header has a name of the declared schema, so columns are taken by position"
        return MergedSchema(rules, files=(), notes=(note,))
    return _read_apart(files, table, parts_by_position(files, table, rules), rules)


def _read_apart(
    files: tuple[FileSchema, ...], table: t.StructType, found: tuple[Part, ...], rules: Rules
) -> MergedSchema:
    if len(found) == 1 and found[0].schema == table:
        return MergedSchema(rules, table, files=files)
    others = sum(len(part.files) for part in found if part.schema != table)
    note = f"{others} of {len(files)} files have other columns or types than the table and are read apart"
    return MergedSchema(rules, table, found, files, (note,))


def _spelled(table: t.StructType, data: t.StructType) -> t.StructType:
    """The table as Spark has it already, where that is the same: it knows more than types (lengths, for instance)."""
    same = [(f.name, f.dataType) for f in table.fields] == [(f.name, f.dataType) for f in data.fields]
    return data if same else table


def _widens(file: t.DataType, table: t.DataType) -> bool:
    """All readers of ORC and Parquet files widen whole numbers; of Avro files they are cast just as well."""
    return file == table or (isinstance(file, _WHOLE) and isinstance(table, _WHOLE))


def _as_text(file: t.DataType, table: t.DataType) -> bool:
    """Text is read in any type."""
    return True
