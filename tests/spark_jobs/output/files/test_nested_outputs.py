"""Runs that write an output and one of its partitions as an output of its own: one fails before rows are lost."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from interrupted_files import InterruptedFiles, KilledError, hidden_files, killed_at, open_attempt, stage, tree, write
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import PushdownError
from pushdown_spark.output.files.file_output import FileOutput

PARTITIONS, APPEND, OVERWRITE = OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND, OutputMode.OVERWRITE
OLD = {"day=1/hour=1": "old 1", "day=2/hour=2": "old 2"}
LEVELS = pytest.mark.parametrize("level", ["day=1", "day=1/hour=1"])


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> Path:
    """Return an output with two partitions, in a directory whose name has glob characters."""
    target = tmp_path / "[a]*" / "out"
    write(outer_attempt(spark, target, OVERWRITE, "old"), OLD)
    return target


def outer_attempt(spark: SparkSession, target: Path, mode: OutputMode, run: str) -> FileOutput:
    return open_attempt(spark, target, mode, run, partition_by=("day", "hour"))


def inner_attempt(
    spark: SparkSession, target: Path, mode: OutputMode, run: str, files: InterruptedFiles | None = None
) -> FileOutput:
    below = ("hour",) if target.name.startswith("day") else ()
    patience = 0.1 if run == "other" else 60.0
    return open_attempt(spark, target, mode, run, files=files, patience=patience, partition_by=below)


@LEVELS
def test_rows_appended_to_a_partition_during_a_run_on_the_whole_are_not_lost(
    spark: SparkSession, target: Path, level: str
) -> None:
    """A task compacts an output. It does not know the rows that another task appends in the meantime."""
    compaction = outer_attempt(spark, target, PARTITIONS, "compaction")
    assert compaction.prepare()
    stage(compaction, OLD)
    append = inner_attempt(spark, target / level, APPEND, "append")
    with pytest.raises(PushdownError, match=r"another run is writing .*/out, and .*day=1.* is a partition of"):
        append.prepare()
    with compaction.transaction():
        pass
    rows = {"" if level.endswith("hour=1") else "hour=1": "appended"}
    write(inner_attempt(spark, target / level, APPEND, "append"), rows)
    assert tree(target) == {"day=1/hour=1": ["appended", "old 1"], "day=2/hour=2": ["old 2"]}
    assert hidden_files(target) == []


@LEVELS
def test_a_run_on_the_whole_fails_while_another_run_writes_a_partition(
    spark: SparkSession, target: Path, level: str
) -> None:
    append = inner_attempt(spark, target / level, APPEND, "append")
    assert append.prepare()
    with pytest.raises(PushdownError, match=rf"another run is writing .*/{level}, and .* is a partition of") as error:
        write(outer_attempt(spark, target, PARTITIONS, "compaction"), OLD)
    assert error.value.code.retryable
    assert hidden_files(target) == []
    append.abort()
    write(outer_attempt(spark, target, PARTITIONS, "compaction"), {"day=1/hour=1": "compacted"})
    assert tree(target) == {"day=1/hour=1": ["compacted"], "day=2/hour=2": ["old 2"]}


def test_a_run_on_a_partition_finds_a_run_on_the_whole_behind_a_link(spark: SparkSession, target: Path) -> None:
    compaction = outer_attempt(spark, target, PARTITIONS, "compaction")
    assert compaction.prepare()
    link = target.parent / "link"
    link.symlink_to(target / "day=1")
    append = inner_attempt(spark, link / "hour=1", APPEND, "append")
    with pytest.raises(PushdownError, match=r"another run is writing .*/out, and .*/hour=1 is a partition of"):
        append.prepare()
    compaction.abort()
    assert hidden_files(target) == []


@LEVELS
def test_repair_of_a_killed_run_on_a_partition_brings_back_no_replaced_rows(
    spark: SparkSession, tmp_path: Path, level: str
) -> None:
    new = {"" if level.endswith("hour=1") else "hour=1": "inner"}
    refusals = 0
    for number in count(1):
        target = tmp_path / f"out {number}"
        write(outer_attempt(spark, target, OVERWRITE, "old"), OLD)
        files = killed_at(number)
        with suppress(KilledError):
            write(inner_attempt(spark, target / level, OVERWRITE, "killed", files), new)
        try:
            write(outer_attempt(spark, target, PARTITIONS, "whole"), {"day=1/hour=1": "whole"})
        except PushdownError:
            refusals += 1
            write(inner_attempt(spark, target / level, OVERWRITE, "killed"), new)
            write(outer_attempt(spark, target, PARTITIONS, "whole"), {"day=1/hour=1": "whole"})
        write(inner_attempt(spark, target / level, APPEND, "other"), {next(iter(new)): "appended"})
        assert tree(target)["day=1/hour=1"] == ["appended", "whole"], f"killed before operation {number}"
        if not files.is_reached:
            break
    assert refusals > 5
