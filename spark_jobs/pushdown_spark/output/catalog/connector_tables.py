"""Tables of Iceberg and Delta: their description, and the versions that name the run that has written them."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.contract import ErrorCode, OutputMode
from pushdown_spark.errors import OutputConflictError, PushdownError
from pushdown_spark.output.base_output import later_attempt_error
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import class_name, java_array, java_class
from pushdown_spark.runtime.spark_internals import catalog_plugin

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_BRANCH = "branch_"
"""The beginning of the name of a branch as the last part of a table's name in SQL."""
_WAP_ID = "published-wap-id"
"""Iceberg's property of a snapshot that was picked: the `wap.id` of the original."""
_DIGEST_LENGTH = 32
_MAX_AGE_MS = 2 * 86_400_000
_MAX_CHANGES = 10
_CONFLICTS = frozenset({"ValidationException", "DuplicateWAPCommitException", "CommitFailedException"})
"""Iceberg's exceptions if another commit is in the way."""


@dataclass(frozen=True)
class Commit:
    """The version of a table that a run has committed. `rows` is None if it is not known.

    `version` is its id, or None if nothing changed. `is_own` is whether this attempt of the run has committed it.
    """

    version: int | None
    rows: int | None
    files: int
    bytes: int
    is_own: bool = False


def run_of(run_key: str, generation: str, mode: OutputMode) -> str:
    """Return the name of a run: the hash of its key, then that of its generation.

    A cleared task counts as a new run in modes that cannot add rows twice.
    """
    return _digest(run_key) + _digest(generation if mode.is_repeatable else "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


class ConnectorTable(ABC):
    """A table of a connector, for one run. `namespace` is that of the table in its catalog."""

    provider: str
    has_partition_directories: bool
    """Whether the directories of partitions have their values, so that an empty string becomes NULL."""

    def __init__(self, spark: SparkSession, catalog: str, namespace: Sequence[str], table: str, run: str) -> None:
        self._spark = spark
        self._catalog_name = catalog
        self._namespace = tuple(namespace)
        self._name = table
        self._run = run
        self._known_version: int | None = None
        """The last version of any generation of the run at the time of `fence`."""

    @property
    def name(self) -> str:
        """The qualified name for messages."""
        return ".".join((self._catalog_name, *self._namespace, self._name))

    @property
    def sql(self) -> str:
        """The qualified name in SQL."""
        return ".".join(map(quote_name, (self._catalog_name, *self._namespace, self._name)))

    def exists(self) -> bool:
        """Return whether the table exists."""
        return bool(self._catalog.tableExists(self._identifier))

    def schema(self) -> t.StructType:
        """Return the columns of the table."""
        return self._spark.table(self.sql).schema

    def partition_by(self) -> tuple[str, ...]:
        """Return the partition columns and transforms, as the catalog describes them."""
        return tuple(map(_partition_name, self._load().partitioning()))

    def location(self) -> str | None:
        """Return the directory of the table, or None if the catalog does not have it."""
        location = self._load().properties().get("location")
        return None if location is None else str(location)

    def find_commit(self) -> Commit | None:
        """Return the current version of the table that the run has written, or None if there is none."""
        return self._last_commit(self._run)

    @abstractmethod
    def _last_commit(self, run: str) -> Commit | None:
        """Return the last current version of the table by a run whose name begins with a string."""

    def fence(self) -> None:
        """Delete what earlier attempts of the run have left, and remember the last version of its generations."""
        self._known_version = self._last_version()

    def _check_generations(self) -> None:
        """Raise a retryable error if another generation of the run has committed since `fence`.

        A user has cleared the task while a driver was still running, which must not replace the rows of the later
        generation. Generations have no order, so the later one fails, too, if the driver commits first.
        """
        # The known version may have expired since.
        if self._last_version() not in (None, self._known_version):
            raise PushdownError(
                f"output_table: a driver from before or after a clear of this task has written {self.name} in the "
                "meantime. Nothing was committed; run the task again",
                code=ErrorCode.SPARK,
            )

    def _last_version(self) -> int | None:
        commit = self._last_commit(self._run[:_DIGEST_LENGTH])
        return None if commit is None else commit.version

    @abstractmethod
    def change(self, write: Callable[[str], None], *, reads_table: bool) -> Commit | None:
        """Change the table in one version, unless another attempt of the run has. Return the version of the run.

        It is None if the connector makes no version for a run without rows. `write` makes the change, given the name in
        SQL of the table or of a branch of it. `reads_table` is whether the change depends on the rows of the table.
        """

    def error(self, problem: Exception) -> PushdownError:
        """Return the typed error for a change that failed."""
        return typed_error(problem, about="output_table", text_error=ErrorCode.SCHEMA_CONFLICT)

    @abstractmethod
    def write_options(self, rows: int) -> Mapping[str, str]:
        """Return the options of a write that name the run in the version."""

    @abstractmethod
    def settings(self, rows: int) -> Mapping[str, str]:
        """Return the settings of the session that name the run in the version."""

    def _load(self) -> JavaObject:
        return self._catalog.loadTable(self._identifier)

    @property
    def _catalog(self) -> JavaObject:
        return catalog_plugin(self._spark, self._catalog_name)

    @cached_property
    def _identifier(self) -> JavaObject:
        namespace = java_array(java_class(self._spark, "java.lang.String"), self._namespace)
        identifier = java_class(self._spark, "org.apache.spark.sql.connector.catalog.Identifier")
        return identifier.of(namespace, self._name)


class IcebergTable(ConnectorTable):
    """A table of Iceberg. The summary of a snapshot names the run.

    Each change is made on its own branch and then picked into the main branch, in the one step in which Iceberg
    replaces the metadata of the table. An append is picked once for each `wap.id`, a replacement of partitions if no
    commit has changed them in between, and others if there was no commit at all. So an attempt that continues after its
    retry cannot add rows twice or undo later runs.
    """

    provider = "iceberg"
    has_partition_directories = False
    _PROPERTY = "airflow-pushdown-"

    def fence(self) -> None:
        """Delete the branches of earlier attempts."""
        super().fence()
        table = self._iceberg()
        for name in list(table.refs()):
            if name.startswith(self._branches):
                _remove_branch(table, name)

    def change(self, write: Callable[[str], None], *, reads_table: bool) -> Commit | None:
        """Change the table in one snapshot, again after each commit of others that is in the way."""
        for _ in range(_MAX_CHANGES):
            table = self._iceberg()
            if table.currentSnapshot() is None:
                # Without a first snapshot, no change could be picked that is not an append.
                table.newFastAppend().commit()
            branch = f"{self._branches}{uuid.uuid4().hex[:8]}"
            start = _create_branch(table, branch)
            if start is None:
                continue
            try:
                # The branch exists already, so that a commit after this check prevents the pick.
                if (commit := self.find_commit()) is not None:
                    return commit
                self._check_generations()
                write(f"{self.sql}.{quote_name(f'{_BRANCH}{branch}')}")
                if _pick_snapshot(table, branch, start, reads_table):
                    own_commit = self.find_commit()
                    return None if own_commit is None else replace(own_commit, is_own=True)
            finally:
                _remove_branch(table, branch)
        raise OutputConflictError(
            f"output: other programs have changed {self.name} {_MAX_CHANGES} times while this run was changing it. "
            "Nothing was committed; run the task again when they write less often"
        )

    def error(self, problem: Exception) -> PushdownError:
        """Return the typed error for a change that failed, with the name of the table instead of that of a branch."""
        error = super().error(problem)
        message = re.sub(rf"\.`?{_BRANCH}{self._branches}\w+`?", "", str(error))
        if self._branches in message:
            return later_attempt_error(self.name)
        return error if message == str(error) else type(error)(message, code=error.code)

    def _iceberg(self) -> JavaObject:
        """Return the table of Iceberg's own interface in its current state."""
        table = self._load().table()
        table.refresh()
        return table

    @property
    def _branches(self) -> str:
        return f"{self._PROPERTY}{self._run}-"

    def _last_commit(self, run: str) -> Commit | None:
        """Return the last snapshot. Snapshots that were rolled back do not count."""
        self._spark.catalog.refreshTable(self.sql)
        snapshots = self._spark.table(f"{self.sql}.snapshots")
        history = self._spark.table(f"{self.sql}.history").where("is_current_ancestor").select("snapshot_id")
        snapshot = (
            snapshots.join(history.distinct(), "snapshot_id", "left_semi")
            .where(f.col("summary")[f"{self._PROPERTY}run"].startswith(run) | f.col("summary")[_WAP_ID].startswith(run))
            .orderBy(f.col("committed_at").desc())
            .select("snapshot_id", "summary")
            .head()
        )
        if snapshot is None:
            return None
        summary = snapshot["summary"]
        return Commit(
            version=snapshot["snapshot_id"],
            # A picked snapshot has only Iceberg's own properties.
            rows=_number(summary.get(f"{self._PROPERTY}rows", summary.get("added-records", "0"))),
            files=_number(summary.get("added-data-files")) or 0,
            bytes=_number(summary.get("added-files-size")) or 0,
        )

    def write_options(self, rows: int) -> Mapping[str, str]:
        """Return the properties of the snapshot."""
        return {f"snapshot-property.{key}": value for key, value in self._properties(rows).items()}

    def settings(self, rows: int) -> Mapping[str, str]:
        """Return the properties of the snapshot for statements without options."""
        return {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in self._properties(rows).items()}

    def _properties(self, rows: int) -> dict[str, str]:
        return {f"{self._PROPERTY}run": self._run, f"{self._PROPERTY}rows": str(rows), "wap.id": self._run}


def _create_branch(table: JavaObject, branch: str) -> int | None:
    """Create a branch. Return the snapshot from which it starts, or None if another commit is in the way."""
    # The age lets the table's own maintenance remove the branch of a run that was killed and never retried.
    update = table.manageSnapshots().createBranch(branch).setMaxRefAgeMs(branch, _MAX_AGE_MS)
    if not _succeeds(update.commit):
        return None
    table.refresh()
    snapshot = table.snapshot(branch)
    return None if snapshot is None else int(snapshot.snapshotId())


def _remove_branch(table: JavaObject, branch: str) -> None:
    """Remove a branch. A retry, or the expiry of snapshots, removes one that stays."""
    with suppress(PySparkException, Py4JJavaError):
        table.manageSnapshots().removeBranch(branch).commit()


def _pick_snapshot(table: JavaObject, branch: str, start: int, reads_table: bool) -> bool:
    """Pick the snapshot of a branch into the main branch. Return False if another commit is in the way."""
    table.refresh()
    # The update replaces the metadata that is compared here, or fails.
    update = table.manageSnapshots()
    snapshot = table.snapshot(branch)
    if snapshot is None:
        # A retry has dropped the branch.
        return False
    if snapshot.snapshotId() == start:
        # Iceberg makes no snapshot if a run without rows replaces the partitions of its rows.
        return True
    if snapshot.parentId() != start:
        # A retry has dropped the branch during the write, and Iceberg has created it again from the main branch.
        return False
    if not reads_table:
        return _succeeds(lambda: update.cherrypick(snapshot.snapshotId()).commit())
    # Iceberg calls a merge without matches an append, which a pick adds to rows that the merge has not seen.
    if table.currentSnapshot().snapshotId() != start:
        return False
    return _succeeds(lambda: update.fastForwardBranch("main", branch).commit())


class DeltaTable(ConnectorTable):
    """A table of Delta. The log accepts one version for the transaction id of a run, and its metadata names the run."""

    provider = "delta"
    has_partition_directories = True

    @cached_property
    def _attempt(self) -> str:
        """The name of this attempt in the metadata of its version."""
        return uuid.uuid4().hex

    def change(self, write: Callable[[str], None], *, reads_table: bool) -> Commit | None:
        """Change the table in one version. Delta ignores a write with the transaction id of an earlier one."""
        if self.find_commit() is None:
            self._check_generations()
        write(self.sql)
        return self.find_commit()

    def _last_commit(self, run: str) -> Commit | None:
        """Return the last version."""
        marker = f'"airflow_pushdown_run": "{run}'
        version = (
            self._spark.sql(f"DESCRIBE HISTORY {self.sql}")
            .where(f.col("userMetadata").contains(marker))
            .orderBy(f.col("version").desc())
            .select("version", "userMetadata", "operationMetrics")
            .head()
        )
        if version is None:
            return None
        metadata, metrics = json.loads(version["userMetadata"]), version["operationMetrics"]
        return Commit(
            version=version["version"],
            rows=_number(metadata.get("rows")),
            files=_number(metrics.get("numFiles", metrics.get("numTargetFilesAdded"))) or 0,
            bytes=_number(metrics.get("numOutputBytes", metrics.get("numTargetBytesAdded"))) or 0,
            is_own=metadata.get("attempt") == self._attempt,
        )

    def write_options(self, rows: int) -> Mapping[str, str]:
        """Return no options, because the settings work for each statement."""
        return {}

    def settings(self, rows: int) -> Mapping[str, str]:
        """Return the metadata and the transaction id of the version."""
        return {
            "spark.databricks.delta.commitInfo.userMetadata": json.dumps(
                {"airflow_pushdown_run": self._run, "rows": str(rows), "attempt": self._attempt}
            ),
            "spark.databricks.delta.write.txnAppId": f"airflow_pushdown_{self._run}",
            "spark.databricks.delta.write.txnVersion": "1",
        }


def _partition_name(transform: JavaObject) -> str:
    """Return the name of a partition column without quotes, or a transform such as `days(at)`."""
    if transform.name() != "identity":
        # Not `describe`, which Py4J does not find in each class.
        return str(transform)
    (reference,) = transform.references()
    return ".".join(map(str, reference.fieldNames()))


def _succeeds(commit: Callable[[], object]) -> bool:
    """Commit to a table of Iceberg. Return False if another commit is in the way."""
    try:
        commit()
    except Py4JJavaError as problem:
        if class_name(problem.java_exception) not in _CONFLICTS:
            raise
        return False
    return True


def _number(text: object) -> int | None:
    return int(str(text)) if text is not None and str(text).isdigit() else None
