"""Iceberg and Delta tables after kills, late attempts and commits of other runs: one version for each run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from interrupted_files import KilledError
from lakehouse import CATALOG, CREATING, EXPECTED, NEW, OLD, Rows, create, output_of, stored_rows, versions, write
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import BadSpecError, OutputExistsError, OutputTakenError, PushdownError
from pushdown_spark.output.catalog import connector_tables
from pushdown_spark.output.catalog.connector_output import ConnectorOutput
from pushdown_spark.output.catalog.connector_tables import IcebergTable
from pushdown_spark.runtime.jvm_gateway import java_class

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("mode", EXPECTED)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["stage", "check", "_write", "_summarize", "abort"])
def test_retry_after_kill_equals_one_run(
    spark: SparkSession, table: str, mode: OutputMode, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, table)
    kill(spark, table, mode, step, when, monkeypatch)
    write(spark, output_of(spark, table, mode))
    assert stored_rows(spark, table) == EXPECTED[mode]


@pytest.mark.parametrize("mode", CREATING)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["stage", "check", "_write", "_summarize", "abort"])
def test_retry_after_kill_creates_the_table_once(
    spark: SparkSession, table: str, mode: OutputMode, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(spark, table, mode, step, when, monkeypatch)
    again = write(spark, output_of(spark, table, mode))
    assert stored_rows(spark, table) == NEW
    assert again.summary is not None
    assert versions(spark, table) == 1


@pytest.mark.parametrize("mode", [OutputMode.IGNORE, OutputMode.ERROR_IF_EXISTS])
@pytest.mark.parametrize("step", ["stage", "check"])
def test_killed_run_keeps_a_table_that_another_program_has_created(
    spark: SparkSession, table: str, mode: OutputMode, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(spark, table, mode, step, "after", monkeypatch)
    create(spark, table)
    with suppress(OutputExistsError):
        write(spark, output_of(spark, table, mode))
    assert stored_rows(spark, table) == OLD


def kill(
    spark: SparkSession, table: str, mode: OutputMode, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write a table with an attempt that is killed before or after a step."""
    method: Callable[..., object] = getattr(ConnectorOutput, step)

    def raise_killed(*args: object, **kwargs: object) -> object:
        if when == "after":
            method(*args, **kwargs)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(ConnectorOutput, step, raise_killed)
        with suppress(KilledError):
            write(spark, output_of(spark, table, mode))


@pytest.mark.parametrize("change", ["dropped", "changed"])
def test_a_table_that_another_program_changes_during_the_run_is_not_written(
    spark: SparkSession, table: str, change: str
) -> None:
    create(spark, table)
    output = output_of(spark, table, OutputMode.APPEND)
    assert output.prepare()
    output.stage(spark.createDataFrame(NEW, "id int, day string, x string"))
    output.check()
    spark.sql(f"DROP TABLE {table}" if change == "dropped" else f"ALTER TABLE {table} ADD COLUMN y INT")
    with pytest.raises(PushdownError, match=r"changed or dropped .* run the task again") as error:
        output.commit()
    assert error.value.code.retryable
    assert not spark.catalog.tableExists(table) if change == "dropped" else len(stored_rows(spark, table)) == len(OLD)


