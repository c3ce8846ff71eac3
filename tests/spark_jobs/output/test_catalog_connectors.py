"""Iceberg and Delta tables as targets: one version for each run, also after kills and repetitions.

The tests need a release of Spark for which both connectors exist. `make connectors` installs one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from interrupted_files import KilledError
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pushdown_spark.contract import CatalogOutputSpec, OutputMode
from pushdown_spark.errors import (
    BadPredicateError,
    BadSpecError,
    CheckFailedError,
    OutputExistsError,
    OutputTakenError,
    PushdownError,
    SchemaConflictError,
)
from pushdown_spark.output.catalog_targets import open_catalog_output
from pushdown_spark.output.connector_output import ConnectorOutput
from pushdown_spark.output.connector_tables import IcebergTable
from pushdown_spark.runtime.jvm_gateway import java_class

pytestmark = pytest.mark.nightly

CATALOG = "lakehouse"
OLD = [(1, "a", "old 1"), (2, "b", "old 2"), (3, "b", "old 3")]
NEW = [(2, "b", "new 2"), (4, "b", "new 4")]
Rows = list[tuple[int, str, str]]
EXPECTED: dict[OutputMode, Rows] = {
    OutputMode.APPEND: sorted([*OLD, *NEW]),
    OutputMode.OVERWRITE: NEW,
    OutputMode.OVERWRITE_PARTITIONS: [OLD[0], *NEW],
    OutputMode.MERGE: [OLD[0], NEW[0], OLD[2], NEW[1]],
}
CREATING = [mode for mode in OutputMode if mode is not OutputMode.MERGE]


@pytest.fixture(scope="module", autouse=True)
def _settings_of_the_session() -> None:
    """Replace the check of the session's settings, because the connectors add some."""


