"""The sources that a job spec declares: files, tables of Spark's catalog, and tables of databases."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from pushdown_spark.contract.message import Message

REMOTE: Final = "remote"
"""The `format` of a source that is a table of a database."""

TABLE: Final = "table"
"""The `format` of a source that is a table or view of Spark's catalog."""

ONLY_SOURCE = "source"
"""Name of the source in operators with a single source. Errors about it name only the operator's parameter."""


class SourceFormat(StrEnum):
    """Format of a source.

    It is a file format, a table format with a connector of its own (`iceberg`, `delta`), `table` for a table of Spark's
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
"""Formats of sources whose files our readers do not know. The catalog's tables of files have the formats of files."""


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
    """Action for a column that the schema or another file has and a file lacks."""

    NULL = "null"
    ERROR = "error"


class WideNumbers(StrEnum):
    """Action for numbers with more digits than Spark's decimal type allows."""

    ERROR = "error"
    TEXT = "text"


class Transport(StrEnum):
    """Transport of rows from a database: Spark's JDBC source, or Arrow in Python workers. `auto` takes the faster."""

    AUTO = "auto"
    ARROW = "arrow"
    JDBC = "jdbc"


class OrcOptions(Message):
    """Options of lazy ORC scans.

    `sarg_to_filter` sets `orc.sarg.to.filter` of Spark's reader; with None the planner sets it. `use_selected` skips
    the second evaluation of an exact filter by Spark. `partial_reads` limits the separate reads of select columns in a
    stripe, after which the rest of the stripe is read at once; with None the gaps decide. A gap of up to
    `min_seek_size` bytes is read, not skipped.
    """

    sarg_to_filter: bool | None = None
    use_selected: bool = False
    partial_reads: Annotated[int, Field(ge=0)] | None = None
    min_seek_size: Annotated[int, Field(ge=0)] = 16 << 10


class SourceSpec(Message):
    """A named source of files: format, paths, parser options and reader.

    With `max_malformed`, the scan counts malformed lines of JSON and CSV files, and the job fails if there are more. A
    line is malformed if Spark's parser returns no row for it, or returns NULL for a value that is not null.
    `implicit_names` renames implicit columns; the key `dir` is the prefix of all directory columns. `implicit_columns`
    are import paths (`package.module:Class`) of additional implicit columns.
    """

    format: SourceFormat
    path: Annotated[tuple[str, ...], Field(min_length=1)]
    schema_ddl: Annotated[str | None, Field(alias="schema")] = None
    options: dict[str, str] = Field(default_factory=dict)
    reader: ReaderChoice = ReaderChoice.AUTO
    filter_pushdown: bool = True
    orc: OrcOptions = OrcOptions()
    on_schema_conflict: OnSchemaConflict = OnSchemaConflict.ERROR
    on_missing_column: OnMissingColumn = OnMissingColumn.NULL
    max_malformed: Annotated[int | None, Field(ge=0)] = None
    implicit_names: dict[str, str] = Field(default_factory=dict)
    implicit_columns: tuple[str, ...] = ()

    @field_validator("format", mode="before")
    @classmethod
    def _is_file_format(cls, given: object) -> object:
        known = [name.value for name in SourceFormat if name not in (SourceFormat.TABLE, SourceFormat.REMOTE)]
        if given == REMOTE:
            raise ValueError("a remote table has no path; declare a remote source with `table` or `query`")
        if given == TABLE:
            raise ValueError("a table of the catalog has no path; declare it with `table` instead of `path`")
        if given not in known:
            raise ValueError(f"Input should be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")
        return given

    @model_validator(mode="after")
    def _suits_connector(self) -> Self:
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
    def _has_lines_to_count(self) -> Self:
        if self.max_malformed is None:
            return self
        if self.format not in (SourceFormat.JSON, SourceFormat.CSV):
            raise ValueError(f"max_malformed: only lines of json and csv can be malformed, not files of {self.format}")
        mode = {key.lower(): value for key, value in self.options.items()}.get("mode", "PERMISSIVE")
        if mode.upper() != "PERMISSIVE":
            raise ValueError(f"max_malformed: needs the option mode=PERMISSIVE, not {mode}")
        return self


