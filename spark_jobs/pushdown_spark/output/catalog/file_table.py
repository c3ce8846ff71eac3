"""Tables of files in Spark's catalog as targets: files are staged and moved, then the catalog is updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.contract import CatalogOutputSpec, ErrorCode, OutputMode, OutputSummary
from pushdown_spark.errors import BadPredicateError, BadSpecError, CheckFailedError, PushdownError
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.output.base_output import column_types
from pushdown_spark.output.catalog.catalog_entry import (
    PROPERTY,
    CatalogEntry,
    TableDefinition,
    partition_spec,
    property_text,
    tracks_new_partitions,
)
from pushdown_spark.output.catalog.catalog_layout import check_writable, file_spec
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import FileOutput
from pushdown_spark.output.files.file_target import FileTarget, with_effective_mode
from pushdown_spark.output.files.journal import CatalogChange, has_files
from pushdown_spark.output.files.layout import OutputPaths
from pushdown_spark.output.files.partition_names import PartitionNames
from pushdown_spark.output.source_protection import ReadPath, ReadPathProtection
from pushdown_spark.output.stored_rows import NULL_PARTITION, stored_rows
from pushdown_spark.output.target_checks import check_column_names, check_visible_partitions
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.projection.schema_alignment import ddl
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.file_systems.base_files import Files
from pushdown_spark.runtime.file_systems.file_paths import followed_path
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles, open_files
from pushdown_spark.runtime.spark_internals import spark_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIRECTORY = "directory of the partition"
"""A column for a predicate over partitions. No partition column has this name."""
_RUN, _ATTEMPT, _ROWS = (f"{PROPERTY}{name}" for name in ("run", "attempt", "rows"))


class EntryUpdater:
    """Updates the catalog entry of a table after its files were moved."""

    def __init__(self, entry: CatalogEntry, files: Files, location: str) -> None:
        self._entry = entry
        self._files = files
        self._location = location

    def update(self, change: CatalogChange) -> None:
        """Create the table if the commit has created its files, then add and remove partitions.

        Raises a retryable error if another program has created the table.
        """
        if change.statement is not None:
            self._entry.create(change.statement, self._location)
            if not self._is_own_table(change):
                raise _change_error(self._entry)
        if change.added:
            self._entry.add_partitions(change.added)
        if change.dropped:
            self._entry.remove_partitions(change.dropped)
        self._entry.refresh()

    def revert(self, change: CatalogChange) -> None:
        """Undo a change after its files were moved back."""
        if self._entry.definition() is None:
            return
        if change.statement is not None:
            # Dropping a table deletes its files.
            if self._is_own_table(change) and not has_files(self._files, self._location):
                self._entry.drop()
            return
        if change.added:
            self._entry.remove_partitions(change.added)
        if change.dropped:
            self._entry.add_partitions(change.dropped)
        self._entry.refresh()

    def _is_own_table(self, change: CatalogChange) -> bool:
        """Return whether the attempt of a change has created the table."""
        table = self._entry.definition()
        return table is not None and table.properties.get(_ATTEMPT) == change.attempt


class FileTableTarget(FileTarget):
    """A table of files. A commit moves the files before it updates the catalog."""

    def __init__(
        self, spark: SparkSession, output: CatalogOutputSpec, entry: CatalogEntry, files: Files, paths: OutputPaths
    ) -> None:
        """`files` and `paths` belong to the directory of the table. Use `open_file_table`."""
        self._spark = spark
        self._output = output
        self._entry = entry
        self._paths = paths
        self._files = files
        self._rows: t.StructType | None = None
        """The columns of the rows to write, or None before `stored_rows`."""
        self._set_table(entry.definition())

    def _set_table(self, table: TableDefinition | None) -> None:
        self._table = table
        spec = file_spec(self._spark, self._output, self._entry, table, self._paths.output)
        self.spec = with_effective_mode(self._spark, spec)

    @property
    def _schema(self) -> t.StructType | None:
        """The columns of the table, or of the rows for a new table."""
        return self._rows if self._table is None else self._table.schema

    @property
    def name(self) -> str:
        """The table, as the user gave it."""
        return self._output.catalog_table

    @property
    def summary_fields(self) -> Mapping[str, str]:
        """The qualified name of the table, and its directory."""
        return {"table": self._entry.name, "location": self._paths.output}

    def stored_rows(self, frame: DataFrame) -> DataFrame:
        """Return the rows as Spark's INSERT would store them in the table."""
        if self._table is not None:
            check_column_names(frame.schema, self._table.schema, name_rule=session_name_rule(self._spark))
            frame = stored_rows(self._spark, frame, self._entry.sql)
        else:
            # The catalog looks for a partition in a directory with the name of the column in the rows.
            key = session_name_rule(self._spark).key
            names = {key(name): name for name in frame.columns}
            partition_by = tuple(names.get(key(name), name) for name in self.spec.partition_by)
            self.spec = self.spec.model_copy(update={"partition_by": partition_by})
        self._rows = frame.schema
        return frame

    def check_partitions(self, partitions: Sequence[str]) -> None:
        """Raise CheckFailedError for a partition for which `replace_where` is not true.

        Raises BadPredicateError for a wrong predicate, also without partitions. Raises BadSpecError or
        UnwritableValueError for directories that Spark would not read, if it lists those of the table.
        """
        if not self._tracks_partitions:
            check_visible_partitions(self.spec.partition_by, partitions)
        where = self._output.replace_where
        if where is None or self._schema is None:
            return
        matches = self._select_partitions(partitions)
        if others := [name for name in partitions if name not in matches]:
            raise CheckFailedError(
                f"replace_where: the rows have partition {others[0]}, for which {where!r} is not true. Nothing was "
                "committed and the output is unchanged"
            )

    def find_commit(self) -> tuple[int | None, OutputSummary] | None:
        """Return rows and summary of an earlier attempt of this run that has created the table.

        Only then does the run leave a table as it is. In the other modes, a retry replaces what the earlier attempt
        wrote.
        """
        self._read_table()
        if self._table is None or self.spec.mode not in (OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE):
            return None
        if self._table.properties.get(_RUN) != self._paths.run:
            return None
        rows = self._table.properties.get(_ROWS, "")
        summary = OutputSummary(mode=self.spec.mode, columns=column_types(self._table.schema))
        return int(rows) if rows.isdigit() else None, summary.model_copy(update=self.summary_fields)

    @property
    def _tracks_partitions(self) -> bool:
        """Whether the catalog has, or will have, the partitions. Otherwise Spark lists the directory of the table."""
        return tracks_new_partitions(self._spark) if self._table is None else self._table.tracks_partitions

    def _read_table(self) -> None:
        """Read the table again, because a repair of an interrupted commit may have created it."""
        table = self._entry.definition()
        if table == self._table:
            return
        self._set_table(table)
        if table is not None and _directory_of(self._spark, table.location) != self._paths.output:
            raise _change_error(self._entry)

    def exists(self) -> bool:
        """Return whether the catalog has the table. Empty directories at the location of a new table are deleted.

        Raises BadSpecError if there are files at the location of a new table.
        """
        exists = self._entry.definition() is not None
        if self._table is not None:
            if self.spec.mode is OutputMode.OVERWRITE:
                self._check_partition_locations(self._table, None)
        elif exists:
            if self.spec.mode not in (OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE):
                raise _change_error(self._entry)
        elif self._files.exists(self._paths.output):
            if not has_files(self._files, self._paths.output):
                # Another program may begin to write files, which a recursive deletion would delete.
                self._files.delete_empty_tree(self._paths.output)
            if self._files.exists(self._paths.output):
                raise BadSpecError(
                    f"output_table: {self._paths.output} has files, but the catalog has no table {self._entry.name}; "
                    "delete the files, or create the table for them"
                )
        return exists

    def existing_partition_columns(self) -> list[str] | None:
        """Return None, because the catalog has the partition columns."""
        return None

    def catalog_change(self, partitions: Sequence[str], removals: Sequence[str], rows: int | None) -> CatalogChange:
        """Return the change of the catalog. Raises BadSpecError if the files are not the rows of a partition."""
        table = self._entry.definition()
        if (table is None) != (self._table is None):
            raise _change_error(self._entry)
        if table is not None and self._table is not None and not table.has_same_rows_as(self._table):
            raise _change_error(self._entry)
        names = [name for name in partitions if name]
        change = CatalogChange(database=self._entry.database, table=self._entry.table, attempt=self._paths.attempt)
        if table is None:
            additions = names if self._tracks_partitions else ()
            return change.model_copy(update={"statement": self._statement(rows), "added": tuple(additions)})
        if not table.partition_by or not table.tracks_partitions:
            return change
        entries = self._entry.partitions()
        missing = [name for name in names if name not in entries]
        self._check_partition_locations(table, [name for name in names if name in entries])
        self._check_unknown_files(missing)
        entries_to_drop: Sequence[str] = ()
        if self.spec.mode is OutputMode.OVERWRITE:
            entries_to_drop = sorted(entries.difference(names))
        elif self.spec.mode is OutputMode.OVERWRITE_PARTITIONS:
            entries_to_drop = removals
        return change.model_copy(update={"added": tuple(missing), "dropped": tuple(entries_to_drop)})

    def _check_partition_locations(self, table: TableDefinition, partitions: Sequence[str] | None) -> None:
        """Raise BadSpecError if the files of a partition to change are outside the directory of the table."""
        if not table.partition_by or not table.tracks_partitions:
            return
        if elsewhere := self._entry.partitions_elsewhere(table, partitions):
            raise BadSpecError(
                f"output_table: a partition of {self._entry.name} has a directory of its own, {elsewhere[0]}. Its "
                "files cannot be replaced all or nothing; write to another table, or move the partition"
            )

    def _check_unknown_files(self, partitions: Sequence[str]) -> None:
        """Raise BadSpecError if an append would make files visible that do not belong to the table."""
        if self.spec.mode is not OutputMode.APPEND:
            return
        for partition in partitions:
            if has_files(self._files, f"{self._paths.output}/{partition}"):
                raise BadSpecError(
                    f"output_table: {self._paths.output}/{partition} has files, but the catalog has no such partition "
                    f"of {self._entry.name}. Appended rows would bring back theirs; delete the files, or add the "
                    "partition"
                )

    def partitions_to_remove(self, partitions: Sequence[str]) -> Sequence[str]:
        """Return the other partitions with the same values, and those for which `replace_where` is true."""
        table = self._table
        if table is None or self.spec.mode is not OutputMode.OVERWRITE_PARTITIONS:
            return ()
        partitions_of_table = self._entry.partitions() if table.tracks_partitions else self._directories(table)
        names = PartitionNames(self._spark, table.schema, is_declared=True).of({*partitions_of_table, *partitions})
        replacements = {names[partition] for partition in partitions}
        others = sorted(partitions_of_table.difference(partitions))
        removals = [partition for partition in others if names[partition] in replacements]
        if self._output.replace_where is not None:
            removals = sorted({*removals, *self._select_partitions(others)})
        self._check_partition_locations(table, removals)
        return removals

    def _directories(self, table: TableDefinition) -> set[str]:
        """Return the partitions of a table whose catalog entry has none, by its directories."""
        directories = self._files.glob(self._paths.output, "/".join("*=*" for _ in table.partition_by))
        return {path.removeprefix(f"{self._paths.output}/") for path in directories}

    def _partition_fields(self) -> list[t.StructField]:
        """Return the partition columns with their types."""
        assert self._schema is not None
        return [self._schema[name] for name in self.spec.partition_by]

    def _select_partitions(self, partitions: Sequence[str]) -> list[str]:
        """Return those of the partitions for which `replace_where` is true, with the types of the table.

        Raises BadPredicateError if the predicate needs columns other than the partition columns.
        """
        where = self._output.replace_where
        assert where is not None
        fields = self._partition_fields()
        rows = [(name, *(partition_spec(name).get(field.name) for field in fields)) for name in partitions]
        strings = ", ".join(f"v{number} string" for number in range(len(fields)))
        frame = self._spark.createDataFrame(rows, f"{quote_name(_DIRECTORY)} string, {strings}")
        values = [
            f.when(f.col(f"v{number}") != NULL_PARTITION, f.col(f"v{number}")).cast(field.dataType).alias(field.name)
            for number, field in enumerate(fields)
        ]
        try:
            rows_by_type = frame.select(f.col(quote_name(_DIRECTORY)), *values)
            is_selected = rows_by_type.select(*(quote_name(field.name) for field in fields)).where(where)
            is_selected.schema  # noqa: B018 - analyzes the predicate with the partition columns alone
            return [row[0] for row in rows_by_type.where(where).select(f.col(quote_name(_DIRECTORY))).collect()]
        except (AnalysisException, ParseException) as problem:
            error = typed_error(problem, about="replace_where")
            raise BadPredicateError(
                f"{error}. In a table of files, replace_where can use the partition columns "
                f"({', '.join(field.name for field in fields)})"
            ) from problem

    def _statement(self, rows: int | None) -> str:
        """Return the statement that creates the table with `rows` rows, without its directory."""
        assert self._rows is not None
        fields = {field.name: field for field in self._rows.fields}
        last = [fields.pop(name) for name in self.spec.partition_by]
        columns = ddl(t.StructType([*fields.values(), *last]))
        count = "" if rows is None else str(rows)
        properties = {_RUN: self._paths.run, _ATTEMPT: self._paths.attempt, _ROWS: count}
        source = quote_name(spark_format(self.spec.format.value))
        statement = f"CREATE TABLE {self._entry.sql} ({columns}) USING {source}"
        if self.spec.options:
            statement += f" OPTIONS ({property_text(self.spec.options)})"
        if last:
            statement += f" PARTITIONED BY ({', '.join(quote_name(field.name) for field in last)})"
        return f"{statement} TBLPROPERTIES ({property_text(properties)})"