def test_a_second_failure_of_the_catalog_does_not_hide_the_first(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = output_of(spark, table, OutputMode.APPEND)
    assert output.prepare()
    output.stage(spark.createDataFrame(NEW, "id int, day string, x string"))
    output.check()

    def fail(*_: object) -> None:
        monkeypatch.setattr(output._table, "exists", lambda: spark.sql("SELECT second").first())
        spark.sql("SELECT first")

    monkeypatch.setattr(output, "_write", fail)
    with pytest.raises(PushdownError, match="first"):
        output.commit()


@pytest.mark.parametrize("mode", CREATING)
def test_a_table_that_another_program_creates_at_the_commit_keeps_its_rows(
    spark: SparkSession, table: str, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = output_of(spark, table, mode, partition_by=("day",))
    method: Callable[[], None] = output._create

    def delay() -> None:
        create(spark, table)
        method()

    monkeypatch.setattr(output, "_create", delay)
    if mode is OutputMode.IGNORE:
        write(spark, output)
    else:
        with pytest.raises(PushdownError, match=r"already exists|has created, changed or dropped") as error:
            write(spark, output)
        assert error.value.code.retryable == (mode is not OutputMode.ERROR_IF_EXISTS)
    assert output.summary is None
    assert stored_rows(spark, table) == OLD


def test_overwrite_partitions_keeps_a_table_without_partitions_that_another_program_has_created(
    spark: SparkSession, table: str
) -> None:
    output = output_of(spark, table, OutputMode.OVERWRITE_PARTITIONS, partition_by=("day",))
    assert output.prepare()
    output.stage(spark.createDataFrame(NEW, "id int, day string, x string"))
    output.check()
    write(spark, output_of(spark, table, OutputMode.APPEND, "other"), OLD)
    with pytest.raises(BadSpecError, match=r"partition_by: .* is partitioned by no column, not by day"):
        output.commit()
    assert stored_rows(spark, table) == OLD


def last_step(output: ConnectorOutput) -> tuple[object, str]:
    """Return the owner and the name of the function that commits the rows. Iceberg writes them before."""
    if isinstance(output._table, IcebergTable):
        return connector_tables, "_pick_snapshot"
    return output._table, "change"


@pytest.mark.parametrize("is_last_step", [False, True])
@pytest.mark.parametrize("is_empty", [True, False])
def test_an_attempt_that_continues_after_its_retry_adds_nothing(
    spark: SparkSession, table: str, is_last_step: bool, is_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry commits between the last check of the first attempt and its commit."""
    if is_empty:
        write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier"), [])
    else:
        create(spark, table)
    output = output_of(spark, table, OutputMode.APPEND)
    if is_last_step and not isinstance(output._table, IcebergTable):
        pytest.skip("Delta appends in one step")
    owner, step = last_step(output) if is_last_step else (output._table, "change")
    method: Callable[..., object] = getattr(owner, step)

    def resume(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.APPEND))
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, step, resume)
    write(spark, output)
    assert stored_rows(spark, table) == (NEW if is_empty else EXPECTED[OutputMode.APPEND])
    assert output.summary is not None
    assert output.summary.is_from_earlier_try
    if table.startswith(CATALOG):
        assert [row["name"] for row in spark.table(f"{table}.refs").collect()] == ["main"]


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE])
@pytest.mark.parametrize("step", ["_write", "_change"])
def test_an_attempt_that_continues_after_a_later_run_does_not_undo_it(
    spark: SparkSession, table: str, mode: OutputMode, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry and a later run commit between the last check of the first attempt and its commit."""
    create(spark, table)
    output = output_of(spark, table, mode)
    method: Callable[[object], object] = getattr(output, step)
    later = [(2, "b", "later 2"), (4, "b", "later 4")]

    def resume(value: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, mode))
        write(spark, output_of(spark, table, mode, "later"), later)
        return method(value)

    monkeypatch.setattr(output, step, resume)
    write(spark, output)
    rows_of_mode: dict[OutputMode, Rows] = {
        OutputMode.OVERWRITE: [],
        OutputMode.OVERWRITE_PARTITIONS: OLD[:1],
        OutputMode.MERGE: [OLD[0], OLD[2]],
    }
    assert stored_rows(spark, table) == sorted([*rows_of_mode[mode], *later])


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE])
@pytest.mark.parametrize("step", ["_write", "_change"])
def test_an_attempt_that_continues_after_the_run_was_cleared_does_not_undo_it(
    spark: SparkSession, table: str, mode: OutputMode, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has a new generation, which commits between the last check of the old one and its commit."""
    create(spark, table)
    output = output_of(spark, table, mode)
    method: Callable[[object], object] = getattr(output, step)
    cleared = [(2, "b", "cleared 2"), (4, "b", "cleared 4")]

    def resume(value: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, mode, generation="cleared"), cleared)
        return method(value)

    monkeypatch.setattr(output, step, resume)
    if step == "_change" and not isinstance(output._table, IcebergTable):
        pytest.skip("Delta changes the table in one step")
    with pytest.raises(PushdownError, match=r"before or after a clear .* run the task again"):
        write(spark, output)
    rows_of_mode: dict[OutputMode, Rows] = {
        OutputMode.OVERWRITE: [],
        OutputMode.OVERWRITE_PARTITIONS: OLD[:1],
        OutputMode.MERGE: [OLD[0], OLD[2]],
    }
    assert stored_rows(spark, table) == sorted([*rows_of_mode[mode], *cleared])


@pytest.mark.parametrize("mode", EXPECTED)
def test_a_commit_of_another_run_in_between_is_kept(
    spark: SparkSession, table: str, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run commits after the rows were written to a branch. An overwrite comes after it."""
    create(spark, table)
    output = output_of(spark, table, mode)
    owner, step = last_step(output)
    method: Callable[..., object] = getattr(owner, step)
    other = (9, "c", "nine")

    def delay(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.APPEND, "other"), [other])
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, step, delay)
    write(spark, output)
    assert output.summary is not None
    assert not output.summary.is_from_earlier_try
    rest = [] if mode is OutputMode.OVERWRITE else [other]
    assert stored_rows(spark, table) == sorted([*EXPECTED[mode], *rest])
    again = write(spark, output_of(spark, table, mode))
    assert again.committed_rows == 2


