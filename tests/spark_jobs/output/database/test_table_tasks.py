"""Attempts of Spark tasks that load a table: the rows of each partition count once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
import pytest
from databases import wait_until
from interrupted_tables import NEW, OLD, SCHEMA, InterruptedConnection, TableWrite, batch, write_once
from pyspark.sql import SparkSession
from table_databases import KINDS, Database, open_database, output_of

from pushdown_spark.contract import OutputChecks, OutputMode, OutputSummary, TableOutputSpec
from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.sql.identifiers import with_suffix
from pushdown_spark.databases.write.sqlite_writer import SqliteWriter
from pushdown_spark.databases.write.write_connection import DatabaseCursor, WriteConnection, connect_to_write
from pushdown_spark.errors import LostConnectionError, OutputExistsError, PushdownError, RemoteFailedError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.output.database import staging_tables
from pushdown_spark.output.database.database_output import DatabaseOutput
from pushdown_spark.output.database.table_attempt import TableAttempt

ROOT = Path(__file__).resolve().parents[4]
DRIVER = """
import os, signal, sys, time
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pushdown_spark.contract import RemoteConnection, TableOutputSpec
from pushdown_spark.output.database.database_output import open_database_output

connection, kind, mode = RemoteConnection.model_validate_json(sys.stdin.read()), *sys.argv[1:]
spark = (SparkSession.builder.master("local[4,4]").config("spark.ui.enabled", "false")
         .config("spark.log.level", "OFF").config("spark.speculation", "true")
         .config("spark.speculation.interval", "50ms").config("spark.speculation.multiplier", "1.1")
         .config("spark.speculation.quantile", "0.2").config("spark.speculation.minTaskRuntime", "50ms").getOrCreate())

def disturbed(batches):
    # Kill or delay the first attempt of some tasks after their first rows.
    context = TaskContext.get()
    for batch in batches:
        yield batch
        if context.attemptNumber() == 0 and context.partitionId() % 3 == 0:
            if kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(3)

frame = spark.range(0, 3000, 1, 6).mapInArrow(disturbed, "id bigint").repartition(6)
output = open_database_output(spark, TableOutputSpec(table="t", mode=mode), connection, "run")
assert output.prepare()
with output.transaction():
    output.stage(frame.mapInArrow(disturbed, "id bigint"))