def _change_error(entry: CatalogEntry) -> PushdownError:
    """Return the error for a table that another program has created, changed or replaced since `prepare`."""
    return PushdownError(
        f"output_table: another program has changed or replaced {entry.name} while its rows were written; run the task "
        "again",
        code=ErrorCode.SPARK,
    )


def open_file_table(
    spark: SparkSession, output: CatalogOutputSpec, entry: CatalogEntry, run_key: str, *, sources: Iterable[ReadPath]
) -> FileOutput:
    """Return a new attempt of the run with this key to write a table of files. `sources` are the paths that it reads.

    Raises BadSpecError for tables whose files cannot be replaced all or nothing, with the reason.
    """
    paths = table_paths(spark, entry, run_key)
    files = open_files(spark, paths.output)
    log = CommitLog(files, paths, catalog=EntryUpdater(entry, files, paths.output))
    target = FileTableTarget(spark, output, entry, files, paths)
    return FileOutput(spark, target, log, ReadPathProtection(HadoopFiles(spark), paths, sources))


def table_paths(spark: SparkSession, entry: CatalogEntry, run_key: str) -> OutputPaths:
    """Return the paths of a new attempt of a run. Raises BadSpecError for a table that cannot be an output."""
    table = entry.definition()
    if table is not None:
        # A view has no directory.
        check_writable(entry, table)
    location = _directory_of(spark, entry.default_location() if table is None else table.location)
    parent, name = HadoopFiles(spark).split(location)
    if not name:
        raise BadSpecError(f"output_table: {entry.name} has the root of a file system as its directory; choose another")
    return OutputPaths.of(parent, name, run_key)


def _directory_of(spark: SparkSession, location: str) -> str:
    return followed_path(HadoopFiles(spark).qualify(location))
