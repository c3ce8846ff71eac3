"""Runs killed or failing at any operation on files or the catalog: a retry leaves exactly what one run leaves.

The nightly module `test_catalog_hive.py` runs these tests with a Hive metastore.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from interrupted_catalogs import DATABASE, NEW, OLD, Table
from interrupted_files import (
    InterruptedCopies,
    InterruptedFiles,
    KilledError,
    expected_tree,
    failing_at,
    killed_at,
    tree_of,
    without_interruption,
)
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import PushdownError

IMPATIENT = 0.08
CHANGING = [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND]
NIGHTLY = pytest.mark.nightly
CASES = [
    pytest.param(OutputMode.OVERWRITE_PARTITIONS, True, id="overwrite_partitions"),
    pytest.param(OutputMode.ERROR_IF_EXISTS, False, id="create", marks=NIGHTLY),
    pytest.param(OutputMode.APPEND, True, id="append", marks=NIGHTLY),
    pytest.param(OutputMode.OVERWRITE, True, id="overwrite", marks=NIGHTLY),
    *(
        pytest.param(mode, False, id=f"{mode} missing", marks=NIGHTLY)
        for mode in OutputMode
        if mode not in (OutputMode.MERGE, OutputMode.ERROR_IF_EXISTS)
    ),
]
STORES = [
    pytest.param(InterruptedFiles, id="renames"),
    pytest.param(InterruptedCopies, id="copies", marks=NIGHTLY),
]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path.as_uri()}'")
    yield Table(spark, tmp_path)
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("mode", "has_table"), CASES)
def test_retry_after_kill_equals_one_run(
    table: Table, mode: OutputMode, has_table: bool, store: type[InterruptedFiles]
) -> None:
    table.has_table = has_table
    clean = expected_tree(mode, OLD if has_table else {}, NEW)
    for number in count(1):
        table.create()
        files = killed_at(number, store)
        with suppress(KilledError):
            table.write(table.open_attempt(mode, "run", files))
        if not files.is_reached:
            break
        again = table.open_attempt(mode, "run", without_interruption(store), patience=IMPATIENT)
        table.write(again)
        assert table.rows() == clean, f"killed before operation {number}"
        assert table.partitions() == sorted(clean), f"killed before operation {number}"
        assert table.hidden_files() == [], f"killed before operation {number}"
        table.drop()
    assert number > 12, "a commit has more operations than that"
    assert table.rows() == clean


@NIGHTLY
@pytest.mark.parametrize("mode", [OutputMode.IGNORE, OutputMode.ERROR_IF_EXISTS])
@pytest.mark.parametrize("has_table", [True, False])
def test_killed_run_keeps_a_table_of_another_program(table: Table, mode: OutputMode, has_table: bool) -> None:
    """The other program has created the table, or does so before the retry, unless the killed attempt committed."""
    outcomes = set()
    for number in count(1):
        table.has_table = has_table
        table.create()
        files = killed_at(number)
        with suppress(KilledError, PushdownError):
            table.write(table.open_attempt(mode, "run", files))
        is_committed = not has_table and table.exists()
        if not has_table and not is_committed and not table.directory.exists():
            table.has_table = True
            table.fill()
        with suppress(PushdownError):
            table.write(table.open_attempt(mode, "run"))
        outcomes.add(is_committed)
        own = expected_tree(mode, {}, NEW)
        actual = table.rows()
        assert actual == (own if is_committed or not table.has_table else tree_of(OLD)), f"killed before {number}"
        assert table.hidden_files() == [], f"killed before operation {number}"
        table.drop()
        if not files.is_reached:
            break
    assert outcomes == ({False} if has_table else {True, False})


@pytest.mark.parametrize("mode", [OutputMode.APPEND, pytest.param(OutputMode.IGNORE, marks=NIGHTLY)])
def test_table_that_another_program_creates_elsewhere_during_the_run_gets_no_rows(
    table: Table, spark: SparkSession, tmp_path: Path, mode: OutputMode
) -> None:
    table.has_table = False
    outcomes = set()
    for number in count(1):
        table.create()
        name, place = f"{DATABASE}.{table.name}", (tmp_path / f"other {number}").as_uri()

        def create(left: int, name: str = name, place: str = place) -> None:
            if left == 0:
                spark.sql(f"CREATE TABLE IF NOT EXISTS {name} (value STRING) USING text LOCATION '{place}'")

        files = InterruptedFiles(number, create)
        output = table.open_attempt(mode, "run", files)
        is_written = False
        with suppress(PushdownError):
            table.write(output)
            is_written = True
        if not files.is_reached:
            break
        is_own = "day" in spark.table(name).columns
        assert is_own == table.directory.exists(), f"created before operation {number}"
        assert spark.table(name).count() == (len(NEW) if is_own else 0)
        assert is_own == (is_written and output.summary is not None)
        assert table.hidden_files() == []
        outcomes.add(is_own)
        table.drop()
    assert outcomes == {True, False}


@NIGHTLY
@pytest.mark.parametrize("mode", CHANGING)
@pytest.mark.parametrize("store", STORES)
def test_other_run_after_kill_sees_old_or_new_rows(
    table: Table, mode: OutputMode, store: type[InterruptedFiles]
) -> None:
    outcomes = set()
    for number in count(1):
        table.create()
        files = killed_at(number, store)
        with suppress(KilledError):
            table.write(table.open_attempt(mode, "run", files))
        if not files.is_reached:
            break
        others = without_interruption(store)
        other = table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "other", others, patience=IMPATIENT)
        assert other.prepare()
        actual = table.rows()
        assert actual in (tree_of(OLD), expected_tree(mode, OLD, NEW)), f"killed before operation {number}"
        assert table.partitions() == sorted(actual), f"killed before operation {number}"
        outcomes.add(actual == tree_of(OLD))
        other.abort()
        table.drop()
    assert outcomes == {True, False}


@NIGHTLY
@pytest.mark.parametrize("times", [1, 2, 3, 5])
@pytest.mark.parametrize(("mode", "has_table"), CASES)
def test_failure_leaves_old_or_new_rows(table: Table, mode: OutputMode, has_table: bool, times: int) -> None:
    """Some consecutive operations fail. What the attempt cannot undo, the next run undoes or completes."""
    table.has_table = has_table
    old = OLD if has_table else {}
    for number in count(1):
        table.create()
        files = failing_at(number, times)
        with suppress(OSError):
            table.write(table.open_attempt(mode, "run", files))
        if not files.is_reached:
            break
        other = table.open_attempt(OutputMode.APPEND, "other", patience=IMPATIENT)
        if other.prepare():
            other.abort()
        actual = table.rows()
        assert actual in (tree_of(old), expected_tree(mode, old, NEW)), f"operations from {number} on failed"
        assert table.exists() == (has_table or actual != {}), f"operations from {number} on failed"
        if actual:
            assert table.partitions() == sorted(actual)
        table.write(table.open_attempt(mode, "run"))
        assert table.rows() == expected_tree(mode, old, NEW), f"operations from {number} on failed"
        assert table.hidden_files() == []
        table.drop()


@NIGHTLY
@pytest.mark.parametrize(("mode", "has_table"), CASES)
def test_killed_repair_is_repaired(table: Table, mode: OutputMode, has_table: bool) -> None:
    """The first attempt is killed while it commits. The second attempt is killed at each operation."""
    table.has_table = has_table
    for first in (10, 12, 14, 16):
        for number in count(1):
            table.create()
            with suppress(KilledError):
                table.write(table.open_attempt(mode, "run", killed_at(first)))
            files = killed_at(number)
            with suppress(KilledError):
                table.write(table.open_attempt(mode, "run", files))
            table.write(table.open_attempt(mode, "run"))
            assert table.rows() == expected_tree(mode, OLD if has_table else {}, NEW), (
                f"killed before {first} and {number}"
            )
            assert table.hidden_files() == [], f"killed before {first} and {number}"
            table.drop()
            if not files.is_reached:
                break


@NIGHTLY
@pytest.mark.parametrize("new", [NEW, {}], ids=["rows", "no rows"])
def test_retry_removes_replaced_partitions_without_new_rows(table: Table, new: dict[str, str]) -> None:
    where = "day BETWEEN 1 AND 4"
    for number in count(1):
        table.create()
        files = killed_at(number)
        with suppress(KilledError):
            table.write(table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "run", files, where=where), new)
        if not files.is_reached:
            break
        table.write(table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "run", where=where), new)
        assert table.rows() == tree_of(new), f"killed before operation {number}"
        assert table.partitions() == sorted(new)
        assert table.hidden_files() == []
        table.drop()


def test_file_output_does_not_complete_the_commit_of_a_table(table: Table, spark: SparkSession) -> None:
    """It does not know the catalog."""
    from interrupted_files import open_attempt

    refusals = 0
    for number in count(1):
        table.create()
        files = killed_at(number)
        with suppress(KilledError):
            table.write(table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "run", files))
        if not files.is_reached or refusals:
            break
        problem = None
        try:
            open_attempt(spark, table.directory, OutputMode.APPEND, "other", patience=IMPATIENT).prepare()
        except PushdownError as raised:
            problem = raised
        if problem is not None:
            assert "belongs to the table" in str(problem)
            refusals += 1
            # The failed repair keeps its lock.
            table.write(table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "run", patience=IMPATIENT))
            assert table.rows() == expected_tree(OutputMode.OVERWRITE_PARTITIONS, OLD, NEW)
        table.drop()
    assert refusals


def test_driver_that_stalls_before_the_catalog_drops_no_partition_of_a_later_run(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later run completes the stalled commit, which drops day=1, and then writes day=1."""
    table.create()
    stalled = without_interruption(InterruptedFiles)
    write_text = stalled.write_text

    def write_and_stall(path: str, text: str) -> None:
        write_text(path, text)
        if path.endswith(".progress"):
            monkeypatch.undo()
            table.write(
                table.open_attempt(OutputMode.OVERWRITE_PARTITIONS, "later", patience=IMPATIENT), {"day=1": "later 1"}
            )

    monkeypatch.setattr(stalled, "write_text", write_and_stall)
    with pytest.raises(PushdownError, match="another run has taken the lock"):
        table.write(table.open_attempt(OutputMode.OVERWRITE, "stalled", stalled))
    expected = {"day=1": ["later 1"], **tree_of(NEW)}
    assert table.rows() == expected
    assert table.partitions() == sorted(expected)
