"""The outputs of a job spec: files, tables of databases, and tables of Spark's catalog."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from pushdown_spark.contract.message import Message, SparkOptions


class OutputFormat(StrEnum):
    """Formats of plain files, which can be staged in a directory and renamed into place.

    Staging would lose data in formats with their own log (Delta, Iceberg, Hudi) and without a directory (JDBC).
    """

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"
    JSON = "json"
    CSV = "csv"
    TEXT = "text"
    XML = "xml"


class ConnectorFormat(StrEnum):
    """Formats of tables that a connector of Spark's catalog writes."""

    ICEBERG = "iceberg"
    DELTA = "delta"


def _known_format(value: object, formats: Iterable[str], problem: str) -> object:
    """Return the name of a format in lower case. Raises ValueError with the problem if it is none of `formats`."""
    name = value.lower() if isinstance(value, str) else value
    if name not in set(formats):
        raise ValueError(problem)
    return name


class OutputMode(StrEnum):
    """Action if the output exists, with Spark's names.

    `overwrite` replaces the whole output, `overwrite_partitions` only the partitions that the run writes, or the rows
    that a predicate selects. `merge` replaces the rows of a table that have the same key.
    """

    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    MERGE = "merge"
    APPEND = "append"
    IGNORE = "ignore"
    ERROR_IF_EXISTS = "errorifexists"

    @property
    def is_repeatable(self) -> bool:
        """Whether a run can write to a table again without adding rows twice."""
        return self in (OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE)


class OutputChecks(Message):
    """Conditions that staged rows must meet before they are committed."""

    min_rows: Annotated[int | None, Field(ge=0)] = None
    """The minimum number of rows."""
    max_rows: Annotated[int | None, Field(ge=0)] = None
    """The maximum number of rows."""
    not_null: tuple[str, ...] = ()
    """Columns without NULL."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Keys of one or more columns. As in SQL, rows with a NULL in the key never violate it."""

    @field_validator("unique", mode="before")
    @classmethod
    def _list_of_keys(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        return tuple((key,) if isinstance(key, str) else key for key in value)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.min_rows is not None and self.max_rows is not None and self.min_rows > self.max_rows:
            raise ValueError(f"min_rows {self.min_rows} is larger than max_rows {self.max_rows}")
        return self

    def __bool__(self) -> bool:
        """Return whether there is a condition to check."""
        return self != OutputChecks()


class OutputSpec(Message):
    """A directory of files that takes the rows. It is committed completely or not at all."""

    path: str
    """The directory."""
    format: OutputFormat = OutputFormat.PARQUET
    """The format of the files."""
    mode: OutputMode = OutputMode.ERROR_IF_EXISTS
    """Action if the output exists."""
    options: SparkOptions = Field(default_factory=dict)
    """Writer options with Spark's names."""
    partition_by: tuple[str, ...] = ()
    """Partition columns."""
    checks: OutputChecks = OutputChecks()
    """Conditions on the rows."""

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.mode is OutputMode.OVERWRITE_PARTITIONS and not self.partition_by:
            raise ValueError("partition_by: mode overwrite_partitions needs the columns whose partitions it replaces")
        if self.mode is OutputMode.MERGE:
            raise ValueError("mode: files cannot be merged; write to a table with output_table")
        return self

    @field_validator("format", mode="before")
    @classmethod
    def _check_format(cls, value: object) -> object:
        return _known_format(
            value,
            OutputFormat,
            f"must be one of {', '.join(OutputFormat)}; for tables, also of Delta and Iceberg, set output_table",
        )


class TableRowsSpec(Message):
    """The fields of every table that takes rows: which of its rows a run replaces, and what the new rows must meet."""

    mode: OutputMode = OutputMode.ERROR_IF_EXISTS
    """Action if the table exists."""
    replace_where: str | None = None
    """Predicate in Spark SQL. Mode `overwrite_partitions` replaces the rows for which it is true. Without it, that mode
    replaces the partitions that the run writes, which only tables of a catalog have."""
    merge_keys: tuple[str, ...] = ()
    """Columns of the key. Mode `merge` replaces the rows with the same key and adds the others. In a catalog, only
    tables of Iceberg and Delta can be merged."""
    checks: OutputChecks = OutputChecks()
    """Conditions on the rows."""

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.mode is OutputMode.MERGE and not self.merge_keys:
            raise ValueError("merge_keys: mode merge needs the columns that identify a row")
        if self.merge_keys and self.mode is not OutputMode.MERGE:
            raise ValueError("merge_keys: only mode merge uses them; remove them, or choose mode merge")
        if self.replace_where is not None and self.mode is not OutputMode.OVERWRITE_PARTITIONS:
            raise ValueError("replace_where: only mode overwrite_partitions uses it; remove it, or choose that mode")
        return self


class TableOutputSpec(TableRowsSpec):
    """A table of a database that takes the rows. It is changed completely or not at all."""

    table: str
    """The table, which may be qualified like that of a source."""

    @model_validator(mode="after")
    def _check_replace_where(self) -> Self:
        if self.mode is OutputMode.OVERWRITE_PARTITIONS and self.replace_where is None:
            raise ValueError("replace_where: mode overwrite_partitions needs the predicate of the rows to replace")
        return self


class CatalogOutputSpec(TableRowsSpec):
    """A table of Spark's catalog that takes the rows. It is changed completely or not at all."""

    catalog_table: str
    """The table as `table`, `database.table` or `catalog.database.table`."""
    format: OutputFormat | ConnectorFormat = OutputFormat.PARQUET
    """The format of a new table."""
    options: SparkOptions = Field(default_factory=dict)
    """Options of a new table. An existing table must have the same."""
    partition_by: tuple[str, ...] = ()
    """Partition columns of a new table. An existing table must have the same."""

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if "path" in map(str.lower, self.options):
            raise ValueError("options: the directory of a new table is that of its database; leave out the path")
        return self

    @field_validator("format", mode="before")
    @classmethod
    def _check_format(cls, value: object) -> object:
        formats = (*OutputFormat, *ConnectorFormat)
        return _known_format(value, formats, f"a table can be created with one of these formats: {', '.join(formats)}")


def _output_tag(output: object) -> str:
    """Return the tag of an output: `files`, `table` or `catalog`."""
    for field, tag in {"table": "table", "catalog_table": "catalog"}.items():
        if field in output if isinstance(output, dict) else hasattr(output, field):
            return tag
    return "files"


AnyOutputSpec = Annotated[
    Annotated[OutputSpec, Tag("files")]
    | Annotated[TableOutputSpec, Tag("table")]
    | Annotated[CatalogOutputSpec, Tag("catalog")],
    Discriminator(_output_tag),
]
"""An output of any kind."""