class TableSourceSpec(Message):
    """A named source that is a table or view of Spark's catalog: its name, and reader.

    `table` has the parts that Spark accepts (`table`, `database.table`, `catalog.database.table`). `options` are those
    of `spark.read.options(...).table(...)`, for example `versionAsOf` of Delta. The other fields are as in
    `SourceSpec`.
    """

    format: Literal["table"] = TABLE
    table: Annotated[str, Field(min_length=1)]
    options: dict[str, str] = Field(default_factory=dict)
    reader: ReaderChoice = ReaderChoice.AUTO
    filter_pushdown: bool = True
    orc: OrcOptions = OrcOptions()
    implicit_names: dict[str, str] = Field(default_factory=dict)
    implicit_columns: tuple[str, ...] = ()


class RemoteSourceSpec(Message):
    """A named source in a database: a table, or a query in the database's own SQL.

    `table` may be qualified: dots separate the parts, except inside double quotes. `partition_column` is a numeric or
    date column whose values, between the bounds or else by its statistics, divide the scan into `num_partitions`
    ranges. Without it, PostgreSQL tables are divided by pages. Without `num_partitions`, the planner estimates the
    number. With `consistent`, all partitions read one snapshot; databases without shared snapshots then use one
    partition. The JDBC transport needs the driver's jar on Spark's class path. `fetch_size` is in rows,
    `statement_timeout` in seconds. With `zero_dates_as_null`, MySQL's zero dates become NULL; otherwise they are an
    error.
    """

    format: Literal["remote"] = REMOTE
    table: str | None = None
    query: str | None = None
    filter_pushdown: bool = True
    partition_column: str | None = None
    num_partitions: Annotated[int, Field(ge=1, le=1000)] | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    consistent: bool = True
    transport: Transport = Transport.AUTO
    fetch_size: Annotated[int, Field(ge=1)] = 10_000
    statement_timeout: Annotated[float, Field(gt=0)] | None = None
    wide_numbers: WideNumbers = WideNumbers.ERROR
    zero_dates_as_null: bool = False

    @field_validator("lower_bound", "upper_bound", mode="before")
    @classmethod
    def _to_string(cls, bound: object) -> object:
        """Accept numbers as bounds."""
        return str(bound) if isinstance(bound, int) and not isinstance(bound, bool) else bound

    @field_validator("query")
    @classmethod
    def _without_semicolon(cls, query: str | None) -> str | None:
        """Remove a trailing semicolon, because the query becomes a subquery."""
        return None if query is None else query.strip().rstrip("; \n")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("table: give either a `table` or a `query` in the database's SQL")
        if (self.lower_bound is None) != (self.upper_bound is None):
            raise ValueError("lower_bound: give both `lower_bound` and `upper_bound`, or none")
        if self.lower_bound is not None and self.partition_column is None:
            raise ValueError("partition_column: bounds need the column that they bound")
        return self


def _source_tag(source: object) -> str:
    """Return the tag of a source: `files`, `table` or `remote`. A source with a table and no format is in the catalog.

    >>> _source_tag({"format": "json", "path": ["events"]}), _source_tag({"table": "db.events"})
    ('files', 'table')
    """
    given = source.get("format") if isinstance(source, dict) else getattr(source, "format", None)
    if given is None and isinstance(source, dict) and "table" in source:
        return TABLE
    return str(given) if given in (TABLE, REMOTE) else "files"


AnySourceSpec = Annotated[
    Annotated[SourceSpec, Tag("files")]
    | Annotated[TableSourceSpec, Tag(TABLE)]
    | Annotated[RemoteSourceSpec, Tag(REMOTE)],
    Discriminator(_source_tag),
]
"""A source of any kind, discriminated by `format`."""
