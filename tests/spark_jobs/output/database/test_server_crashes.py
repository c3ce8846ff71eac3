"""Servers that crash while a run writes: the table has all rows of the run or none, and the retry completes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import databases
import pytest
from databases import NoServerError, Server, crash
from interrupted_tables import NEW, SCHEMA, InterruptedConnection, TableWrite, batch, write_once
from table_databases import Database

from pushdown_spark.contract import OutputMode, OutputSummary, RemoteConnection
from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.write.write_connection import DatabaseCursor, WriteConnection, connect_to_write
from pushdown_spark.errors import RemoteFailedError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.output.database.table_attempt import TableAttempt

pytestmark = pytest.mark.nightly

CASES = [
    pytest.param(TableWrite(OutputMode.APPEND, has_table=False), id="missing"),
    *(
        pytest.param(TableWrite(mode, has_table=True), id=mode)
        for mode in (OutputMode.APPEND, OutputMode.OVERWRITE, OutputMode.MERGE)
    ),
]
MOVE = re.compile(r"(?:INSERT|UPDATE|RENAME|ALTER)\b.*[\"`]t[\"`]")
"""The statements that change the table `t`."""


class CrashingConnection(InterruptedConnection):
    """A connection that calls a function after each statement that changes the table."""

    def __init__(self, connection: WriteConnection, after: Callable[[], None]) -> None:
        super().__init__(connection, lambda: None)
        self._after = after

    def _execute(self, sql: str, values: Sequence[object]) -> DatabaseCursor:
        cursor = super()._execute(sql, values)
        if MOVE.match(sql):
            self._after()
        return cursor


@pytest.fixture(scope="module", params=["postgresql", "mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    try:
        with getattr(databases, request.param)() as server:
            yield server
    except NoServerError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("moment", ["loaded", "copied", "moved", "committed"])
@pytest.mark.parametrize("case", CASES)
def test_retry_after_a_crash_of_the_server_equals_one_run(server: Server, case: TableWrite, moment: str) -> None:
    database = Database(server.product, RemoteConnection.model_validate(server.connection()))
    case.prepare(database)
    reached = []

    def reach(step: str) -> None:
        reached.append(step)
        if step == moment and reached.count(step) == 1:
            crash(server)

    def connect(address: DatabaseAddress) -> WriteConnection:
        return CrashingConnection(connect_to_write(address), lambda: reach("moved"))

    attempt = TableAttempt(database.address, case.spec, "run", connect=connect)
    assert attempt.prepare()
    with suppress(RemoteFailedError):
        writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
        for number, rows in enumerate(NEW):
            writer.load(number, iter([batch(rows)]))
        reach("loaded")
        attempt.copy_parts()
        reach("copied")
        attempt.commit(len(NEW), OutputSummary(mode=case.mode, columns={}))
        reach("committed")
    assert moment in reached
    assert moment != "moved" or "committed" not in reached
    write_once(database, case)
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert database.tables() == ["t"]
    assert database.rows("SELECT state FROM airflow_pushdown_runs") == [("committed",)]
