"""The contract between the two sides: what a job is asked (`JobSpec`) and what it answers (`JobResult`).

This module imports neither Airflow nor Spark. The Airflow side writes a `JobSpec` as JSON, `spark_jobs.run` reads it,
does the work and writes a `JobResult` as JSON, on success and on failure alike. The shape of the exchange (a small,
versioned spec in, a small, versioned result out, errors as data) follows dagster-pipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from spark_jobs.codes import ErrorCode as ErrorCode  # part of the contract, defined apart
from spark_jobs.join_spec import JoinOptions as JoinOptions  # part of the contract, defined apart
from spark_jobs.join_spec import JoinReport as JoinReport
from spark_jobs.message import Message as _Message
from spark_jobs.remote_spec import REMOTE, RemoteConnection
from spark_jobs.remote_spec import RemoteSourceSpec as RemoteSourceSpec  # part of the contract, defined apart

ONLY_SOURCE = "source"
"""Name of the source of operators that have one: its errors name the operator's parameters alone."""
LONGEST_CONJUNCT = 1_000
"""Characters of a conjunct that a report shows."""
CONTRACT_VERSION = 1
"""Raised whenever a spec or result of the old shape can no longer be read."""
MOST_PARTITIONS = 100
"""Partitions that a result lists."""
_DERIVED = frozenset({"pushed", "residual"})


class SourceFormat(StrEnum):
    """File formats a source may have, and what stands in their place where a source is a remote table."""

    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "text"
    REMOTE = "remote"


class ReaderChoice(StrEnum):
    """Which reader a source is read with."""

    AUTO = "auto"
    SPARK = "spark"
    PUSHDOWN = "pushdown"


class OnSchemaConflict(StrEnum):
    """What becomes of a column of which two files hold types that no type holds without loss."""

    ERROR = "error"
    WIDEN = "widen"
    NULL = "null"


class OnMissingColumn(StrEnum):
    """What becomes of a column in a file that lacks it, though the schema or another file has it."""

    NULL = "null"
    ERROR = "error"


class OutputFormat(StrEnum):
    """Formats that are plain files and nothing else, so that a directory of them can be staged and moved into place.

    A format with a log of its own (Delta, Iceberg, Hudi) or without a directory (JDBC) would lose data that way.
    """

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"
    JSON = "json"
    CSV = "csv"
    TEXT = "text"
    XML = "xml"


class OutputMode(StrEnum):
    """What happens when the output exists already; names and meanings are Spark's.

    `overwrite` replaces the whole output, `overwrite_partitions` only the partitions that the run produces.
    """

    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    APPEND = "append"
    IGNORE = "ignore"
    ERROR_IF_EXISTS = "errorifexists"


class Exactness(StrEnum):
    """How much of a conjunct a source takes over from Spark."""

    EXACT = "exact"
    INEXACT = "inexact"
    UNSUPPORTED = "unsupported"


class OrcOptions(_Message):
    """How an ORC source is read lazily.

    `sarg_to_filter` drives Spark's reader with or without `orc.sarg.to.filter`, None leaves it to the choice of reader.
    `use_selected` takes the rows that our filter selects for the result where it is exact, without filtering again.
    `partial_reads` is how many separate reads of select columns a stripe may have before one read to its end, None to
    choose by the gaps; gaps of up to `min_seek_size` bytes are read rather than skipped.
    """

    sarg_to_filter: bool | None = None
    use_selected: bool = False
    partial_reads: Annotated[int, Field(ge=0)] | None = None
    min_seek_size: Annotated[int, Field(ge=0)] = 16 << 10


