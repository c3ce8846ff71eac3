"""One attempt of one run to change a table of a database. It needs no Spark session.

    prepare    claims the run in the ledger, and deletes the staging tables of earlier attempts
    stage      creates the staging tables, which tasks fill
    check      checks the staged rows
    commit     in one transaction: requires the claim, moves the rows, and marks the run as committed
    abort      deletes the staging tables and the claim

If the table is missing, the staging table is renamed to it: within the transaction, or as in `table_rename`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from pyspark.sql import types as t

from pushdown_spark.contract import OutputMode, OutputSummary, TableOutputSpec
from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.write.partition_writer import PartitionWriter
from pushdown_spark.databases.write.target_columns import target_columns
from pushdown_spark.databases.write.write_connection import WriteConnection, connect_to_write
from pushdown_spark.errors import BadSpecError, PushdownError, RemoteFailedError, UnknownColumnError
from pushdown_spark.expressions.names import EXACT_NAMES, NameRule
from pushdown_spark.output.database.run_ledger import RunLedger, RunRecord, RunState, summary_text
from pushdown_spark.output.database.staging_tables import StagingTables, drop_leftovers
from pushdown_spark.output.database.table_changes import TableChange
from pushdown_spark.output.database.table_rename import rename_to_target, resolve_rename
from pushdown_spark.output.database.target_table import (
    TargetTable,
    columns_without_null,
    describe_sibling,
    exists,
    find_target,
    generated_columns,
)
from pushdown_spark.output.target_checks import check_existing_table

_RTRIM = "RTRIM"


@dataclass(frozen=True)
class _StagedTable:
    """What `stage` creates: the change of the table, its columns, and whether the table was missing."""

    change: TableChange
    columns: RemoteTable
    is_new: bool


class TableAttempt:
    """One attempt of one run to change a table. `prepare` and `stage` each set one part of its state."""

    def __init__(
        self,
        address: DatabaseAddress,
        output: TableOutputSpec,
        run_key: str,
        generation: str = "",
        connect: Callable[[DatabaseAddress], WriteConnection] = connect_to_write,
    ) -> None:
        self._address = address
        self._output = output
        self._run_key = run_key
        self._generation = generation
        self._attempt = uuid.uuid4().hex[:16]
        self._connect = connect
        self._ledger: RunLedger | None = None
        """The ledger of the table, set by `prepare`."""
        self._staged_table: _StagedTable | None = None
        self._stages = 0
        self.staging: StagingTables | None = None
        """The staging tables, or None before `stage`."""
        self.earlier_commit: tuple[int | None, OutputSummary] | None = None
        """Rows and summary of an earlier attempt that has committed, set by `prepare`."""

    @property
    def target(self) -> TargetTable:
        """The table, after `prepare`."""
        return self._claimed_ledger.target

    @property
    def table(self) -> RemoteTable:
        """The columns of the table, or of the table to create, after `stage`."""
        return self._current_table.columns

    @property
    def _claimed_ledger(self) -> RunLedger:
        """The ledger, after `prepare`."""
        assert self._ledger is not None
        return self._ledger

    @property
    def _current_table(self) -> _StagedTable:
        """The staged rows, after `stage`."""
        assert self._staged_table is not None
        return self._staged_table

    def prepare(self) -> bool:
        """Claim the run. Return False if there is nothing to write.

        That is the case if an earlier attempt has committed, and in mode `ignore` if the table exists.
        """
        with closing(self._connect(self._address)) as connection:
            target = find_target(connection, self._output.table)
            ledger = self._ledger = RunLedger(target, self._run_key, self._attempt, self._generation)
            ledger.create(connection)
            drop_leftovers(connection, target, ledger.run)
            while True:
                resolve_rename(connection, ledger)
                with connection.transaction(target.lock):
                    record = ledger.read(connection)
                    # An earlier attempt may have begun to rename its staging table since.
                    if record is None or record.state is not RunState.MOVING:
                        return self._claim(connection, record)

    def existing_table(self) -> RemoteTable | None:
        """Return the columns of the table, without those that the database computes, or None if it does not exist."""
        with closing(self._connect(self._address)) as connection:
            if not exists(connection, self.target):
                return None
            computed_names = generated_columns(connection, self.target)
            required = columns_without_null(connection, self.target)
        table = describe_sibling(self._address, self.target, self.target.name)
        columns = (
            replace(column, is_required=column.name in required)
            for column in table.columns
            if column.name not in computed_names
        )
        return replace(table, columns=tuple(columns), generated_columns=computed_names)

    def stage(self, schema: t.StructType, existing: RemoteTable | None, *, name_rule: NameRule) -> PartitionWriter:
        """Create empty staging tables, and return the writer for tasks. Its columns have the order of the schema."""
        with closing(self._connect(self._address)) as connection:
            if self.staging is not None:
                self.staging.drop(connection)
            # Some checks read one table, and one can become a missing table.
            reads_one = existing is None or self._output.mode is OutputMode.MERGE or bool(self._output.checks.unique)
            run = self._claimed_ledger.run
            staging = StagingTables.of(self.target, run, self._attempt, self._stages, reads_one=reads_one)
            self._stages += 1
            # Set before the tables exist, so that `abort` deletes what was created before a failure.
            self.staging, self._staged_table = staging, None
            if existing is not None:
                target_columns(schema, existing, name_rule=name_rule)
                staging.create_like(connection, existing)
            else:
                staging.create_new(connection, schema)
        table = existing or describe_sibling(self._address, self.target, staging.name)
        columns = target_columns(schema, table, name_rule=name_rule)
        keys = tuple(_key_column(key, table, name_rule) for key in self._output.merge_keys)
        change = TableChange(staging, self._output.mode, tuple(column.name for column in columns), keys)
        self._staged_table = _StagedTable(change, table, is_new=existing is None)
        has_parts = self.target.has_parts
        return PartitionWriter(self._address, staging.rows, staging.record, columns, has_parts, self._connect)

    def check_accepted(self, suffixes: Mapping[int, str]) -> None:
        """Raise RemoteFailedError unless the rows that count are those of the task attempts that Spark has accepted.

        `suffixes` has their random suffixes by partition.
        """
        with closing(self._connect(self._address)) as connection:
            suffixes_in_table = self._current_table.change.staging.suffixes(connection)
        stale = [partition for partition, suffix in suffixes.items() if suffixes_in_table.get(partition) != suffix]
        if stale:
            raise RemoteFailedError(
                f"an executor was lost after it had loaded partition {stale[0]}, whose rows may differ from those of "
                "the next attempt; run the task again"
            )

    def copy_parts(self) -> None:
        """Collect the rows of all tasks in one table, if a later step reads one and tasks have loaded parts."""
        change = self._current_table.change
        if self.target.has_parts and not change.staging.is_split:
            with closing(self._connect(self._address)) as connection:
                change.staging.copy_parts(connection, change.columns)

    def check(self, condition: str = "") -> None:
        """Check the staged rows. `condition` is `replace_where` in the SQL of the database."""
        staged_table = self._current_table
        change = replace(staged_table.change, condition=condition)
        self._staged_table = replace(staged_table, change=change)
        if change.condition or change.keys:
            with closing(self._connect(self._address)) as connection:
                change.check(connection)

    def commit(self, partitions: int, summary: OutputSummary) -> OutputSummary | None:
        """Move the rows of a number of partitions. Return None if mode `ignore` found a table that exists now."""
        staged_table, ledger = self._current_table, self._claimed_ledger
        staging = staged_table.change.staging
        summary = summary.model_copy(update={"table": self.target.display_name})
        text = summary_text(summary)
        try:
            with closing(self._connect(self._address)) as connection:
                renames = staged_table.is_new and self.target.dialect.is_mysql
                is_renamed = renames and rename_to_target(connection, ledger, staging, partitions, text)
                is_written = is_renamed or self._move_rows(connection, partitions, text)
                self._drop_staging(connection)
        except PushdownError:
            if not self._has_committed():
                raise
            return summary
        return summary if is_written else None

    def _has_committed(self) -> bool:
        """Return whether the ledger has a commit of this attempt. Return False if it cannot be read.

        A connection to a server may break after the commit, so that only the response was lost.
        """
        ledger = self._claimed_ledger
        if self.target.dialect is Dialect.SQLITE:
            return False
        with suppress(PushdownError), closing(self._connect(self._address)) as connection:
            record = ledger.read(connection)
            if record is not None and record.attempt == self._attempt:
                resolve_rename(connection, ledger)
            # The broken connection may still be committing. It has the lock until its end.
            with connection.transaction(self.target.lock):
                record = ledger.read(connection)
            if record is not None and record.attempt == self._attempt and record.state is RunState.COMMITTED:
                self._drop_staging(connection)
                return True
        return False

    def _drop_staging(self, connection: WriteConnection) -> None:
        """Delete the staging tables after the commit. If that fails, a later run deletes them."""
        with suppress(PushdownError):
            self._current_table.change.staging.drop(connection)

    def _move_rows(self, connection: WriteConnection, partitions: int, summary: str) -> bool:
        """Move the rows in one transaction. Return False if mode `ignore` found a table that exists now."""
        change, ledger = self._current_table.change, self._claimed_ledger
        if change.staging.is_split:
            # SQLite attaches no file within the transaction.
            ledger.check_claim(connection)
            change.staging.row_tables(connection)
        with connection.transaction(self.target.lock):
            ledger.check_claim(connection)
            row_count = change.staging.loaded_rows(connection, partitions)
            table_exists = exists(connection, self.target)
            if table_exists and self._output.mode is OutputMode.IGNORE:
                ledger.delete(connection)
                return False
            if table_exists:
                check_existing_table(self._output.mode, self.target.display_name)
                self._check_unchanged_columns(connection)
                change.apply(connection, row_count)
            else:
                self._create_table(connection)
            ledger.set_state(connection, RunState.COMMITTED, summary, row_count)
        return True

    def abort(self) -> None:
        """Delete the staging tables and the claim of this attempt."""
        with closing(self._connect(self._address)) as connection:
            if self.staging is not None:
                self.staging.drop(connection)
            if self._ledger is not None:
                with connection.transaction(self.target.lock):
                    self._ledger.release(connection)

    def _claim(self, connection: WriteConnection, record: RunRecord | None) -> bool:
        """Make this attempt the only one that may commit. Return False if there is nothing to write."""
        table_exists = exists(connection, self.target)
        # The rows of a commit are gone if the table is.
        if table_exists:
            if self._is_committed(record) or self._output.mode is OutputMode.IGNORE:
                return False
            check_existing_table(self._output.mode, self.target.display_name)
        ledger = self._claimed_ledger
        if record is not None:
            # In MySQL, the deletion of a missing row locks a gap, so that runs on two tables could deadlock.
            ledger.delete(connection)
        ledger.claim(connection)
        return True

    def _is_committed(self, record: RunRecord | None) -> bool:
        """Return whether an earlier attempt has committed, so that this one has nothing to write."""
        if record is None or record.state is not RunState.COMMITTED or record.summary is None:
            return False
        is_new_generation = record.generation != self._generation
        if is_new_generation and self._output.mode.is_repeatable:
            return False
        summary = OutputSummary.model_validate_json(record.summary)
        self.earlier_commit = record.row_count, summary.model_copy(update={"is_from_earlier_try": True})
        return True

    def _create_table(self, connection: WriteConnection) -> None:
        """Make the staging table the missing table. Raises RemoteFailedError if the table was there before."""
        staged_table = self._current_table
        if not staged_table.is_new or self.target.dialect.is_mysql:
            # The staging table lacks constraints of the table. In MySQL and MariaDB, `rename_to_target` has seen the
            # table.
            raise RemoteFailedError(
                f"{self.target.display_name} was dropped while its rows were loaded; run the task again"
            )
        rows = staged_table.change.staging.rows
        connection.end_writers(rows)
        try:
            connection.rows(f"ALTER TABLE {rows} RENAME TO {self.target.quote(self.target.name)}")
        except PushdownError:
            # The transaction has failed, so that another connection looks for the table.
            with closing(self._connect(self._address)) as other:
                if not exists(other, self.target):
                    raise
            raise RemoteFailedError(
                f"{self.target.display_name} was created by another program at the commit; run the task again"
            ) from None

    def _check_unchanged_columns(self, connection: WriteConnection) -> None:
        """Raise RemoteFailedError if the columns have changed since the rows were checked against their types."""
        # The lock of a query keeps other programs from changing the table until the end of the transaction.
        connection.rows(f"SELECT 1 FROM {self.target.sql} LIMIT 0")  # noqa: S608
        computed_names = generated_columns(connection, self.target)
        columns = [
            (column.name, column.remote_type)
            for column in describe_sibling(self._address, self.target, self.target.name).columns
            if column.name not in computed_names
        ]
        if columns != [(column.name, column.remote_type) for column in self.table.columns]:
            raise RemoteFailedError(
                f"the columns of {self.target.display_name} have changed while the rows were loaded; run the task again"
            )


def _key_column(name: str, table: RemoteTable, name_rule: NameRule) -> RemoteColumn:
    column = table.column(name, name_rule=EXACT_NAMES) or table.column(name, name_rule)
    if column is None:
        columns = ", ".join(column.name for column in table.columns)
        raise UnknownColumnError(f"merge_keys: the table has no column {name!r}; it has {columns}")
    if table.dialect is Dialect.SQLITE and (column.collation or "").upper() == _RTRIM:
        raise BadSpecError(
            f"merge_keys: column {column.name} has the collation {_RTRIM}, with which SQLite's joins miss equal "
            "strings; merge by other columns, or create the table without it"
        )
    return column
