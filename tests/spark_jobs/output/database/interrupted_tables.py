"""Processes that write a table without Spark, and are killed or stopped at a given step."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from pyspark.sql import types as t
from table_databases import Database

from pushdown_spark.contract import OutputMode, OutputSummary, TableOutputSpec
from pushdown_spark.databases.client import DatabaseAddress
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.write.write_connection import DatabaseCursor, WriteConnection, connect_to_write
from pushdown_spark.errors import LostConnectionError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.output.database.table_attempt import TableAttempt

SCHEMA = t.StructType().add("id", t.IntegerType()).add("day", t.StringType()).add("x", t.StringType())
NEW = [[(2, "b", "new 2"), (3, "b", "new 3")], [(4, "b", "new 4")]]
"""Rows by partition."""
OLD = [(1, "a", "old 1"), (2, "b", "old 2"), (2, "b", "old again")]
CONDITION = "day = 'b'"
Connect = Callable[[DatabaseAddress], WriteConnection]


class InterruptedConnection(WriteConnection):
    """A connection that calls a function before each step, with the number of the step in the process."""

    def __init__(self, connection: WriteConnection, before: Callable[[], None]) -> None:
        self._connection = connection
        self._before = before

    def _execute(self, sql: str, values: Sequence[object]) -> DatabaseCursor:
        self._before()
        return self._connection._execute(sql, values)

    def locate(self, schema: str | None, table: str) -> tuple[str, str, str]:
        self._before()
        return self._connection.locate(schema, table)

    def server_id(self) -> str:
        return self._connection.server_id()

    def create_part(self, table: str, suffix: str) -> None:
        self._before()
        self._connection.create_part(table, suffix)

    def attach(self, part: str) -> str:
        self._before()
        return self._connection.attach(part)

    def parts(self, prefix: str) -> list[str]:
        return self._connection.parts(prefix)

    def drop(self, table: str) -> None:
        self._before()
        self._connection.drop(table)

    def end_writers(self, table: str) -> None:
        self._before()
        self._connection.end_writers(table)

    def _load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        self._before()
        self._connection._load(table, columns, batch)

    def begin(self, lock: str = "") -> None:
        self._before()
        self._connection.begin(lock)

    def commit(self) -> None:
        self._before()
        self._connection.commit()

    def rollback(self) -> None:
        self._before()
        self._connection.rollback()

    def close(self) -> None:
        self._before()
        self._connection.close()


class LosingConnection(InterruptedConnection):
    """A connection that asks a function after each statement and commit whether it breaks before the response."""

    def __init__(self, connection: WriteConnection, is_lost: Callable[[], bool]) -> None:
        super().__init__(connection, lambda: None)
        self._is_lost = is_lost

    def _execute(self, sql: str, values: Sequence[object]) -> DatabaseCursor:
        cursor = super()._execute(sql, values)
        if self._is_lost():
            # An open cursor would keep SQLite's locks.
            cursor.close()
            self._lose()
        return cursor

    def commit(self) -> None:
        super().commit()
        if self._is_lost():
            self._lose()

    def _lose(self) -> None:
        self._connection.close()
        raise LostConnectionError("the connection was lost")


def lose_response(step: int, losses: list[int]) -> Connect:
    """Return a function that connects, and whose connections break before the response to a step. Steps count from 1.

    The step is added to `losses` if it is reached.
    """
    steps = count(1)

    def is_lost() -> bool:
        if next(steps) != step:
            return False
        losses.append(step)
        return True

    return lambda address: LosingConnection(connect_to_write(address), is_lost)


def interrupt(step: int, act: Callable[[], None]) -> Connect:
    """Return a function that connects, and whose connections call `act` before a step. Steps count from 1."""
    steps = count(1)

    def before() -> None:
        if next(steps) == step:
            act()

    return lambda address: InterruptedConnection(connect_to_write(address), before)


@dataclass(frozen=True)
class TableWrite:
    """A change of the table `t`."""

    mode: OutputMode
    has_table: bool
    replace_where: str = CONDITION

    @property
    def condition(self) -> str:
        """The condition in SQL of any database, or an empty string for other modes."""
        return self.replace_where if self.mode is OutputMode.OVERWRITE_PARTITIONS else ""

    @property
    def spec(self) -> TableOutputSpec:
        keys = ("id",) if self.mode is OutputMode.MERGE else ()
        return TableOutputSpec(table="t", mode=self.mode, merge_keys=keys, replace_where=self.condition or None)

    def prepare(self, database: Database) -> None:
        """Create the table as it is before the run."""
        database.clear()
        if self.has_table:
            self.create_table(database)

    def create_table(self, database: Database) -> None:
        """Create the table with the old rows."""
        values = ", ".join(f"({number}, '{day}', '{x}')" for number, day, x in OLD)
        engine = "ENGINE=InnoDB CHARACTER SET utf8mb4" if database.is_mysql else ""
        database.execute(
            f"CREATE TABLE t (id int, day varchar(9), x varchar(20)) {engine}", f"INSERT INTO t VALUES {values}"
        )

    def expected(self) -> list[tuple[object, ...]]:
        """Return the rows after one undisturbed run."""
        new = [row for partition in NEW for row in partition]
        old = OLD if self.has_table else []
        if self.mode is OutputMode.OVERWRITE:
            old = []
        elif self.mode is OutputMode.OVERWRITE_PARTITIONS:
            old = [row for row in old if row[1] != "b"]
        elif self.mode is OutputMode.MERGE and old:
            # Both rows with the key are updated.
            old, new = [OLD[0], NEW[0][0], NEW[0][0]], new[1:]
        return sorted([*old, *new])


def batch(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[0], pa.int32()), pa.array(columns[1]), pa.array(columns[2])], names=SCHEMA.names
    )


def write_once(
    database: Database,
    case: TableWrite,
    run: str = "run",
    connect: Connect = connect_to_write,
    partitions: Sequence[Sequence[tuple[object, ...]]] = NEW,
) -> TableAttempt:
    """Make all steps of one attempt as a driver and its tasks do."""
    attempt = TableAttempt(database.address, case.spec, run, connect=connect)
    if not attempt.prepare():
        return attempt
    try:
        writer = attempt.stage(SCHEMA, attempt.existing_table(), name_rule=ANY_CASE)
        for number, rows in enumerate(partitions):
            writer.load(number, iter([batch(rows)]))
        attempt.copy_parts()
        attempt.check(case.condition)
        attempt.commit(len(partitions), OutputSummary(mode=case.mode, columns={}))
    except BaseException:
        attempt.abort()
        raise
    return attempt


def fork(action: Callable[[], object]) -> int:
    """Run an action in a new process and return its id. It ends with 0, with 1 after an exception."""
    child = os.fork()
    if child:
        return child
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