"""


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.OVERWRITE])
def test_second_attempt_of_a_partition_adds_nothing(database: Database, mode: OutputMode) -> None:
    """Two attempts load at the same time. Only rows of the first one to finish count."""
    case = TableWrite(mode, has_table=mode is OutputMode.OVERWRITE)
    case.prepare(database)
    attempt = TableAttempt(database.address, case.spec, "run")
    assert attempt.prepare()
    writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
    other = [(7, "z", "other attempt")]

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(NEW[0][:1])
        assert writer.load(0, iter([batch(other)]))[1:] == (1, True)
        yield batch(NEW[0][1:])

    assert writer.load(0, slow())[1:] == (2, False)
    writer.load(1, iter([batch(NEW[1])]))
    writer.load(1, iter([batch(other)]))
    attempt.copy_parts()
    attempt.commit(2, OutputSummary(mode=case.mode, columns={}))
    assert sorted(database.rows("SELECT id, day, x FROM t")) == sorted([*other, *NEW[1]])
    assert database.tables() == ["t"]


def test_rows_of_a_task_whose_report_was_lost_are_not_committed(database: Database) -> None:
    """The rows of a partition may be others in the next attempt, which finds the partition recorded."""
    case = TableWrite(OutputMode.APPEND, has_table=True)
    case.prepare(database)
    attempt = TableAttempt(database.address, case.spec, "run")
    assert attempt.prepare()
    writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
    lost, *_ = writer.load(0, iter([batch(NEW[0])]))
    accepted, *_ = writer.load(0, iter([batch(NEW[1])]))
    other, *_ = writer.load(1, iter([batch(NEW[1])]))
    with pytest.raises(RemoteFailedError, match="loaded partition 0"):
        attempt.check_accepted({0: accepted, 1: other})
    attempt.check_accepted({0: lost, 1: other})


@pytest.mark.parametrize(
    ("mode", "has_table", "checks"),
    [
        pytest.param(OutputMode.APPEND, True, {}, id="append"),
        pytest.param(OutputMode.APPEND, True, {"unique": ["id"]}, id="unique"),
        pytest.param(OutputMode.OVERWRITE, True, {}, id="overwrite"),
        pytest.param(OutputMode.MERGE, True, {}, id="merge"),
        pytest.param(OutputMode.APPEND, False, {}, id="missing"),
    ],
)
def test_commit_does_not_wait_for_a_task_that_has_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch, mode: OutputMode, has_table: bool, checks: dict[str, object]
) -> None:
    """The task still loads. Its staging table may stay until a later run."""
    monkeypatch.setattr(staging_tables, "_USE_SECONDS", 1)
    case = TableWrite(mode, has_table)
    case.prepare(database)
    spec = case.spec.model_copy(update={"checks": OutputChecks.model_validate(checks)})
    attempt = TableAttempt(database.address, spec, "run")
    assert attempt.prepare()
    writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
    is_loading, is_committed = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(NEW[0])
        is_loading.set()
        is_committed.wait()

    with ThreadPoolExecutor(2) as threads:
        loser = threads.submit(writer.load, 0, slow())
        try:
            assert is_loading.wait(120)
            for number, rows in enumerate(NEW):
                writer.load(number, iter([batch(rows)]))
            attempt.copy_parts()
            attempt.check()
            commit = threads.submit(attempt.commit, len(NEW), OutputSummary(mode=case.mode, columns={}))
            assert commit.result(timeout=120) is not None
        finally:
            is_committed.set()
        with pytest.raises(PushdownError):
            loser.result()
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert not TableAttempt(database.address, spec, "run").prepare()
    assert database.tables() == ["t"]


class ImpatientWriter(SqliteWriter):
    """A connection that does not wait for locks, and counts the statements that a lock has stopped."""

    refused: ClassVar[list[str]] = []

    @classmethod
    def open(cls, address: DatabaseAddress) -> Self:
        writer = super().open(address)
        writer.rows("PRAGMA busy_timeout = 0")
        return writer

    def _execute(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        try:
            return super()._execute(sql, values)
        except LostConnectionError:
            self.refused.append(sql)
            raise


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
@pytest.mark.parametrize("has_table", [True, False], ids=["existing", "missing"])
def test_clean_up_of_sqlite_ends_at_the_first_statement_that_a_lock_stops(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, has_table: bool, lock: str
) -> None:
    """The error names the tables that remain, and the next attempt deletes them."""
    database, case = open_database("sqlite", request, tmp_path), TableWrite(OutputMode.OVERWRITE, has_table)
    case.prepare(database)
    attempt = TableAttempt(database.address, case.spec, "run", connect=ImpatientWriter.open)
    output = DatabaseOutput(spark, case.spec, database.connection, attempt)
    assert output.prepare()
    load(attempt, NEW)
    ImpatientWriter.refused.clear()
    with closing(sqlite3.connect(str(database.connection.database), isolation_level=None)) as other:
        other.execute(f"BEGIN {lock}")
        with pytest.raises(LostConnectionError, match="locked") as error, output.transaction():
            pass
    assert len(ImpatientWriter.refused) == 2  # the commit and the clean-up
    (note,) = error.value.__notes__
    assert f"rows at {output.staging_location} could not be deleted" in note
    assert note.endswith("The next try of this run deletes them")
    assert attempt.staging is not None
    assert attempt.staging.name in database.tables()
    write_once(database, case)
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert database.tables() == ["t"]


def connect_to_full_disk(address: DatabaseAddress, pages: int) -> WriteConnection:
    """Return a connection to a SQLite file that can have a number of pages."""
    connection = connect_to_write(address)
    connection.rows(f"PRAGMA max_page_count = {pages}")
    return connection


@pytest.mark.parametrize("has_table", [True, False], ids=["existing", "missing"])
def test_a_retry_writes_the_rows_for_which_the_disk_had_no_space(
    tmp_path: Path, request: pytest.FixtureRequest, has_table: bool
) -> None:
    database, case = open_database("sqlite", request, tmp_path), TableWrite(OutputMode.APPEND, has_table)
    rows = [(number, "b", "x" * 100) for number in range(2, 202)]
    expected = sorted([*(OLD if has_table else []), *rows])
    failures = 0
    for pages in count(1):
        case.prepare(database)
        database.execute("VACUUM")
        ((used,),) = database.rows("PRAGMA page_count")
        connect = partial(connect_to_full_disk, pages=int(str(used)) + pages)
        try:
            write_once(database, case, connect=connect, partitions=[rows])
            break
        except LostConnectionError as problem:
            assert "database or disk is full" in str(problem)  # noqa: PT017
            failures += 1
        if has_table:
            assert sorted(database.rows("SELECT id, day, x FROM t")) == sorted(OLD)
        write_once(database, case, partitions=[rows])
        assert sorted(database.rows("SELECT id, day, x FROM t")) == expected
        assert database.tables() == ["t"]
    assert failures > 5
    assert sorted(database.rows("SELECT id, day, x FROM t")) == expected


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.IGNORE, OutputMode.ERROR_IF_EXISTS])
def test_a_table_that_another_program_creates_at_the_commit_is_found_by_the_retry(
    mode: OutputMode, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The staging table waits to be renamed until the other program commits."""
    database, case = open_database("postgresql", request, tmp_path), TableWrite(mode, has_table=False)
    attempt = TableAttempt(database.address, case.spec, "run")
    assert attempt.prepare()
    load(attempt, NEW)
    with ThreadPoolExecutor(1) as threads, closing(connect_to_write(database.address)) as other:
        other.begin()
        other.rows("CREATE TABLE t (id int, day text, x text)")
        commit = threads.submit(attempt.commit, len(NEW), OutputSummary(mode=mode, columns={}))
        assert wait_until(lambda: bool(database.rows("SELECT pid FROM pg_locks WHERE NOT granted")))
        other.commit()
        with pytest.raises(RemoteFailedError, match="was created by another program at the commit"):
            commit.result()
    with suppress(OutputExistsError):
        write_once(database, case)
    assert sorted(database.rows("SELECT id, day, x FROM t")) == (case.expected() if mode is OutputMode.APPEND else [])
    assert database.tables() == ["t"]


