"""The writer of file outputs: rows are staged next to the output and then moved into place, all or nothing."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pushdown_spark.contract import MAX_PARTITIONS, OutputMode, OutputSpec, OutputSummary
from pushdown_spark.errors import (
    BadSpecError,
    OutputConflictError,
    OutputExistsError,
    PushdownError,
    UnknownColumnError,
)
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.local_paths import escape_glob, is_local
from pushdown_spark.output.base_output import Output, column_types, later_attempt_error
from pushdown_spark.output.checks import RowObserver, check_columns_exist, evaluate_checks, raise_failures
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_target import OVERWRITE_OPTION, DirectoryTarget, FileTarget
from pushdown_spark.output.files.journal import Journal
from pushdown_spark.output.files.layout import CLAIM, OutputPaths, unescape_name
from pushdown_spark.output.files.moves import MovePlanner, partitions_of, staged_files
from pushdown_spark.output.source_protection import ReadPath, ReadPathProtection, SourceProtection
from pushdown_spark.output.stored_rows import with_stored_partitions
from pushdown_spark.output.target_checks import check_nested_outputs, check_no_table
from pushdown_spark.runtime.exception_chain import root_message
from pushdown_spark.runtime.file_systems.base_files import FileEntry
from pushdown_spark.runtime.file_systems.file_paths import followed_path
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles, open_files
from pushdown_spark.runtime.query_metrics import QueryWatch
from pushdown_spark.runtime.spark_internals import spark_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_UNWRITABLE = frozenset({errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.EPERM, errno.EROFS})
"""Errors for a directory in which the job cannot create files."""
_WHOLE_OUTPUT = ""
"""The partition that stands for the whole output."""


class FileOutput(Output):
    """One attempt of one run to write files. `commit` moves whole files or directories."""

    def __init__(self, spark: SparkSession, target: FileTarget, log: CommitLog, protection: SourceProtection) -> None:
        """`log` has the commits of the target. Use `open_output`."""
        super().__init__()
        self._spark = spark
        self._target = target
        self.paths = log.paths
        """The paths of this attempt's rows and of the hidden files of its commit."""
        self._files = log.files
        self._log = log
        self._protection = protection
        self._frame: DataFrame | None = None
        self._observer: RowObserver | None = None
        self._written_files: int | None = None
        """The number of files that the tasks have written, or None if it is not known."""

    @property
    def name(self) -> str:
        """The path or the table, as the user gave it."""
        return self._target.name

    @property
    def staging_location(self) -> str:
        """The directory of the staged files."""
        return self.paths.rows

    def prepare(self) -> bool:
        """Repair or delete what earlier attempts left. Return False if there is nothing to write (mode `ignore`).

        An earlier attempt of the same run that is still writing can no longer commit.

        Raises OutputExistsError if the output exists and the mode forbids changing it. Raises BadSpecError if the
        output has other partition columns or is a table with its own log, if replacing it would delete a source,
        or if the job may not write next to it.
        """
        try:
            if not self._prepare():
                return False
        except OSError as problem:
            if problem.errno not in _UNWRITABLE:
                raise
            raise BadSpecError(
                f"output: cannot write next to {self.paths.output}: {problem.strerror or problem}; choose a path "
                "below a directory that the job may write to"
            ) from problem
        try:
            self._target.check_partitions(())
            check_nested_outputs(self._files, self.paths.output)
        except BaseException:
            self.abort()
            raise
        return True

    def _prepare(self) -> bool:
        with self._log.lock():
            # Under the lock: an earlier attempt of this run may be about to commit.
            self._end_earlier_attempts()
            if self._is_committed():
                return False
            exists = self._output_exists()
            if self._mode is OutputMode.IGNORE and exists:
                return False
            check_no_table(self._files, self.paths.output)
            if self._mode is OutputMode.OVERWRITE:
                self._protection.check(self.name)
            if self._keeps_partitions and exists:
                self._check_partition_columns([self._spelling(name) for name in self._spec.partition_by])
            self._claim()
        return True

    def _claim(self) -> None:
        """Make this attempt the only one of its run that may commit.

        A later attempt may have begun before the claim was written, and has not seen it.
        """
        self._files.write_text(self.paths.claim, "")
        try:
            self._log.check_lock()
        except PushdownError:
            self._files.delete(self.paths.claim)
            raise

    def _end_earlier_attempts(self) -> None:
        """Delete the claims of the run's earlier attempts, and then their rows.

        An attempt that takes the lock after its claim was deleted does not commit. One that has taken it before may be
        moving its rows.
        """
        names = self._files.names(self.paths.staging)
        for name in names:
            if name.endswith(CLAIM):
                self._files.delete(f"{self.paths.staging}/{name}")
        self._log.check_lock()
        # Not the directory: a later attempt may have begun to use it since.
        for name in names:
            self._files.delete(f"{self.paths.staging}/{name}")

    def stage(self, frame: DataFrame) -> None:
        """Write all rows of a DataFrame to the staging directory. Rows that were staged before are replaced."""
        frame = self._target.stored_rows(frame)
        key = session_name_rule(self._spark).key
        unknown = [name for name in self._spec.partition_by if key(name) not in map(key, frame.columns)]
        if unknown:
            raise UnknownColumnError(
                f"partition_by: the result has no column {unknown[0]!r}; it has {', '.join(frame.columns)}"
            )
        frame = with_stored_partitions(frame, self._spec.partition_by)
        self._frame = frame
        if self._spec.checks:
            check_columns_exist(frame, self._spec.checks)
            self._observer = RowObserver.of(frame, self._spec.checks)
            frame = self._observer.frame
        # The staging directory is empty, and committers of object stores reject the dynamic mode.
        options = {**self._options, "partitionOverwriteMode": "static"}
        writer = frame.write.format(self._format).mode("overwrite").options(**options)
        if self._spec.partition_by:
            writer = writer.partitionBy(*map(self._spelling, self._spec.partition_by))
        self._written_files = self._save(writer)

    def _save(self, writer: DataFrameWriter) -> int | None:
        """Write the files of the staging directory. Return their number, or None if Spark does not report it."""
        watch = QueryWatch(self._spark)
        writer.save(self.paths.rows)
        return watch.written_files()

    def check(self) -> None:
        """Evaluate the checks on the staged rows. Raises CheckFailedError, which names all failed checks."""
        if self._observer is not None and self._frame is not None:
            options = {"multiLine": "true", **self._options} if self._format == "csv" else self._options
            reader = self._spark.read.format(self._format).schema(self._frame.schema).options(**options)
            self.checks = evaluate_checks(self._spec.checks, self._observer, reader.load(escape_glob(self.paths.rows)))
            raise_failures(self.checks)

    def commit(self) -> None:
        """Move the staged files into place. After a failure the output is unchanged.

        Raises OutputTakenError if another attempt of the run has begun since `prepare`, OutputConflictError if another
        run has committed one of the partitions since then.
        """
        try:
            self._commit()
            self.abort()
        except Exception as problem:
            if self.summary is None:
                raise
            with suppress(Exception):
                self.abort()
            warnings.warn(
                f"the rows are in {self.name}, but hidden files of their commit could not be deleted "
                f"({root_message(problem)}); the next runs on the output delete them",
                RuntimeWarning,
                stacklevel=2,
            )

    def _commit(self) -> None:
        with self._log.lock(self._check_claim):
            self._check_claim()
            exists = self._output_exists()
            if self._mode is not OutputMode.IGNORE or not exists:
                files = staged_files(self._files, self.paths)
                self._check_file_count(len(files))
                partitions = partitions_of(files, self.paths)
                self._target.check_partitions(partitions)
                removals = self._target.partitions_to_remove(partitions)
                check_nested_outputs(self._files, self.paths.output, [*partitions, *removals])
                self._check_conflicts([*partitions, *removals])
                if self._mode is OutputMode.OVERWRITE_PARTITIONS:
                    self._protection.check(self.name, [*partitions, *removals])
                summary = self._summarize(files, partitions)
                names = tuple(self.paths.below_rows(entry.path) for entry in files)
                self._target.record_commit(names, self.staged_rows, summary, is_complete=False)
                self._log.commit(self._journal(files, partitions, removals, exists=exists))
                self.summary = summary
                self._target.record_commit(names, self.staged_rows, summary, is_complete=True)

    def _check_file_count(self, count: int) -> None:
        """Raise PushdownError if this process does not see all files that the tasks have written.

        An executor on another machine writes to its own disk if the machines do not share the path. Spark's commit of
        the write does not notice that.
        """
        if self._written_files is not None and count < self._written_files:
            raise PushdownError(
                f"output: Spark's tasks wrote {self._written_files} files to {self.paths.rows}, but the driver sees "
                f"{count}, so the output is unchanged; write to a path that all machines of the cluster share. If the "
                f"other files are on disks of executors, delete {self.paths.hidden_directory} there"
            )

    def _is_committed(self) -> bool:
        """Return whether an earlier attempt of the run has committed an output that this one must not replace."""
        commit = self._target.find_commit()
        if commit is None:
            return False
        self.committed_rows, summary = commit
        self.summary = summary.model_copy(update={"is_from_earlier_try": True})
        return True

    def abort(self) -> None:
        """Delete the staged rows of this attempt, but not those of a later attempt.

        The rows of a commit that could not be undone stay, until the next run on the output undoes it.
        """
        self._files.delete(self.paths.other_commits)
        self._files.delete(self.paths.claim)
        if self._log.is_unfinished():
            return
        self._files.delete(self.paths.rows)
        names = self._files.names(self.paths.staging)
        # A later attempt may be writing its claim, whose draft has a longer name.
        if not any(CLAIM in name for name in names):
            # Not the directory: a later attempt may have begun to use it.
            for name in names:
                self._files.delete(f"{self.paths.staging}/{name}")
            self._files.delete_empty(self.paths.staging)
        self._files.delete_empty(self.paths.hidden_directory)

    @property
    def _spec(self) -> OutputSpec:
        return self._target.spec

    @property
    def _mode(self) -> OutputMode:
        return self._spec.mode

    @property
    def _format(self) -> str:
        return spark_format(str(self._spec.format))

    @property
    def _options(self) -> dict[str, str]:
        return {key: value for key, value in self._spec.options.items() if key.lower() != OVERWRITE_OPTION}

    @property
    def _keeps_partitions(self) -> bool:
        return self._mode in (OutputMode.APPEND, OutputMode.OVERWRITE_PARTITIONS)

    def _check_claim(self) -> None:
        if not self._files.exists(self.paths.claim):
            raise later_attempt_error(self.name)

    def _output_exists(self) -> bool:
        """Return whether the output exists. Raises a typed error if it cannot take rows in this mode."""
        exists = self._target.exists()
        if exists and self._mode is OutputMode.ERROR_IF_EXISTS:
            raise OutputExistsError(
                f"output: {self.name} already exists; remove it, or choose another output mode "
                "(overwrite, overwrite_partitions, append or ignore)"
            )
        return exists

    def _check_conflicts(self, partitions: list[str]) -> None:
        """Raise OutputConflictError if this run would replace rows that another run committed after this one began."""
        others = {} if self._mode is OutputMode.APPEND else self._log.commits_of_others()
        targets = {_WHOLE_OUTPUT, *partitions} if self._mode is OutputMode.OVERWRITE_PARTITIONS else others.keys()
        for partition in sorted(targets & others.keys()):
            where = f"partition {partition} of {self.name}" if partition else self.name
            raise OutputConflictError(
                f"output: {others[partition]} has written {where} while this run was writing it. Its rows were kept "
                "and the rows of this run were deleted. Run the task again to replace them"
            )

    def _spelling(self, column: str) -> str:
        """Return a partition column as the existing directories spell it. Spark would use the writer's spelling."""
        if not self._keeps_partitions or session_name_rule(self._spark).case_sensitive:
            return column
        keys = self._target.existing_partition_columns() or ()
        return next((key for key in keys if key.lower() == column.lower()), column)

    def _check_partition_columns(self, columns: Sequence[str]) -> None:
        """Raise BadSpecError if the output is partitioned by other columns or in another order."""
        existing = self._target.existing_partition_columns()
        if existing is not None and existing != list(columns):
            raise BadSpecError(
                f"partition_by: {self._spec.path} is partitioned by {', '.join(existing) or 'no column'}, "
                f"not by {', '.join(columns) or 'no column'}; use another directory or mode overwrite"
            )

    def _journal(
        self, files: list[FileEntry], partitions: list[str], removals: Sequence[str], *, exists: bool
    ) -> Journal:
        """Return the moves that put the staged rows into the output, by its mode and by whether it exists."""
        change = self._target.catalog_change(partitions, removals, self.staged_rows)
        planner, is_append = MovePlanner(self._files, self.paths), self._mode is OutputMode.APPEND
        if not (self._keeps_partitions and self._files.exists(self.paths.output)):
            if is_append:
                planner.rename_staged(files)
            moves = planner.replace_output(exists=exists)
        elif is_append:
            self._check_spelling(partitions)
            moves = planner.add_files(files, len(self._spec.partition_by))
        else:
            self._check_spelling(partitions)
            moves = planner.replace_partitions(partitions, removals)
            partitions = sorted([*partitions, *removals])
        return Journal(
            run=self.paths.run,
            writer=self.paths.writer,
            rows=self.paths.rows,
            aside=self.paths.aside,
            files=frozenset(self.paths.below_rows(entry.path)[1:] for entry in self._files.files(self.paths.rows)),
            moves=tuple(moves),
            partitions=tuple(partitions) if self._keeps_partitions else (_WHOLE_OUTPUT,),
            change=change,
        )

    def _check_spelling(self, partitions: list[str]) -> None:
        if partitions:
            self._check_partition_columns(
                [unescape_name(step.partition("=")[0]) for step in partitions[0].split("/") if step]
            )

    def _summarize(self, files: list[FileEntry], partitions: list[str]) -> OutputSummary:
        names = [partition for partition in partitions if partition]
        return OutputSummary(
            mode=self._mode,
            format=self._spec.format,
            columns={} if self._frame is None else column_types(self._frame.schema),
            files=len(files),
            bytes=sum(entry.length for entry in files),
            partitions=tuple(names[:MAX_PARTITIONS]),
            partitions_total=len(names),
        ).model_copy(update=self._target.summary_fields)