@pytest.fixture(scope="module", autouse=True)
def _catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    settings = {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(tmp_path_factory.mktemp("lakehouse")),
        # Delta reads its log with 50 tasks otherwise.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"CREATE TABLE {CATALOG}.db.probe (id INT) USING iceberg")
        spark.sql("CREATE TABLE probe (id INT) USING delta")
    except (PySparkException, Py4JError) as problem:
        pytest.skip(f"this Spark has no connectors for Iceberg and Delta: {str(problem).splitlines()[0]}")
    yield
    spark.sql(f"DROP TABLE {CATALOG}.db.probe")
    spark.sql("DROP TABLE probe")
    for key in settings:
        spark.conf.unset(key)


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Return the name of a table that does not exist."""
    name = f"{CATALOG}.db.t" if request.param == "iceberg" else "default.delta_t"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def output_of(
    spark: SparkSession, table: str, mode: OutputMode, run: str = "run", generation: str = "", **given: object
) -> ConnectorOutput:
    keys = {"merge_keys": ("id",)} if mode is OutputMode.MERGE else {}
    source_format = "iceberg" if table.startswith(CATALOG) else "delta"
    spec = CatalogOutputSpec(catalog_table=table, mode=mode, format=source_format, **{**keys, **given})
    output = open_catalog_output(spark, spec, run, generation)
    assert isinstance(output, ConnectorOutput)
    return output


def write(spark: SparkSession, output: ConnectorOutput, rows: Rows = NEW) -> ConnectorOutput:
    if output.prepare():
        with output.transaction():
            output.stage(spark.createDataFrame(rows, "id int, day string, x string"))
    return output


def create(spark: SparkSession, table: str) -> None:
    write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier", partition_by=("day",)), OLD)


def stored_rows(spark: SparkSession, table: str) -> Rows:
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


def versions(spark: SparkSession, table: str) -> int:
    if table.startswith(CATALOG):
        return spark.table(f"{table}.snapshots").count()
    return spark.sql(f"DESCRIBE HISTORY {table}").count()


@pytest.mark.parametrize("mode", EXPECTED)
def test_each_mode_writes_once_and_a_retry_adds_nothing(spark: SparkSession, table: str, mode: OutputMode) -> None:
    create(spark, table)
    output = write(spark, output_of(spark, table, mode, checks={"min_rows": 2, "unique": ["id"]}))
    assert stored_rows(spark, table) == EXPECTED[mode]
    assert output.summary is not None
    assert (output.summary.mode, output.summary.is_from_earlier_try) == (mode, False)
    assert output.summary.files > 0
    assert output.summary.bytes > 0
    assert output.summary.location
    before = versions(spark, table)
    again = write(spark, output_of(spark, table, mode))
    assert (again.committed_rows, versions(spark, table)) == (2, before)
    assert again.summary is not None
    assert again.summary.is_from_earlier_try


@pytest.mark.parametrize("mode", CREATING)
def test_missing_tables_are_created(spark: SparkSession, table: str, mode: OutputMode) -> None:
    write(spark, output_of(spark, table, mode, partition_by=("day",)))
    assert stored_rows(spark, table) == NEW
    again = write(spark, output_of(spark, table, mode))
    assert (again.committed_rows, stored_rows(spark, table)) == (2, NEW)
    if mode is OutputMode.ERROR_IF_EXISTS:
        with pytest.raises(OutputExistsError):
            output_of(spark, table, mode, "other").prepare()
    if mode is OutputMode.IGNORE:
        assert not output_of(spark, table, mode, "other").prepare()


def test_runs_without_rows_are_versions_too(spark: SparkSession, table: str) -> None:
    write(spark, output_of(spark, table, OutputMode.ERROR_IF_EXISTS), [])
    assert stored_rows(spark, table) == []
    write(spark, output_of(spark, table, OutputMode.APPEND, "second"), [])
    again = write(spark, output_of(spark, table, OutputMode.APPEND, "second"))
    assert (again.committed_rows, stored_rows(spark, table)) == (0, [])


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


def test_a_repetition_on_purpose_writes_again_where_rows_cannot_double(spark: SparkSession, table: str) -> None:
    create(spark, table)
    for mode in (OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE):
        write(spark, output_of(spark, table, mode, mode), NEW)
        write(spark, output_of(spark, table, mode, mode, generation="2"), [(2, "b", f"again {mode}")])
        assert (2, "b", f"again {mode}") in stored_rows(spark, table)
    before = stored_rows(spark, table)
    write(spark, output_of(spark, table, OutputMode.APPEND, "append"))
    write(spark, output_of(spark, table, OutputMode.APPEND, "append", generation="2"))
    assert stored_rows(spark, table) == sorted([*before, *NEW])


def test_replace_where_replaces_the_rows_for_which_it_is_true(spark: SparkSession, table: str) -> None:
    create(spark, table)
    mode = OutputMode.OVERWRITE_PARTITIONS
    write(spark, output_of(spark, table, mode, replace_where="day = 'b'"), [(9, "b", "nine")])
    assert stored_rows(spark, table) == [OLD[0], (9, "b", "nine")]
    with pytest.raises(CheckFailedError, match="is not true for 1 of the rows"):
        write(spark, output_of(spark, table, mode, "2", replace_where="day = 'b'"), [(9, "c", "nine")])
    with pytest.raises((BadPredicateError, PushdownError), match="replace_where"):
        output_of(spark, table, mode, "3", replace_where="nope = 1").prepare()
    write(spark, output_of(spark, table, mode, "4", replace_where="day = 'b'"), [])
    assert stored_rows(spark, table) == [OLD[0]]


def test_a_task_can_read_what_it_overwrites(spark: SparkSession, table: str) -> None:
    create(spark, table)
    output = output_of(spark, table, OutputMode.OVERWRITE)
    assert output.prepare()
    with output.transaction():
        output.stage(spark.table(table).selectExpr("id + 10 AS id", "day", "x"))
    assert [row[0] for row in stored_rows(spark, table)] == [11, 12, 13]


def test_errors_leave_the_table_as_it_was(spark: SparkSession, table: str) -> None:
    create(spark, table)
    before = versions(spark, table)
    with pytest.raises(CheckFailedError, match="unique"):
        write(spark, output_of(spark, table, OutputMode.APPEND, checks={"unique": ["day"]}))
    with pytest.raises(CheckFailedError, match="unique: id"):
        write(spark, output_of(spark, table, OutputMode.MERGE), [(1, "a", "x"), (1, "b", "y")])
    with pytest.raises(CheckFailedError, match="not_null: id"):
        write(spark, output_of(spark, table, OutputMode.MERGE), [(None, "a", "x")])  # type: ignore[list-item]
    output = output_of(spark, table, OutputMode.APPEND)
    assert output.prepare()
    with pytest.raises(SchemaConflictError, match="no column 'day'"), output.transaction():
        output.stage(spark.sql("SELECT 1 AS id, 'x' AS x"))
    for values in ("'1' AS id, 'b' AS day, 'x' AS x", "1 AS id, 'b' AS day, array('x') AS x"):
        with (
            pytest.raises(SchemaConflictError, match=r"output_table: column \w+ is .* in the rows"),
            output.transaction(),
        ):
            output.stage(spark.sql(f"SELECT {values}"))
    with pytest.raises(BadSpecError, match=r"partition_by: .* is partitioned by day, not by x"):
        output_of(spark, table, OutputMode.APPEND, partition_by=("x",)).prepare()
    assert versions(spark, table) == before


def test_checks_and_merges_see_the_stored_values(spark: SparkSession, table: str) -> None:
    source_format = "iceberg" if table.startswith(CATALOG) else "delta"
    spark.sql(f"CREATE TABLE {table} (day DATE, x STRING) USING {source_format}")
    spark.sql(f"INSERT INTO {table} VALUES (DATE'2026-01-01', 'old')")
    times = "SELECT timestamp(time) AS day, x FROM VALUES ('{}', 'new'), ('{}', 'new') AS rows(time, x)"
    changes: dict[OutputMode, dict[str, object]] = {
        OutputMode.APPEND: {"checks": {"unique": ["day"]}},
        OutputMode.MERGE: {"merge_keys": ("day",)},
        OutputMode.OVERWRITE_PARTITIONS: {"replace_where": "day <> DATE'2026-01-02'"},
    }
    for mode, given in changes.items():
        output = output_of(spark, table, mode, str(mode), **given)
        assert output.prepare()
        with pytest.raises(CheckFailedError), output.transaction():
            output.stage(spark.sql(times.format("2026-01-02 10:00", "2026-01-02 11:00")))
    output = output_of(spark, table, OutputMode.MERGE, merge_keys=("day",))
    assert output.prepare()
    with output.transaction():
        output.stage(spark.sql(times.format("2026-01-01 10:00", "2026-01-02 10:00")))
    assert [row["x"] for row in spark.table(table).collect()] == ["new", "new"]


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
    with pytest.raises(PushdownError, match=r"changed or dropped .* run the task again") as caught:
        output.commit()
    assert caught.value.code.retryable
    assert not spark.catalog.tableExists(table) if change == "dropped" else len(stored_rows(spark, table)) == len(OLD)


@pytest.mark.parametrize("step", ["change", "_is_picked"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_an_attempt_that_continues_after_its_retry_adds_nothing(
    spark: SparkSession, table: str, step: str, is_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry commits between the last check of the first attempt and its commit."""
    if is_empty:
        write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier"), [])
    else:
        create(spark, table)
    output = output_of(spark, table, OutputMode.APPEND)
    holder = output._table
    if not hasattr(holder, step):
        pytest.skip("Delta appends in one step")
    method: Callable[..., object] = getattr(holder, step)

    def resume(*args: object, **kwargs: object) -> object:
        write(spark, output_of(spark, table, OutputMode.APPEND))
        return method(*args, **kwargs)

    monkeypatch.setattr(holder, step, resume)
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

    def resume(given: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, mode))
        write(spark, output_of(spark, table, mode, "later"), later)
        return method(given)

    monkeypatch.setattr(output, step, resume)
    write(spark, output)
    kept: dict[OutputMode, Rows] = {
        OutputMode.OVERWRITE: [],
        OutputMode.OVERWRITE_PARTITIONS: OLD[:1],
        OutputMode.MERGE: [OLD[0], OLD[2]],
    }
    assert stored_rows(spark, table) == sorted([*kept[mode], *later])


