"""Writes the rows of a job all or nothing: staged beside the output, then moved into place."""

from __future__ import annotations

import hashlib
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.contract import OutputMode, OutputSpec
from spark_jobs.errors import BadSpecError, OutputExistsError, OutputTakenError, UnknownColumnError
from spark_jobs.filesystem import HadoopFiles, local_path
from spark_jobs.readers.avro.provider import SHORT_NAME, format_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = "part-"
_CLAIM = ".claim"
_DELETIONS, _PAUSE_SECONDS = 10, 0.1
"""How often files are deleted that executors, which end with their driver, may still put back, and how long between."""


@dataclass(frozen=True)
class _Places:
    """Where an output lies, and the hidden siblings used while it is written.

    `replaced` is the same for all runs, so that whoever comes next can put an output back that a killed run had moved
    aside. `staging` and `committing` belong to one logical run. In `staging` each try has `rows` of its own, and a file
    `claim` that is there until another try begins: a try whose task was given up may go on for a while.
    """

    output: str
    staging: str
    rows: str
    claim: str
    committing: str
    replaced: str


class OutputWriter:
    """One output of one logical run.

    Use: `prepare`, then `stage` (as often as it takes), then `commit`, or `discard` after a failure; `guarded` does the
    last three. Moves are renames: atomic per file or directory on HDFS and local disks, copies on most object stores,
    where a kill in the middle of `commit` can be seen until the next run on the same output repairs it.
    """

    def __init__(self, spark: SparkSession, output: OutputSpec, run_key: str) -> None:
        """`run_key` names the logical run: all its tries count as one, so that a later try replaces an earlier one."""
        self._files = HadoopFiles(spark)
        self._output = output
        self._run = hashlib.sha256(run_key.encode()).hexdigest()[:16]
        self._places = self._siblings(self._files.qualified(output.path))

    def prepare(self) -> bool:
        """Clears what earlier tries left; says whether there is anything to write (mode `ignore` may say no).

        An earlier try that still writes can commit nothing from here on.

        Raises `OutputExistsError` when the output exists and the mode forbids touching it.
        """
        self._restore_replaced()
        self._files.delete(self._places.staging)
        if self._files.exists(self._places.committing):
            self._delete_parts(self._own_parts())
            self._files.delete(self._places.committing)
        self._refuse_existing()
        if self._output.mode is OutputMode.IGNORE and self._files.exists(self._places.output):
            return False
        self._files.write_text(self._places.claim, "")
        return True

    def stage(self, frame: DataFrame) -> None:
        """Writes all rows of a frame to the staging directory, replacing what was staged before."""
        unknown = [name for name in self._output.partition_by if name.lower() not in map(str.lower, frame.columns)]
        if unknown:
            raise UnknownColumnError(
                f"output.partition_by: the result has no column {unknown[0]!r}; it has {', '.join(frame.columns)}"
            )
        name = str(self._output.format)
        if name == SHORT_NAME:
            name = format_name(frame.sparkSession)
        writer = frame.write.format(name).mode("overwrite").options(**self._output.options)
        if self._output.partition_by:
            writer = writer.partitionBy(*self._output.partition_by)
        writer.save(self._places.rows)

    def commit(self) -> None:
        """Moves the staged files into place; after a failure the output is as it was before.

        Raises `OutputTakenError` when another try of the run has begun since `prepare`.
        """
        self._require_claim()
        if self._output.mode is OutputMode.APPEND:
            self._append()
        elif self._output.mode is OutputMode.OVERWRITE:
            self._replace()
        else:
            self._refuse_existing()
            self._files.rename(self._places.rows, self._places.output)
        self.discard()

    def discard(self) -> None:
        """Deletes what this try has staged, and nothing of another that has begun since."""
        self._files.delete(self._places.rows)
        self._files.delete(self._places.claim)
        if not any(name.endswith(_CLAIM) for name in self._files.names(self._places.staging)):
            self._files.delete(self._places.staging)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Commits when the block ends, discards when it fails; a failing clean-up does not hide the failure."""
        try:
            yield
            self.commit()
        except BaseException as failure:
            self._clean_up_after(failure)
            raise

    def _clean_up_after(self, failure: BaseException) -> None:
        try:
            self.discard()
        except Exception as clean_up:
            # A JVM that was killed has taken Hadoop along.
            if not self._discard_without_hadoop():
                failure.add_note(f"the staged files at {self._places.rows} could not be deleted: {clean_up}")

    def _discard_without_hadoop(self) -> bool:
        """Discards in this machine's own file system; says whether the output lies there and nothing is left."""
        staging, rows, claim = map(local_path, (self._places.staging, self._places.rows, self._places.claim))
        if staging is None or rows is None or claim is None:
            return False
        claim.unlink(missing_ok=True)
        mine = rows if any(staging.glob(f"*{_CLAIM}")) else staging
        for _ in range(_DELETIONS):
            shutil.rmtree(mine, ignore_errors=True)
            if not mine.exists():
                return True
            time.sleep(_PAUSE_SECONDS)
        return False

    def _siblings(self, output: str) -> _Places:
        parent, name = self._files.split(output)
        if not name:
            raise BadSpecError(
                f"output.path: {self._output.path!r} is the root of a file system; give a directory in it"
            )
        hidden = f"{parent}/.{name}"
        staging = f"{hidden}.staging-{self._run}"
        rows = f"{staging}/{uuid.uuid4().hex[:16]}"
        return _Places(
            output=f"{parent}/{name}",
            staging=staging,
            rows=rows,
            claim=rows + _CLAIM,
            committing=f"{hidden}.committing-{self._run}",
            replaced=f"{hidden}.replaced",
        )

    def _require_claim(self) -> None:
        if not self._files.exists(self._places.claim):
            raise OutputTakenError(
                f"output: another try of this run has begun to write {self._output.path}; this one's rows are dropped"
            )

    def _refuse_existing(self) -> None:
        if self._output.mode is OutputMode.ERROR_IF_EXISTS and self._files.exists(self._places.output):
            raise OutputExistsError(
                f"output: {self._output.path} exists already; remove it, or choose another output mode "
                "(overwrite, append or ignore)"
            )

    def _restore_replaced(self) -> None:
        """Ends a replacement that was killed half way: back to the old output, or on with the new one."""
        if not self._files.exists(self._places.replaced):
            return
        if self._files.exists(self._places.output):
            self._files.delete(self._places.replaced)
        else:
            self._files.rename(self._places.replaced, self._places.output)

    def _replace(self) -> None:
        replacing = self._files.exists(self._places.output)
        if replacing:
            self._files.delete(self._places.replaced)
            self._files.rename(self._places.output, self._places.replaced)
        try:
            self._files.rename(self._places.rows, self._places.output)
        except BaseException:
            if replacing:
                self._files.rename(self._places.replaced, self._places.output)
            raise
        self._files.delete(self._places.replaced)

    def _append(self) -> None:
        """Adds the staged parts; while `committing` exists, parts of this run may be incomplete."""
        earlier = self._own_parts()
        self._files.rename(self._places.rows, self._places.committing)
        if self._files.exists(self._places.output):
            self._move_parts(self._places.output)
            self._delete_parts(earlier)
            self._files.delete(self._places.committing)
        else:
            self._move_parts(self._places.committing)
            self._files.rename(self._places.committing, self._places.output)

    def _move_parts(self, target: str) -> None:
        """Moves parts below another directory, under names that tell the run; after a failure none is left there."""
        moved: list[str] = []
        try:
            for source, relative in self._staged_parts():
                folder = f"{target}/{relative}".rstrip("/")
                self._files.make_directory(folder)
                name = source.rpartition("/")[2]
                destination = f"{folder}/{self._prefix}{name.removeprefix(_PART)}"
                self._files.rename(source, destination)
                moved.append(destination)
        except BaseException:
            self._delete_parts(moved)
            self._files.delete(self._places.committing)
            raise

    def _staged_parts(self) -> list[tuple[str, str]]:
        """Path and relative directory of every part; listed in full before anything moves."""
        base = self._places.committing + "/"
        parts = []
        for entry in self._files.files(self._places.committing):
            folder, _, name = entry.path.removeprefix(base).rpartition("/")
            if name.startswith(_PART):
                parts.append((entry.path, folder))
        return parts

    def _own_parts(self) -> list[str]:
        """Parts in the output that an earlier try of this run has added."""
        if not self._files.exists(self._places.output):
            return []
        entries = self._files.files(self._places.output)
        return [entry.path for entry in entries if entry.path.rpartition("/")[2].startswith(self._prefix)]

    def _delete_parts(self, parts: list[str]) -> None:
        for part in parts:
            self._files.delete(part)

    @property
    def _prefix(self) -> str:
        return f"{_PART}{self._run}-"