def open_output(
    spark: SparkSession,
    output: OutputSpec,
    run_key: str,
    *,
    generation: str | None = None,
    sources: Iterable[ReadPath] = (),
) -> FileOutput:
    """Return a new attempt of the run with this key to write an output.

    With the `generation` of the job, the commit is recorded for a retry. `sources` are the paths that the job reads.

    Raises BadSpecError for a path that cannot be an output, and for an unknown mode of Spark's partition overwrite.
    """
    paths = output_paths(spark, output.path, run_key)
    files = open_files(spark, paths.output)
    target = DirectoryTarget(spark, output, files, paths, generation)
    return FileOutput(spark, target, CommitLog(files, paths), ReadPathProtection(HadoopFiles(spark), paths, sources))


def output_paths(spark: SparkSession, path: str, run_key: str) -> OutputPaths:
    """Return the paths of a new attempt of a run. Raises BadSpecError for a path that cannot be an output."""
    hadoop = HadoopFiles(spark)
    location = followed_path(hadoop.qualify(path))
    parent, name = hadoop.split(location)
    if not name:
        raise BadSpecError(f"output: {path!r} is the root of a file system; give a directory in it")
    if not is_local(location) and ":" in location.partition("://")[2].partition("/")[2]:
        raise BadSpecError(
            f"output: Hadoop cannot list directories with a colon in their names, such as {path!r}; use another "
            "name, for example with {{ ts_nodash }} instead of {{ ts }}"
        )
    return OutputPaths.of(parent, name, run_key)
