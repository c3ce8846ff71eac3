"""The sources that a job spec declares: files, tables of Spark's catalog, and tables of databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, Self, TypedDict

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from pushdown_spark.contract.message import Message, OptionValue, SparkOptions

REMOTE: Final = "remote"
"""The `format` of a source that is a table of a database."""

TABLE: Final = "table"
"""The `format` of a source that is a table or view of Spark's catalog."""

ONLY_SOURCE = "source"
"""Name of the source in operators with a single source. Errors about it name only the operator's parameter."""


class SourceFormat(StrEnum):
    """Format of a source.

    It is a file format, a table format with its own connector (`iceberg`, `delta`), `table` for a table of Spark's
    catalog, whose format the catalog knows, or `remote` for a table of a database.
    """

    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "text"
    ICEBERG = "iceberg"
    DELTA = "delta"
    TABLE = "table"
    REMOTE = "remote"


CONNECTOR_FORMATS: Final = frozenset({SourceFormat.ICEBERG, SourceFormat.DELTA})
"""Formats of tables that only their own Spark connectors read."""
FORMATS_WITHOUT_FILES: Final = CONNECTOR_FORMATS | {SourceFormat.TABLE, SourceFormat.REMOTE}
"""Formats of sources that only Spark or a database reads. Catalog tables of files have the formats of their files."""


class ReaderChoice(StrEnum):
    """Reader of a source. `auto` chooses by estimated cost."""

    AUTO = "auto"
    SPARK = "spark"
    PUSHDOWN = "pushdown"


class OnSchemaConflict(StrEnum):
    """Action for a column whose types in two files have no common type without loss."""

    ERROR = "error"
    WIDEN = "widen"
    NULL = "null"


class OnMissingColumn(StrEnum):
    """Action for a column that is missing in a file, but is declared or present in another file."""

    NULL = "null"
    ERROR = "error"


class WideNumbers(StrEnum):
    """Action for numbers with more digits than Spark's decimal type allows."""

    ERROR = "error"
    TEXT = "text"


class Transport(StrEnum):
    """Transport of rows from a database: Spark's JDBC source, or Arrow in workers. `auto` takes the faster one."""

    AUTO = "auto"
    ARROW = "arrow"
    JDBC = "jdbc"


class OrcOptions(Message):
    """Options of lazy ORC scans."""

    sarg_to_filter: bool | None = None
    """The setting `orc.sarg.to.filter` of Spark's reader. By default, the planner decides."""
    use_selected: bool = False
    """Whether Spark skips its own evaluation of an exact filter."""
    partial_reads: Annotated[int, Field(ge=0)] | None = None
    """Maximum number of separate reads of select columns in a stripe, after which the rest of the stripe is read at
    once. By default, the gaps between matches decide."""
    min_seek_size: Annotated[int, Field(ge=0)] = 16 << 10
    """Gaps of up to this many bytes are read, not skipped."""


class ReadSpec(Message):
    """The fields that sources of files and tables of the catalog share: options, reader and implicit columns."""

    options: SparkOptions = Field(default_factory=dict)
    """Reader options with Spark's names. A table gets them from `spark.read.options(...).table(...)`, for example
    `versionAsOf` of Delta."""
    reader: ReaderChoice = ReaderChoice.AUTO
    """The reader to use."""
    filter_pushdown: bool = True
    """Whether the reader evaluates the predicate before it builds rows."""
    orc: OrcOptions = OrcOptions()
    """Options of lazy ORC scans."""
    implicit_names: dict[str, str] = Field(default_factory=dict)
    """New names of implicit columns by their original names. The key `dir` is the prefix of all directory columns."""
    implicit_columns: tuple[str, ...] = ()
    """Import paths (`package.module:Class`) of additional implicit columns."""

    @model_validator(mode="after")
    def _check_use_selected(self) -> Self:
        if self.orc.use_selected and self.reader is not ReaderChoice.PUSHDOWN:
            raise ValueError(
                f"use_selected=True needs reader='pushdown', not {self.reader.value!r} (with orc.filter.use.selected, "
                "the ORC reader of Spark 4.3.0 returns no rows)"
            )
        return self


class SourceSpec(ReadSpec):
    """A named source of files: format, paths, parser options and reader."""

    format: SourceFormat
    """The format of the files."""
    path: Annotated[tuple[str, ...], Field(min_length=1)]
    """Files, directories or globs."""
    schema_ddl: Annotated[str | None, Field(alias="schema")] = None
    """The schema as Spark DDL. By default, it is inferred from the files."""
    on_schema_conflict: OnSchemaConflict = OnSchemaConflict.ERROR
    """Action for a column whose types in two files have no common type without loss."""
    on_missing_column: OnMissingColumn = OnMissingColumn.NULL
    """Action for a column that a file lacks."""
    max_malformed: Annotated[int | None, Field(ge=0)] = None
    """The job fails if more lines of JSON or CSV are malformed: if Spark's parser returns no row for the line, or
    returns NULL for a value that is not null."""

    @field_validator("format", mode="before")
    @classmethod
    def _check_format(cls, value: object) -> object:
        formats = [name.value for name in SourceFormat if name not in (SourceFormat.TABLE, SourceFormat.REMOTE)]
        if value == REMOTE:
            raise ValueError("a remote table has no path; declare a remote source with `table` or `query`")
        if value == TABLE:
            raise ValueError("a table of the catalog has no path; declare it with `table` instead of `path`")
        if value not in formats:
            raise ValueError(f"Input should be {', '.join(map(repr, formats[:-1]))} or {formats[-1]!r}")
        return value

    @model_validator(mode="after")
    def _check_connector_fields(self) -> Self:
        """Reject fields about single files for formats whose connectors know the files and their schema."""
        if self.format not in CONNECTOR_FORMATS:
            return self
        if len(self.path) > 1:
            raise ValueError(f"path: format {self.format} reads the table in one directory, not {len(self.path)} paths")
        for name in ("schema_ddl", "on_schema_conflict", "on_missing_column", "implicit_names", "implicit_columns"):
            if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                parameter = "schema" if name == "schema_ddl" else name
                raise ValueError(f"{parameter}: format {self.format} does not have it; leave it out")
        return self

    @model_validator(mode="after")
    def _check_max_malformed(self) -> Self:
        if self.max_malformed is None:
            return self
        if self.format not in (SourceFormat.JSON, SourceFormat.CSV):
            raise ValueError(f"max_malformed: only lines of json and csv can be malformed, not files of {self.format}")
        mode = {key.lower(): value for key, value in self.options.items()}.get("mode", "PERMISSIVE")
        if mode.upper() != "PERMISSIVE":
            raise ValueError(f"max_malformed: needs the option mode=PERMISSIVE, not {mode}")
        return self