@pytest.mark.nightly
@pytest.mark.parametrize("product", ["mariadb", "mysql"])
def test_retry_that_begins_before_the_staging_table_is_renamed_keeps_its_rows(
    product: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry cannot delete the staging table, which is in use. The first attempt dies after the rename."""
    monkeypatch.setattr(staging_tables, "_USE_SECONDS", 1)
    database, case = open_database(product, request, tmp_path), TableWrite(OutputMode.APPEND, has_table=False)
    case.prepare(database)
    first = TableAttempt(database.address, case.spec, "run", connect=dying_after_rename)
    assert first.prepare()
    writer = first.stage(SCHEMA, None, name_rule=ANY_CASE)
    for number, rows in enumerate(NEW):
        writer.load(number, iter([batch(rows)]))
    first.copy_parts()
    with closing(connect_to_write(database.address)) as reader:
        reader.begin()
        for table in (writer.table, with_suffix(writer.table, "_p")):
            reader.rows(f"SELECT count(*) FROM {table}")
        transactions = count(1)

        def before_claim() -> None:
            if next(transactions) == 2:
                reader.rollback()
                with pytest.raises(KilledError):
                    first.commit(len(NEW), OutputSummary(mode=case.mode, columns={}))

        write_once(database, case, connect=lambda address: WatchedConnection(connect_to_write(address), before_claim))
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert database.tables() == ["t"]


@pytest.mark.nightly
@pytest.mark.parametrize("product", ["mariadb", "mysql"])
def test_attempt_that_stalls_after_its_rename_keeps_the_claim_of_a_repeated_run(
    product: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A user clears the task in the meantime."""
    database, case = open_database(product, request, tmp_path), TableWrite(OutputMode.OVERWRITE, has_table=False)
    case.prepare(database)
    second = TableAttempt(database.address, case.spec, "run", "cleared")

    def connect(address: DatabaseAddress) -> WriteConnection:
        return RenamingConnection(connect_to_write(address), lambda: second.prepare())

    write_once(database, case, connect=connect)
    load(second, NEW[1:])
    assert second.commit(1, OutputSummary(mode=case.mode, columns={})) is not None
    assert sorted(database.rows("SELECT id, day, x FROM t")) == NEW[1]
    assert database.tables() == ["t"]


IDLE_LIMITS = {
    "postgresql": ["ALTER DATABASE shop SET idle_in_transaction_session_timeout = '1s'"],
    "mariadb": ["SET GLOBAL wait_timeout = 1", "SET GLOBAL idle_transaction_timeout = 1"],
    "mysql": ["SET GLOBAL wait_timeout = 1"],
}
"""Statements after which a server ends a session that sends nothing for a second."""
NO_IDLE_LIMITS = {
    "postgresql": ["ALTER DATABASE shop RESET idle_in_transaction_session_timeout"],
    "mariadb": ["SET GLOBAL wait_timeout = DEFAULT", "SET GLOBAL idle_transaction_timeout = DEFAULT"],
    "mysql": ["SET GLOBAL wait_timeout = DEFAULT"],
}


@pytest.mark.parametrize("database", [kind for kind in KINDS if kind != "sqlite"], indirect=True)
def test_a_server_does_not_end_the_session_of_a_task_that_waits_for_rows(database: Database) -> None:
    case = TableWrite(OutputMode.APPEND, has_table=True)
    case.prepare(database)

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(NEW[0])
        time.sleep(3)
        yield batch(NEW[1])

    database.execute(*IDLE_LIMITS[database.product])
    try:
        attempt = TableAttempt(database.address, case.spec, "run")
        assert attempt.prepare()
        writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
        writer.load(0, slow())
        attempt.copy_parts()
        attempt.commit(1, OutputSummary(mode=case.mode, columns={}))
    finally:
        database.execute(*NO_IDLE_LIMITS[database.product])
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()


WAITING = {
    "postgresql": "SELECT pid FROM pg_locks WHERE NOT granted",
    **dict.fromkeys(
        ("mariadb", "mysql"),
        "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    ),
}
"""A query for the session that waits for another one."""
END = {
    ("postgresql", "statement"): "SELECT pg_cancel_backend({})",
    ("postgresql", "session"): "SELECT pg_terminate_backend({})",
    **{(product, "statement"): "KILL QUERY {}" for product in ("mariadb", "mysql")},
    **{(product, "session"): "KILL CONNECTION {}" for product in ("mariadb", "mysql")},
}


@pytest.mark.parametrize("database", [kind for kind in KINDS if kind != "sqlite"], indirect=True)
@pytest.mark.parametrize("target", ["statement", "session"])
def test_a_commit_whose_statement_or_session_an_administrator_ends_is_retried(database: Database, target: str) -> None:
    """The statement waits for another program."""
    case = TableWrite(OutputMode.OVERWRITE, has_table=True)
    case.prepare(database)
    attempt = TableAttempt(database.address, case.spec, "run")
    assert attempt.prepare()
    load(attempt, NEW)
    with ThreadPoolExecutor(1) as threads, closing(connect_to_write(database.address)) as other:
        other.begin()
        other.rows("UPDATE t SET x = 'other'")
        commit = threads.submit(attempt.commit, len(NEW), OutputSummary(mode=case.mode, columns={}))
        assert wait_until(lambda: bool(database.rows(WAITING[database.product])))
        database.execute(END[database.product, target].format(*database.rows(WAITING[database.product])[0]))
        with pytest.raises(RemoteFailedError):
            commit.result()
        other.rollback()
    write_once(database, case)
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert database.tables() == ["t"]


def test_runs_on_two_tables_create_one_ledger(database: Database) -> None:
    """The second run begins before the first one has committed the ledger."""
    is_created, is_committed = threading.Event(), threading.Event()

    def connect(address: DatabaseAddress) -> WriteConnection:
        return SlowConnection(connect_to_write(address), is_created, is_committed)

    specs = [TableOutputSpec(table=name, mode=OutputMode.APPEND) for name in ("t1", "t2")]
    first = TableAttempt(database.address, specs[0], "run", connect=connect)
    second = TableAttempt(database.address, specs[1], "run")
    with ThreadPoolExecutor(2) as threads:
        outcomes = [threads.submit(first.prepare)]
        assert is_created.wait(120)
        outcomes.append(threads.submit(second.prepare))
        with pytest.raises(TimeoutError):
            outcomes[1].result(timeout=1)
        is_committed.set()
        assert [outcome.result(timeout=120) for outcome in outcomes] == [True, True]


class KilledError(BaseException):
    """The end of an attempt."""


class RenamingConnection(InterruptedConnection):
    """A connection that calls a function after it has renamed a table."""

    def __init__(self, connection: WriteConnection, after: Callable[[], object]) -> None:
        super().__init__(connection, lambda: None)
        self._after = after

    def _execute(self, sql: str, values: Sequence[object]) -> DatabaseCursor:
        cursor = super()._execute(sql, values)
        if sql.startswith("RENAME TABLE"):
            self._after()
        return cursor


class SlowConnection(InterruptedConnection):
    """A connection that waits before its first commit."""

    def __init__(self, connection: WriteConnection, begun: threading.Event, may_commit: threading.Event) -> None:
        super().__init__(connection, lambda: None)
        self._begun, self._may_commit = begun, may_commit

    def commit(self) -> None:
        self._begun.set()
        assert self._may_commit.wait(120)
        super().commit()


class WatchedConnection(InterruptedConnection):
    """A connection that calls a function before each transaction with a lock."""

    def __init__(self, connection: WriteConnection, before: Callable[[], None]) -> None:
        super().__init__(connection, lambda: None)
        self._before_lock = before

    def begin(self, lock: str = "") -> None:
        if lock:
            self._before_lock()
        super().begin(lock)


def dying_after_rename(address: DatabaseAddress) -> WriteConnection:
    """Return a connection whose process dies after it has renamed a table."""

    def die() -> None:
        raise KilledError

    return RenamingConnection(connect_to_write(address), die)


def load(attempt: TableAttempt, partitions: Sequence[Sequence[tuple[object, ...]]]) -> None:
    """Stage and load the rows of an attempt that has begun."""
    writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
    for number, rows in enumerate(partitions):
        writer.load(number, iter([batch(rows)]))
    attempt.copy_parts()


@pytest.mark.parametrize("has_table", [True, False], ids=["existing", "missing"])
def test_sqlite_is_not_locked_while_tasks_load(tmp_path: Path, has_table: bool, request: pytest.FixtureRequest) -> None:
    """The files of tasks are as readable as the database, and none of them stays."""
    database = open_database("sqlite", request, tmp_path)
    path = Path(str(database.connection.database))
    path.chmod(0o600)
    case = TableWrite(OutputMode.OVERWRITE, has_table)
    case.prepare(database)
    attempt = TableAttempt(database.address, case.spec, "run")
    assert attempt.prepare()
    writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)

    def loading() -> Iterator[pa.RecordBatch]:
        yield batch(NEW[0])
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("CREATE TABLE other (id int)")
        (part,) = (each for each in tmp_path.iterdir() if "airflow_pushdown" in each.name)
        assert part.stat().st_mode == path.stat().st_mode
        yield batch(NEW[1])

    assert writer.load(0, loading())[1:] == (3, True)
    with pytest.raises(ValueError, match="disturbed"):
        writer.load(1, slow_rows())
    attempt.copy_parts()
    attempt.commit(1, OutputSummary(mode=case.mode, columns={}))
    assert sorted(database.rows("SELECT id, day, x FROM t")) == case.expected()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def slow_rows() -> Iterator[pa.RecordBatch]:
    yield batch(NEW[1])
    raise ValueError("disturbed")


def test_rows_missing_from_the_staging_table_are_an_error(spark: SparkSession, database: Database) -> None:
    """A database that crashes empties unlogged tables."""
    output = output_of(spark, database)
    assert output.prepare()
    output.stage(spark.range(10))
    database.execute(f"DELETE FROM {output.staging_location}")
    with pytest.raises(RemoteFailedError, match="has 0 rows, but the tasks loaded 10"), output.transaction():
        pass
    assert database.tables() == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["kill", "delay"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_of_killed_and_speculative_tasks_count_once(database: Database, kind: str, mode: str) -> None:
    if database.product == "sqlite":
        pytest.skip("SQLite is written by one task")
    if mode == "overwrite":
        database.execute("CREATE TABLE t (id bigint)", "INSERT INTO t VALUES (1)")
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, kind, mode],
        input=database.connection.model_dump_json(),
        env={**os.environ, "PYTHONPATH": str(ROOT / "spark_jobs"), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert database.rows("SELECT count(*), count(DISTINCT id) FROM t") == [(3000, 3000)]
    assert database.tables() == ["t"]


def test_plans_and_representations_hide_the_password(spark: SparkSession, database: Database) -> None:
    output = output_of(spark, database)
    assert output.prepare()
    output.stage(spark.range(3))
    password = database.connection.password
    plans = str(spark._jsparkSession.sharedState().statusStore().executionsList().mkString())
    output.abort()
    if password is not None:
        assert password not in plans
        assert password not in repr(output.__dict__)
