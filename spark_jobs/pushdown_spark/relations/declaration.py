"""Sources as a user declares them, before anything is listed or read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pushdown_spark.contract import (
    ONLY_SOURCE,
    OnMissingColumn,
    OnSchemaConflict,
    OrcOptions,
    ReaderChoice,
    RemoteConnection,
    RemoteSourceSpec,
    SourceFormat,
)
from pushdown_spark.projection.metadata_columns import BUILT_IN, ImplicitCatalog


@dataclass(frozen=True)
class Source:
    """A named source of files, or a table or view of Spark's catalog.

    `options` have Spark's names in lower case. `cold` is whether the session has just started, so that our readers
    would wait for the first Python workers. `table` is the name of a table. Its format is `table` until the table is
    opened, and then that of its files if the catalog has a table of files.
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
    table: str | None = None

    def parameter(self, name: str) -> str:
        """Return a parameter of this source for a message, with the source's name if there may be others."""
        return name if self.name == ONLY_SOURCE else f"{name} of source {self.name!r}"


@dataclass(frozen=True)
class RemoteSource:
    """A named table or query of a database, and the connection to the database."""

    name: str
    spec: RemoteSourceSpec
    connection: RemoteConnection

    @property
    def as_files(self) -> Source:
        """The declaration that requests carry for the table."""
        pushdown = self.spec.filter_pushdown
        return Source(self.name, SourceFormat.REMOTE, (), None, {}, ReaderChoice.PUSHDOWN, pushdown)


AnySource = Source | RemoteSource