class ReaderFields(TypedDict, total=False):
    """Keywords of `PushdownSession` for sources of files and tables: fields of their specs, None for the default."""

    options: Mapping[str, OptionValue] | None
    reader: str | None
    filter_pushdown: bool | None
    orc: Mapping[str, object] | OrcOptions | None
    implicit_names: Mapping[str, str] | None
    implicit_columns: Sequence[str] | None


class FileFields(ReaderFields, total=False):
    """Keywords of `PushdownSession.add_source`: fields of `SourceSpec` that can be left out."""

    schema: str | None
    on_schema_conflict: str | None
    on_missing_column: str | None


class TableSourceSpec(ReadSpec):
    """A named source that is a table or view of Spark's catalog: its name, and reader."""

    format: Literal["table"] = TABLE
    """`table`, which may be left out."""
    table: Annotated[str, Field(min_length=1)]
    """The table as `table`, `database.table` or `catalog.database.table`."""


class RemoteSourceSpec(Message):
    """A named source in a database: a table, or a query in the database's own SQL."""

    format: Literal["remote"] = REMOTE
    """`remote`."""
    table: str | None = None
    """The table. Dots separate the parts of a qualified name, except inside double quotes."""
    query: str | None = None
    """The query instead of a table."""
    filter_pushdown: bool = True
    """Whether the database evaluates the conjuncts that have identical semantics there."""
    partition_column: str | None = None
    """Numeric or date column whose value ranges divide the scan. By default, PostgreSQL tables are divided by pages."""
    num_partitions: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The number of partitions. By default, the planner estimates it."""
    lower_bound: str | None = None
    """Start of the value ranges. By default, it comes from the database's statistics or the smallest value."""
    upper_bound: str | None = None
    """End of the value ranges, like `lower_bound`."""
    consistent: bool = True
    """Whether all partitions read one snapshot. Databases without shared snapshots then use one partition."""
    transport: Transport = Transport.AUTO
    """The transport of the rows. JDBC needs the driver's jar on Spark's class path."""
    fetch_size: Annotated[int, Field(ge=1)] = 10_000
    """Rows that a connection fetches at a time."""
    statement_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which a statement is canceled."""
    wide_numbers: WideNumbers = WideNumbers.ERROR
    """Action for numbers with more than 38 digits."""
    zero_dates_as_null: bool = False
    """Whether MySQL's zero dates become NULL. By default, they are an error."""

    @field_validator("lower_bound", "upper_bound", mode="before")
    @classmethod
    def _as_string(cls, bound: object) -> object:
        """Accept numbers as bounds."""
        return str(bound) if isinstance(bound, int) and not isinstance(bound, bool) else bound

    @field_validator("query")
    @classmethod
    def _without_semicolon(cls, query: str | None) -> str | None:
        """Remove a trailing semicolon, because the query becomes a subquery."""
        return None if query is None else query.strip().rstrip("; \n")

    @model_validator(mode="after")
    def _check_table_and_bounds(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("table: give either a `table` or a `query` in the database's SQL")
        if (self.lower_bound is None) != (self.upper_bound is None):
            raise ValueError("lower_bound: give both `lower_bound` and `upper_bound`, or none")
        if self.lower_bound is not None and self.partition_column is None:
            raise ValueError("partition_column: bounds need the column that they bound")
        return self


class RemoteFields(TypedDict, total=False):
    """Keywords of `PushdownSession.add_remote`: fields of `RemoteSourceSpec`, None for the default."""

    table: str | None
    query: str | None
    filter_pushdown: bool | None
    partition_column: str | None
    num_partitions: int | None
    lower_bound: str | int | None
    upper_bound: str | int | None
    consistent: bool | None
    transport: str | None
    fetch_size: int | None
    statement_timeout: float | None
    wide_numbers: str | None
    zero_dates_as_null: bool | None


def _source_tag(source: object) -> str:
    """Return the tag of a source: `files`, `table` or `remote`. A source with a table and no format is in the catalog.

    >>> _source_tag({"format": "json", "path": ["events"]}), _source_tag({"table": "db.events"})
    ('files', 'table')
    """
    source_format = source.get("format") if isinstance(source, dict) else getattr(source, "format", None)
    if source_format is None and isinstance(source, dict) and "table" in source:
        return TABLE
    return str(source_format) if source_format in (TABLE, REMOTE) else "files"


AnySourceSpec = Annotated[
    Annotated[SourceSpec, Tag("files")]
    | Annotated[TableSourceSpec, Tag(TABLE)]
    | Annotated[RemoteSourceSpec, Tag(REMOTE)],
    Discriminator(_source_tag),
]
"""A source of any kind, discriminated by `format`."""