def test_a_merge_without_matches_sees_the_keys_that_another_run_adds_in_between(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg calls such a merge an append, which could be picked after any other commit."""
    write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier"), [])
    output = output_of(spark, table, OutputMode.MERGE)
    owner, step = last_step(output)
    method: Callable[..., object] = getattr(owner, step)

    def delay(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.MERGE, "other"), [(2, "b", "other 2")])
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, step, delay)
    write(spark, output)
    assert stored_rows(spark, table) == NEW


def test_an_overwrite_that_continues_on_a_branch_without_its_start_is_not_picked(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry drops the branch during the write. Iceberg creates it again from the version of the later run."""
    create(spark, table)
    output = output_of(spark, table, OutputMode.OVERWRITE)
    holder = output._table
    if not isinstance(holder, IcebergTable):
        pytest.skip("Delta writes to the table itself")
    method: Callable[..., object] = connector_tables._pick_snapshot
    later = [(7, "c", "seven")]

    def resume(of_iceberg: JavaObject, branch: str, *args: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.OVERWRITE))
        write(spark, output_of(spark, table, OutputMode.OVERWRITE, "later"), later)
        every_row = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
        holder._iceberg().newOverwrite().overwriteByRowFilter(every_row).toBranch(branch).commit()
        return method(of_iceberg, branch, *args)

    monkeypatch.setattr(connector_tables, "_pick_snapshot", resume)
    write(spark, output)
    assert stored_rows(spark, table) == later


def test_an_attempt_whose_branch_the_retry_has_dropped_says_so(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, table)
    output = output_of(spark, table, OutputMode.APPEND)
    if not isinstance(output._table, IcebergTable):
        pytest.skip("Delta writes to the table itself")
    method: Callable[[str], None] = output._change

    def resume(branch: str) -> None:
        output_of(spark, table, OutputMode.APPEND).prepare()
        method(branch)

    monkeypatch.setattr(output, "_change", resume)
    with pytest.raises(OutputTakenError, match=f"another attempt of this run has begun to write {table}"):
        write(spark, output)
    assert stored_rows(spark, table) == OLD


@pytest.mark.parametrize("runs", [("a", "b"), ("a", "a")], ids=["two runs", "one run twice"])
def test_concurrent_appends_add_each_run_once(spark: SparkSession, table: str, runs: tuple[str, str]) -> None:
    create(spark, table)
    # Two runs are two applications. The settings that name a run in Delta belong to the session.
    sessions = [SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()) for _ in runs]
    for number in range(50):
        before = len(stored_rows(spark, table))

        def attempt(session: SparkSession, run: str) -> None:
            with suppress(PushdownError):
                write(session, output_of(session, table, OutputMode.APPEND, run))

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(attempt, sessions, [f"{run}{number}" for run in runs]))
        for run in runs:
            write(spark, output_of(spark, table, OutputMode.APPEND, f"{run}{number}"))
        assert len(stored_rows(spark, table)) - before == 2 * len(set(runs))
