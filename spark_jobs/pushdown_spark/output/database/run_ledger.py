"""The ledger of runs: which run has written which table of a database, in that database.

The transaction that changes a table also marks its run as committed. A retry therefore knows whether an earlier try has
committed, also if that try was killed before it could report. The ledger has one row for each run and table:

    writing     an attempt loads rows; only the attempt that the row names may commit
    moving      MySQL and MariaDB: the attempt is about to rename its staging table to a missing table
    committed   the table has the rows of the run
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

from pushdown_spark.contract import OutputSummary
from pushdown_spark.databases.write.write_connection import WriteConnection
from pushdown_spark.output.base_output import later_attempt_error
from pushdown_spark.output.database.target_table import OWN_PREFIX, TargetTable

LEDGER = f"{OWN_PREFIX}runs"
_COLUMNS = (
    "run varchar(64) NOT NULL PRIMARY KEY, run_key text NOT NULL, target text NOT NULL, attempt varchar(32) NOT NULL, "
    "state varchar(16) NOT NULL, generation varchar(100) NOT NULL, started_at varchar(32) NOT NULL, "
    "committed_at varchar(32), summary text, row_count bigint"
)
_MAX_SUMMARY_BYTES = 65_535
"""The capacity of a column of type `text` in MySQL and MariaDB."""


class RunState(StrEnum):
    """The state of a run."""

    WRITING = "writing"
    MOVING = "moving"
    COMMITTED = "committed"


def summary_text(summary: OutputSummary) -> str:
    """Return a summary as JSON for the ledger, without its columns if the ledger cannot store so many."""
    text = summary.model_dump_json()
    if len(text.encode()) > _MAX_SUMMARY_BYTES:
        return summary.model_copy(update={"columns": {}}).model_dump_json()
    return text


@dataclass(frozen=True)
class RunRecord:
    """The row of a run. `summary` is JSON, or None before the run has rows to commit."""

    attempt: str
    state: RunState
    generation: str
    summary: str | None
    row_count: int | None


@dataclass(frozen=True)
class RunLedger:
    """The ledger of a table, for one attempt of one run. Statements that change a row belong into a transaction."""

    target: TargetTable
    run_key: str
    attempt: str
    generation: str

    @property
    def run(self) -> str:
        """The hash of the run and its table, the same for all attempts."""
        content = f"{self.run_key}\0{self.target.schema}\0{self.target.name}"
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def create(self, connection: WriteConnection) -> None:
        """Create the ledger if it is missing."""
        engine = " ENGINE=InnoDB CHARACTER SET utf8mb4" if self.target.dialect.is_mysql else ""
        # All tables of the schema share the ledger. In PostgreSQL, IF NOT EXISTS fails if another session creates it.
        with connection.transaction(replace(self.target, name=LEDGER).lock):
            connection.rows(f"CREATE TABLE IF NOT EXISTS {self._table} ({_COLUMNS}){engine}")

    def read(self, connection: WriteConnection) -> RunRecord | None:
        """Return the row of the run, or None if there is none."""
        columns = "attempt, state, generation, summary, row_count"
        rows = connection.rows(f"SELECT {columns} FROM {self._table} WHERE run = %s", self.run)  # noqa: S608
        for attempt, state, generation, summary, count in rows:
            text = None if summary is None else str(summary)
            row_count = None if count is None else int(str(count))
            return RunRecord(str(attempt), RunState(str(state)), str(generation), text, row_count)
        return None

    def claim(self, connection: WriteConnection) -> None:
        """Make this attempt the only one that may commit. The run has no row."""
        connection.change(
            f"INSERT INTO {self._table} (run, run_key, target, attempt, state, generation, started_at) "  # noqa: S608
            f"VALUES (%s, %s, %s, %s, %s, %s, {self._now})",
            *(self.run, self.run_key, self.target.display_name, self.attempt),
            *(RunState.WRITING.value, self.generation),
        )

    def check_claim(self, connection: WriteConnection) -> None:
        """Raise OutputTakenError if a later attempt of the run has begun."""
        record = self.read(connection)
        if record is None or record.attempt != self.attempt or record.state is RunState.COMMITTED:
            raise later_attempt_error(self.target.display_name)

    def set_state(
        self, connection: WriteConnection, state: RunState, summary: str | None = None, row_count: int | None = None
    ) -> None:
        """Set the state of the run, and the summary to report, unless another attempt has claimed the run."""
        commit_time = self._now if state is RunState.COMMITTED else "NULL"
        connection.change(
            f"UPDATE {self._table} SET state = %s, summary = %s, row_count = %s, committed_at = {commit_time} "  # noqa: S608
            "WHERE run = %s AND attempt = %s",
            *(state.value, summary, row_count, self.run, self.attempt),
        )

    def delete(self, connection: WriteConnection) -> None:
        """Delete the row of the run."""
        connection.change(f"DELETE FROM {self._table} WHERE run = %s", self.run)  # noqa: S608

    def release(self, connection: WriteConnection) -> None:
        """Delete the row of the run if this attempt has it and has not begun to commit."""
        connection.change(
            f"DELETE FROM {self._table} WHERE run = %s AND attempt = %s AND state = %s",  # noqa: S608
            *(self.run, self.attempt, RunState.WRITING.value),
        )

    @property
    def _table(self) -> str:
        return self.target.sibling(LEDGER)

    @property
    def _now(self) -> str:
        text = "CHAR(32)" if self.target.dialect.is_mysql else "varchar(32)"
        return f"CAST(CURRENT_TIMESTAMP AS {text})"
