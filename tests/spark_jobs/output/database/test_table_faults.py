"""Runs killed or stopped before any statement or commit: a retry leaves exactly what one run leaves."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest
from interrupted_tables import (
    OLD,
    InterruptedConnection,
    TableWrite,
    fork,
    interrupt,
    kill_self,
    lose_response,
    stop_self,
    write_once,
)
from table_databases import KINDS, Database, open_database

from pushdown_spark.contract import OutputMode
from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.write.write_connection import WriteConnection, connect_to_write
from pushdown_spark.errors import LostConnectionError, PushdownError
from pushdown_spark.output.database.staging_tables import MAX_AGE_SECONDS

CASES = [
    pytest.param(TableWrite(OutputMode.APPEND, has_table=True), id="append"),
    pytest.param(TableWrite(OutputMode.ERROR_IF_EXISTS, has_table=False), id="create", marks=pytest.mark.nightly),
    *(
        pytest.param(TableWrite(mode, has_table=True), id=f"{mode} existing", marks=pytest.mark.nightly)
        for mode in (OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE)
    ),
    *(
        pytest.param(TableWrite(mode, has_table=False), id=f"{mode} missing", marks=pytest.mark.nightly)
        for mode in OutputMode
        if mode is not OutputMode.ERROR_IF_EXISTS
    ),
]
KEEPING = [OutputMode.IGNORE, OutputMode.ERROR_IF_EXISTS]
MIN_STEPS = 25


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


def stored_rows(database: Database) -> list[tuple[object, ...]]:
    return sorted(database.rows("SELECT id, day, x FROM t"))  # type: ignore[type-var]


def states(database: Database) -> list[tuple[object, ...]]:
    return database.rows("SELECT state FROM airflow_pushdown_runs")


@pytest.mark.parametrize("case", CASES)
def test_retry_after_kill_equals_one_run(database: Database, case: TableWrite, operations: Iterator[int]) -> None:
    for step in operations:
        case.prepare(database)
        child = fork(lambda step=step: write_once(database, case, connect=interrupt(step, kill_self)))  # type: ignore[misc]
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        write_once(database, case)
        assert stored_rows(database) == case.expected(), f"killed before step {step}"
        assert database.tables() == ["t"], f"killed before step {step}"
        assert states(database) == [("committed",)]
    assert step > MIN_STEPS
    assert stored_rows(database) == case.expected()


@pytest.mark.parametrize("database", [kind for kind in KINDS if kind != "sqlite"], indirect=True)
@pytest.mark.parametrize("case", CASES)
def test_attempt_that_loses_a_response_fails_only_if_it_has_not_committed(database: Database, case: TableWrite) -> None:
    for step in count(1):
        case.prepare(database)
        losses: list[int] = []
        try:
            write_once(database, case, connect=lose_response(step, losses))
        except LostConnectionError:
            unchanged = sorted(OLD) if case.has_table else None
            assert (stored_rows(database) if "t" in database.tables() else None) == unchanged, f"lost at step {step}"
            write_once(database, case)
        assert stored_rows(database) == case.expected(), f"lost at step {step}"
        assert states(database) == [("committed",)], f"lost at step {step}"
        if not losses:
            break
    assert step > MIN_STEPS


@pytest.mark.nightly
@pytest.mark.parametrize("mode", KEEPING)
def test_killed_run_keeps_an_existing_table(database: Database, mode: OutputMode) -> None:
    case = TableWrite(mode, has_table=True)
    for step in count(1):
        case.prepare(database)
        connect = interrupt(step, kill_self)
        child = fork(lambda connect=connect: _quiet(lambda: write_once(database, case, connect=connect)))  # type: ignore[misc]
        _, status = os.waitpid(child, 0)
        _quiet(lambda: write_once(database, case))
        assert stored_rows(database) == sorted(OLD), f"killed before step {step}"
        assert database.tables() == ["t"], f"killed before step {step}"
        assert states(database) == [], f"killed before step {step}"
        if os.WIFEXITED(status):
            break
    assert step > 1


@pytest.mark.nightly
@pytest.mark.parametrize("mode", KEEPING)
def test_killed_run_keeps_a_table_that_another_program_has_created(database: Database, mode: OutputMode) -> None:
    """The other program creates the table before the retry, unless the killed attempt has committed."""
    case, other = TableWrite(mode, has_table=False), TableWrite(mode, has_table=True)
    outcomes = set()
    for step in count(1):
        case.prepare(database)
        connect = interrupt(step, kill_self)
        child = fork(lambda connect=connect: write_once(database, case, connect=connect))  # type: ignore[misc]
        _, status = os.waitpid(child, 0)
        is_committed = "t" in database.tables()
        if not is_committed:
            other.create_table(database)
        _quiet(lambda: write_once(database, case))
        expected = case.expected() if is_committed else sorted(OLD)
        assert stored_rows(database) == expected, f"killed before step {step}"
        assert database.tables() == ["t"], f"killed before step {step}"
        outcomes.add(is_committed)
        if os.WIFEXITED(status):
            break
    assert outcomes == {True, False}


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_killed_retry_is_retried(database: Database, case: TableWrite) -> None:
    """The first attempt is killed while it commits. Each step of the second one is killed after one of these kills."""
    case.prepare(database)
    steps: list[None] = []
    write_once(database, case, connect=lambda address: count_steps(address, steps))
    kills = (14, 11, 8, 6)
    for number, last in enumerate(kills, start=1):
        first = len(steps) - last
        for step in count(number, len(kills)):
            case.prepare(database)
            statuses = []
            for killed in (first, step):
                connect = interrupt(killed, kill_self)
                child = fork(lambda connect=connect: write_once(database, case, connect=connect))  # type: ignore[misc]
                statuses.append(os.waitpid(child, 0)[1])
            write_once(database, case)
            assert stored_rows(database) == case.expected(), f"killed before steps {first} and {step}"
            assert database.tables() == ["t"], f"killed before steps {first} and {step}"
            if os.WIFEXITED(statuses[1]):
                break


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_stopped_attempt_changes_nothing_after_a_retry(database: Database, case: TableWrite) -> None:
    """The first attempt continues when a retry has committed, or when the retry waits for its locks."""
    for step in count(1):
        case.prepare(database)
        child = fork(lambda step=step: _quiet(lambda: write_once(database, case, connect=interrupt(step, stop_self))))  # type: ignore[misc]
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        retry = threading.Thread(target=lambda: _quiet(lambda: write_once(database, case)))
        retry.start()
        retry.join(1.0)
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, 0)
        retry.join()
        write_once(database, case)
        assert stored_rows(database) == case.expected(), f"stopped before step {step}"
        assert database.tables() == ["t"], f"stopped before step {step}"
    assert step > MIN_STEPS


def test_staging_tables_are_dropped_by_age(database: Database) -> None:
    case = TableWrite(OutputMode.APPEND, has_table=True)
    case.prepare(database)
    now = int(time.time())
    names = [f"airflow_pushdown_{'a' * 12}_{moment:08x}_{'b' * 8}_0" for moment in (now - MAX_AGE_SECONDS - 60, now)]
    for name in names:
        database.execute(f"CREATE TABLE {name} (id int)", f"CREATE TABLE {name}_p (id int)")
    write_once(database, case)
    assert database.tables() == [names[1], f"{names[1]}_p", "t"]
    assert stored_rows(database) == case.expected()


def test_files_of_tasks_are_dropped_by_age(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    database, now = open_database("sqlite", request, tmp_path), int(time.time())
    TableWrite(OutputMode.APPEND, has_table=True).prepare(database)
    old, new = (f"airflow_pushdown_{'a' * 12}_{moment:08x}_{'b' * 8}_0_{'c' * 8}" for moment in (0, now))
    for name in (old, new, "other"):
        (tmp_path / f"shop.db-{name}").touch()
    write_once(database, TableWrite(OutputMode.APPEND, has_table=True))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["shop.db", f"shop.db-{new}", "shop.db-other"]


def count_steps(address: DatabaseAddress, steps: list[None]) -> WriteConnection:
    """Return a connection that adds an element to a list for each of its steps."""
    return InterruptedConnection(connect_to_write(address), lambda: steps.append(None))


def _quiet(action: Callable[[], object]) -> None:
    """Run an action that may lose against another attempt."""
    with suppress(PushdownError):
        action()


@pytest.mark.parametrize("database", ["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)], indirect=True)
def test_connection_lost_after_the_commit_is_no_failure(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (id int)")
    with closing(connect_to_write(database.address)) as connection:
        ((number,),) = connection.rows("SELECT connection_id()")
        unlock = connection._unlock  # type: ignore[attr-defined]

        def lose_connection() -> None:
            database.execute(f"KILL {number}")
            unlock()

        monkeypatch.setattr(connection, "_unlock", lose_connection)
        with connection.transaction("lock"):
            connection.rows("INSERT INTO t VALUES (1)")
    assert database.rows("SELECT id FROM t") == [(1,)]