class SourceSpec(_Message):
    """One named source: files of one format, how to parse them and which reader to use.

    `max_malformed` has the malformed lines of JSON and CSV files counted, and fails a job that meets more. A line is
    malformed if Spark's parser cannot make a row of it, or makes NULL of one of its values.
    `implicit_names` gives other names to implicit columns (`dir` stands for the prefix of all directories);
    `implicit_columns` are import paths `package.module:Class` of further ones.
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
    def _of_files(cls, given: object) -> object:
        known = [name.value for name in SourceFormat if name is not SourceFormat.REMOTE]
        if given == REMOTE:
            raise ValueError("a remote table has no path; declare it as a remote source, with a `table` or a `query`")
        if given not in known:
            raise ValueError(f"Input should be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")
        return given

    @model_validator(mode="after")
    def _counts_lines(self) -> Self:
        if self.max_malformed is None:
            return self
        if self.format not in (SourceFormat.JSON, SourceFormat.CSV):
            raise ValueError(f"max_malformed: only lines of json and csv can be malformed, not files of {self.format}")
        mode = {key.lower(): value for key, value in self.options.items()}.get("mode", "PERMISSIVE")
        if mode.upper() != "PERMISSIVE":
            raise ValueError(f"max_malformed: needs the option mode=PERMISSIVE, not {mode}")
        return self


def _place(source: object) -> str:
    """Whether a source is files or a remote table."""
    given = source.get("format") if isinstance(source, dict) else getattr(source, "format", None)
    return "remote" if given == REMOTE else "files"


AnySourceSpec = Annotated[
    Annotated[SourceSpec, Tag("files")] | Annotated[RemoteSourceSpec, Tag("remote")], Discriminator(_place)
]
"""A source of any kind; the `format` tells which."""


class QuerySpec(_Message):
    """What is asked of the sources: SQL text over them, or columns, predicate and limit over one of them.

    `joins` says how the joins of the SQL text may be changed.
    """

    sql: str | None = None
    source: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: Annotated[int, Field(ge=0)] | None = None
    joins: JoinOptions = JoinOptions()

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        short_form = (self.source, self.columns, self.where, self.limit)
        if self.sql is not None and any(part is not None for part in short_form):
            raise ValueError("query: give either `sql` or `source` with `columns`, `where` and `limit`, not both")
        if self.sql is None and self.source is None:
            raise ValueError("query: give `sql`, or the name of a `source`")
        return self


class OutputChecks(_Message):
    """What must hold for the staged rows before they are committed.

    `not_null` and the elements of `unique` name columns. An element of `unique` is one column or several that are a key
    together; as in SQL, rows with a NULL in the key repeat nothing.
    """

    min_rows: Annotated[int | None, Field(ge=0)] = None
    max_rows: Annotated[int | None, Field(ge=0)] = None
    not_null: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()

    @field_validator("unique", mode="before")
    @classmethod
    def _keys(cls, given: object) -> object:
        if not isinstance(given, list | tuple):
            return given
        return tuple((key,) if isinstance(key, str) else key for key in given)

    def __bool__(self) -> bool:
        """Whether anything is to be checked."""
        return self != OutputChecks()


class OutputSpec(_Message):
    """Where the rows go. Writing is all or nothing."""

    path: str
    format: OutputFormat = OutputFormat.PARQUET
    mode: OutputMode = OutputMode.ERROR_IF_EXISTS
    options: dict[str, str] = Field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    checks: OutputChecks = OutputChecks()

    @model_validator(mode="after")
    def _has_partitions(self) -> Self:
        if self.mode is OutputMode.OVERWRITE_PARTITIONS and not self.partition_by:
            raise ValueError("overwrite_partitions needs partition_by, the columns whose partitions it replaces")
        return self

    @field_validator("format", mode="before")
    @classmethod
    def _plain_files(cls, given: object) -> object:
        name = given.lower() if isinstance(given, str) else given
        if name not in set(OutputFormat):
            raise ValueError(
                f"only plain files can be written without a risk to existing data: {', '.join(OutputFormat)}; "
                "tables of databases and of formats with a log of their own (Delta, Iceberg, Hudi) are not supported"
            )
        return name


class JobSpec(_Message):
    """One job: named sources, one query over them, one output, and where the result goes.

    `run_key` names the logical run (same for every retry), so that a retried append replaces what an earlier try left.
    `conf` is set on the session at run time (`spark.sql.*` switches mapped from operator parameters).
    `secrets_path` points at a file of mode 0600 that the job reads once and deletes; its values never enter the spec.
    """

    version: int = CONTRACT_VERSION
    run_key: str
    sources: Annotated[dict[str, AnySourceSpec], Field(min_length=1)]
    query: QuerySpec
    output: OutputSpec | None = None
    conf: dict[str, str] = Field(default_factory=dict)
    result_path: str | None = None
    secrets_path: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.version != CONTRACT_VERSION:
            raise ValueError(f"version: this job reads spec version {CONTRACT_VERSION}, the spec has {self.version}")
        if self.query.source is not None and self.query.source not in self.sources:
            raise ValueError(f"query.source: no source is named {self.query.source!r}")
        return self


class SecretValues(_Message):
    """Content of the secrets file, for the driver process alone.

    `hadoop` are Hadoop configuration entries (credentials), `remote` how to reach the databases of remote sources, by
    the sources' names.
    """

    hadoop: dict[str, str] = Field(default_factory=dict)
    remote: dict[str, RemoteConnection] = Field(default_factory=dict)


class ConjunctReport(_Message):
    """What became of one conjunct of the predicate."""

    sql: str
    exactness: Exactness
    pushed_as: str | None = None
    reason: str | None = None

    @field_validator("sql")
    @classmethod
    def _short(cls, sql: str) -> str:
        """Lists of thousands of values have no place in a report."""
        return sql if len(sql) <= LONGEST_CONJUNCT else f"{sql[: LONGEST_CONJUNCT - 3]}..."


class FileReport(_Message):
    """What was read of one file: bytes as stored, rows that were parsed or decoded, and what became of its units."""

    path: str
    bytes_read: int
    rows_decoded: int
    units: dict[str, dict[str, int]] = Field(default_factory=dict)


class SourceReport(_Message):
    """What happened at one source. Counts come from the executors; None where the reader cannot know.

    Units: bytes as stored (compressed files: compressed bytes), rows, files. `bytes_searched` counts bytes that were
    searched for a byte pattern, after decompression. `skipped` counts units never read, by kind (files, bytes).
    `units` tells what became of a format's own units (stripes, row groups), by kind and fate; `bytes_by_purpose` splits
    up `bytes_read`. `files` are those that most was read of, at most `MOST_FILES`. `statements` are what a database was
    asked, without credentials. `malformed_lines` is None where they were not counted.
    """

    reader: str
    reason: str
    conjuncts: tuple[ConjunctReport, ...] = ()
    columns: tuple[str, ...] = ()
    files_total: int = 0
    files_read: int | None = None
    bytes_total: int = 0
    bytes_read: int | None = None
    bytes_searched: int | None = None
    rows_decoded: int | None = None
    rows_returned: int | None = None
    malformed_lines: int | None = None
    skipped: dict[str, int] = Field(default_factory=dict)
    units: dict[str, dict[str, int]] = Field(default_factory=dict)
    bytes_by_purpose: dict[str, int] = Field(default_factory=dict)
    files: tuple[FileReport, ...] = ()
    statements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_size(self) -> bool:
        """Whether `bytes_total` is known: databases may not tell the size of a table, which is then 0."""
        return bool(self.bytes_total or self.files_total)

    @property
    def pushed(self) -> tuple[str, ...]:
        """Conjuncts that the source takes over, wholly or in part, as SQL."""
        return tuple(c.sql for c in self.conjuncts if c.exactness is not Exactness.UNSUPPORTED)

    @property
    def residual(self) -> tuple[str, ...]:
        """Conjuncts that Spark evaluates (again), as SQL."""
        return tuple(c.sql for c in self.conjuncts if c.exactness is not Exactness.EXACT)


class JobError(_Message):
    """A failure as data: one line that says what to do, then the details."""

    code: ErrorCode
    message: str
    retryable: bool
    error_class: str | None = None
    traceback: str | None = None


class CheckReport(_Message):
    """One check of the output before its commit: what it required, and what the staged rows had."""

    check: str
    required: str
    found: str
    passed: bool


class OutputSummary(_Message):
    """What a job committed.

    `mode` is the mode that held, with Spark's setting for dynamic overwrite taken into account. `columns` are the
    columns with their Spark types. `files` and `bytes` count the files of this run as they are stored. `partitions` are
    the directories that the run wrote, relative to the output, at most `MOST_PARTITIONS` of them; `partitions_total`
    counts all.
    """

    mode: OutputMode
    format: OutputFormat
    columns: dict[str, str]
    files: int
    bytes: int
    partitions: tuple[str, ...] = ()
    partitions_total: int = 0


class JobResult(_Message):
    """What a job answers, on success and on failure."""

    version: int = CONTRACT_VERSION
    rows: int | None = None
    output: str | None = None
    output_summary: OutputSummary | None = None
    checks: tuple[CheckReport, ...] = ()
    application_id: str | None = None
    sources: dict[str, SourceReport] = Field(default_factory=dict)
    joins: tuple[JoinReport, ...] = ()
    seconds: float = 0.0
    error: JobError | None = None

    @property
    def bytes_read(self) -> int | None:
        """Bytes that all sources read together; None unless that is known of each."""
        return _total([source.bytes_read for source in self.sources.values()])

    @property
    def bytes_total(self) -> int | None:
        """Bytes that all sources have; None unless that is known of each."""
        sizes = [source.bytes_total if source.has_size else None for source in self.sources.values()]
        return _total(sizes)

    def as_xcom(self) -> dict[str, object]:
        """The result as a small JSON dict; per source with the derived `pushed` and `residual` lists."""
        data = self.model_dump(mode="json")
        for name, source in self.sources.items():
            data["sources"][name]["pushed"] = list(source.pushed)
            data["sources"][name]["residual"] = list(source.residual)
        return data

    @classmethod
    def from_xcom(cls, data: Mapping[str, object]) -> Self:
        """The result of which `as_xcom` made a dict; raises pydantic's `ValidationError` for anything else."""
        sources = data.get("sources")
        if isinstance(sources, Mapping):
            sources = {name: _without_derived(source) for name, source in sources.items()}
        return cls.model_validate({**data, "sources": sources})


def _total(counts: Sequence[int | None]) -> int | None:
    """The sum of the counts; None where one is not known, or where there is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _without_derived(source: object) -> object:
    """A source's report in a dict without what is derived from the rest of it."""
    if not isinstance(source, Mapping):
        return source
    return {name: value for name, value in source.items() if name not in _DERIVED}