@pytest.mark.parametrize("mode", EXPECTED)
def test_a_commit_of_another_run_in_between_is_kept(
    spark: SparkSession, table: str, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run commits after the rows were written to a branch. An overwrite comes after it."""
    create(spark, table)
    output = output_of(spark, table, mode)
    holder = output._table
    step = "_is_picked" if hasattr(holder, "_is_picked") else "change"
    method: Callable[..., object] = getattr(holder, step)
    other = (9, "c", "nine")

    def delay(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.APPEND, "other"), [other])
        return method(*args, **kwargs)

    monkeypatch.setattr(holder, step, delay)
    write(spark, output)
    assert output.summary is not None
    assert not output.summary.is_from_earlier_try
    kept = [] if mode is OutputMode.OVERWRITE else [other]
    assert stored_rows(spark, table) == sorted([*EXPECTED[mode], *kept])
    again = write(spark, output_of(spark, table, mode))
    assert again.committed_rows == 2


def test_a_merge_without_matches_sees_the_keys_that_another_run_adds_in_between(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg calls such a merge an append, which could be picked after any other commit."""
    write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier"), [])
    output = output_of(spark, table, OutputMode.MERGE)
    holder = output._table
    step = "_is_picked" if hasattr(holder, "_is_picked") else "change"
    method: Callable[..., object] = getattr(holder, step)

    def delay(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.MERGE, "other"), [(2, "b", "other 2")])
        return method(*args, **kwargs)

    monkeypatch.setattr(holder, step, delay)
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
    method: Callable[..., object] = holder._is_picked
    later = [(7, "c", "seven")]

    def resume(of_iceberg: JavaObject, branch: str, *args: object) -> object:
        monkeypatch.undo()
        write(spark, output_of(spark, table, OutputMode.OVERWRITE))
        write(spark, output_of(spark, table, OutputMode.OVERWRITE, "later"), later)
        every_row = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
        holder._iceberg().newOverwrite().overwriteByRowFilter(every_row).toBranch(branch).commit()
        return method(of_iceberg, branch, *args)

    monkeypatch.setattr(holder, "_is_picked", resume)
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


def test_a_run_without_rows_replaces_no_partition(spark: SparkSession, table: str) -> None:
    if not table.startswith(CATALOG):
        pytest.skip("Iceberg makes no version for it")
    create(spark, table)
    output = write(spark, output_of(spark, table, OutputMode.OVERWRITE_PARTITIONS), [])
    assert output.summary is not None
    assert (output.summary.files, output.summary.is_from_earlier_try) == (0, False)
    assert stored_rows(spark, table) == OLD
    assert versions(spark, table) == 1


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


def test_tables_of_files_beside_connectors_cannot_be_merged(spark: SparkSession) -> None:
    spec = CatalogOutputSpec(catalog_table="default.files", mode=OutputMode.MERGE, merge_keys=("id",))
    with pytest.raises(BadSpecError, match="merge needs a table of Iceberg or Delta"):
        open_catalog_output(spark, spec, "run")
