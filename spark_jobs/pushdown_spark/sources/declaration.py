"""Sources as a user declares them, before anything is listed or read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pushdown_spark.contract import (
    ONLY_SOURCE,
    OnMissingColumn,
    OnSchemaConflict,
    OrcOptions,
    ReaderChoice,
    RemoteConnection,
    RemoteSourceSpec,
    SourceFormat,
    SourceSpec,
    TableSourceSpec,
)
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.projection.implicit_columns import BUILT_IN, ImplicitCatalog, implicit_catalog


@dataclass(frozen=True)
class CsvSigns:
    """The characters that divide a line of CSV into fields. `quote` and `escape` may be empty."""

    sep: str
    quote: str
    escape: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CsvSigns:
        """Return the signs of a source with these options, whose keys are in lower case."""
        sep = options.get("sep", options.get("delimiter", ","))
        return cls("\t" if sep == "\\t" else sep, options.get("quote", '"'), options.get("escape", "\\"))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A named source of files, or a table or view of Spark's catalog.

    `options` have Spark's names in lower case. `has_just_started` is whether the session has just started, so
    that the pushdown readers would wait for the first Python workers. `table` is the name of a table. Its format is
    `table` until the table is opened, and then that of its files if the catalog has a table of files.
    """

    name: str
    format: SourceFormat
    paths: tuple[str, ...] = ()
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    reader: ReaderChoice = ReaderChoice.AUTO
    filter_pushdown: bool = True
    orc: OrcOptions = field(default_factory=OrcOptions)
    on_schema_conflict: OnSchemaConflict = OnSchemaConflict.ERROR
    on_missing_column: OnMissingColumn = OnMissingColumn.NULL
    implicit_catalog: ImplicitCatalog = BUILT_IN
    has_just_started: bool = False
    max_malformed: int | None = None
    table: str | None = None

    @classmethod
    def of(cls, name: str, spec: SourceSpec | TableSourceSpec, *, has_just_started: bool = False) -> Source:
        """Return the source of a part of a job spec."""
        source = cls(
            name=name,
            format=SourceFormat(spec.format),
            options={key.lower(): value for key, value in spec.options.items()},
            reader=spec.reader,
            filter_pushdown=spec.filter_pushdown,
            orc=spec.orc,
            implicit_catalog=implicit_catalog(spec.implicit_names, spec.implicit_columns),
            has_just_started=has_just_started,
        )
        if isinstance(spec, TableSourceSpec):
            return replace(source, table=spec.table)
        return replace(
            source,
            paths=spec.path,
            schema=spec.schema_ddl,
            on_schema_conflict=spec.on_schema_conflict,
            on_missing_column=spec.on_missing_column,
            max_malformed=spec.max_malformed,
        )

    def parameter(self, name: str) -> str:
        """Return a parameter of this source for a message, with the source's name if there may be others."""
        return name if self.name == ONLY_SOURCE else f"{name} of source {self.name!r}"


@dataclass(frozen=True)
class DatabaseSource:
    """A named table or query of a database, and the connection to the database."""

    name: str
    spec: RemoteSourceSpec
    connection: RemoteConnection

    @property
    def as_source(self) -> Source:
        """The declaration that requests carry for the table."""
        return Source(
            name=self.name,
            format=SourceFormat.REMOTE,
            reader=ReaderChoice.PUSHDOWN,
            filter_pushdown=self.spec.filter_pushdown,
        )


AnySource = Source | DatabaseSource


def find_source(sources: Mapping[str, AnySource], name: str, name_rule: NameRule) -> AnySource | None:
    """Return the source of a name in SQL: with the same spelling, or else the first that the session equates."""
    equal = (source for key, source in sources.items() if name_rule.same(key, name))
    return sources.get(name) or next(equal, None)


def unknown_source(sources: Iterable[str], name: str) -> str:
    """Return the problem with a name that no source has."""
    return f"no source is named {name!r}; there are {', '.join(sorted(sources)) or 'none'}"
