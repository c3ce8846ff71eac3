"""The rename of a staging table to the missing table of a run, in MySQL and MariaDB.

These databases rename outside of transactions, so a rename and the record of it are two steps. The state of the run in
the ledger shows the step that an attempt has reached, and the comment of the renamed table names the attempt:

    WRITING     The rename has not begun.
    MOVING      The rename is about to begin, or is done. If the attempt dies here, the next one compares the comment of
                the table with the attempt (`resolve_rename`).
    COMMITTED   The rename is done, and the table has the rows of the attempt.

The state returns to WRITING if the attempt died before the rename, or another program has created the table.
"""

from __future__ import annotations

from dataclasses import replace

from pushdown_spark.databases.write.write_connection import WriteConnection
from pushdown_spark.errors import PushdownError
from pushdown_spark.output.database.run_ledger import RunLedger, RunState
from pushdown_spark.output.database.staging_tables import StagingTables, drop_tables_of, marker_of
from pushdown_spark.output.database.target_table import comment_of, exists


def rename_to_target(
    connection: WriteConnection, ledger: RunLedger, staging: StagingTables, partitions: int, summary: str
) -> bool:
    """Commit the staging table as the missing table. Return False if the table exists.

    `partitions` is the number of partitions that the staging table must have. `summary` is JSON.
    """
    target = ledger.target
    if exists(connection, target):
        return False
    with connection.transaction(target.lock):
        ledger.check_claim(connection)
        row_count = staging.loaded_rows(connection, partitions)
        ledger.set_state(connection, RunState.MOVING, summary, row_count)
    try:
        connection.rows(f"RENAME TABLE {staging.rows} TO {target.sql}")
    except PushdownError:
        if not exists(connection, target):
            raise
        # Either another program has created the table, or this rename succeeded and its response was lost.
        if comment_of(connection, target) != staging.marker:
            with connection.transaction(target.lock):
                ledger.check_claim(connection)
                ledger.set_state(connection, RunState.WRITING)
            return False
    with connection.transaction(target.lock):
        ledger.set_state(connection, RunState.COMMITTED, summary, row_count)
    return True


def resolve_rename(connection: WriteConnection, ledger: RunLedger) -> None:
    """Find out whether an earlier attempt of the run that was about to rename has done so, and record it."""
    record = ledger.read(connection)
    if record is None or record.state is not RunState.MOVING:
        return
    # Without its staging table, an attempt that still runs cannot rename it afterwards.
    drop_tables_of(connection, ledger.target, ledger.run)
    is_renamed = comment_of(connection, ledger.target) == marker_of(record.attempt)
    state = RunState.COMMITTED if is_renamed else RunState.WRITING
    with connection.transaction(ledger.target.lock):
        if ledger.read(connection) == record:
            earlier = replace(ledger, attempt=record.attempt)
            earlier.set_state(connection, state, record.summary, record.row_count)
