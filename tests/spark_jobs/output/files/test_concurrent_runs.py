"""Concurrent runs with one output: disjoint partitions are all written, equal partitions by exactly one run."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from interrupted_files import (
    InterruptedFiles,
    KilledError,
    hidden_files,
    killed_at,
    local,
    open_attempt,
    stage,
    tree,
    write,
)
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import OutputConflictError, OutputTakenError
from pushdown_spark.output.files.file_output import FileOutput
from pushdown_spark.output.files.layout import CLAIM
from pushdown_spark.runtime.file_systems.base_files import DRAFT
from pushdown_spark.runtime.file_systems.local_files import LocalFiles

ROUNDS = 50
PARTITIONS = OutputMode.OVERWRITE_PARTITIONS


def race(outputs: list[FileOutput], rows: list[dict[str, str]]) -> list[Exception | None]:
    """Commit all outputs at the same time, each in its own thread. Return the error of each."""
    for output, staged in zip(outputs, rows, strict=True):
        assert output.prepare()
        stage(output, staged)
    ready = threading.Barrier(len(outputs))

    def commit(output: FileOutput) -> Exception | None:
        ready.wait()
        try:
            with output.transaction():
                pass
        except OutputConflictError as problem:
            return problem
        return None

    with ThreadPoolExecutor(len(outputs)) as threads:
        return list(threads.map(commit, outputs))


@pytest.mark.parametrize("exists", [True, False])
def test_concurrent_runs_write_disjoint_partitions(spark: SparkSession, tmp_path: Path, exists: bool) -> None:
    for number in range(ROUNDS):
        target = tmp_path / f"out {number}"
        old = {"day=0": "old 0", "day=1": "old 1"} if exists else {}
        if exists:
            write(open_attempt(spark, target, OutputMode.OVERWRITE, "old"), old)
        outputs = [open_attempt(spark, target, PARTITIONS, f"run {day}") for day in (1, 2)]
        assert race(outputs, [{"day=1": "new 1", "day=3": "new 3"}, {"day=2": "new 2"}]) == [None, None]
        assert tree(target) == {
            day: [content] for day, content in {**old, "day=1": "new 1", "day=2": "new 2", "day=3": "new 3"}.items()
        }
        assert hidden_files(target) == []


@pytest.mark.parametrize("mode", [PARTITIONS, OutputMode.OVERWRITE])
@pytest.mark.parametrize("exists", [True, False])
def test_one_of_two_runs_with_the_same_partitions_raises_conflict(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, exists: bool
) -> None:
    for number in range(ROUNDS):
        target = tmp_path / f"out {number}"
        old = {"day=0": "old 0", "day=1": "old 1"} if exists else {}
        if exists:
            write(open_attempt(spark, target, OutputMode.OVERWRITE, "old"), old)
        outputs = [open_attempt(spark, target, mode, f"run {writer}") for writer in "ab"]
        rows = [{"day=1": f"{writer} 1", "day=2": f"{writer} 2"} for writer in "ab"]
        errors = race(outputs, rows)
        winner = errors.index(None)
        loser = errors[1 - winner]
        assert isinstance(loser, OutputConflictError)
        assert f"run {'ab'[winner]} has written " in str(loser)
        rest = old if mode is PARTITIONS else {}
        assert tree(target) == {day: [content] for day, content in {**rest, **rows[winner]}.items()}
        assert hidden_files(target) == []


def test_concurrent_appends_to_one_partition_are_both_kept(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        target = tmp_path / f"out {number}"
        outputs = [open_attempt(spark, target, OutputMode.APPEND, f"run {writer}") for writer in "ab"]
        assert race(outputs, [{"day=1": "a"}, {"day=1": "b", "day=2": "b"}]) == [None, None]
        assert tree(target) == {"day=1": ["a", "b"], "day=2": ["b"]}


def test_overwrite_keeps_concurrently_appended_rows(spark: SparkSession, tmp_path: Path) -> None:
    """For example, a task reads an output, compacts it and writes it back."""
    for number in range(ROUNDS):
        target = tmp_path / f"out {number}"
        write(open_attempt(spark, target, OutputMode.OVERWRITE, "old"), {"day=1": "old"})
        outputs = [
            open_attempt(spark, target, OutputMode.APPEND, "append"),
            open_attempt(spark, target, PARTITIONS, "compact"),
        ]
        appended, compacted = race(outputs, [{"day=1": "appended"}, {"day=1": "compacted"}])
        assert appended is None
        actual = tree(target)["day=1"]
        assert actual == (["appended", "compacted"] if compacted is None else ["appended", "old"])


def test_later_run_replaces_an_earlier_commit(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "out"
    early = open_attempt(spark, target, PARTITIONS, "early")
    assert early.prepare()
    write(open_attempt(spark, target, PARTITIONS, "first"), {"day=1": "first"})
    write(open_attempt(spark, target, PARTITIONS, "second"), {"day=1": "second"})
    assert tree(target) == {"day=1": ["second"]}
    with (
        pytest.raises(OutputConflictError, match=r"run second has written partition day=1 of .*out while"),
        early.transaction(),
    ):
        stage(early, {"day=1": "early"})
    write(open_attempt(spark, target, PARTITIONS, "early"), {"day=1": "early"})
    assert tree(target) == {"day=1": ["early"]}
    assert hidden_files(target) == []


class LateFiles(LocalFiles):
    """Local files whose process, once it is late, stalls after it has listed a directory, while a function runs."""

    is_late = False

    def __init__(self, directory: str, meanwhile: Callable[[], None]) -> None:
        self._directory = directory
        self._meanwhile = meanwhile

    def names(self, directory: str) -> list[str]:
        actual = super().names(directory)
        if self.is_late and directory == self._directory:
            self._meanwhile()
        return actual


def test_attempt_that_fails_keeps_the_rows_of_a_later_attempt(spark: SparkSession, tmp_path: Path) -> None:
    """The later attempt begins while the failed one deletes its own rows."""
    target = tmp_path / "out"
    later = open_attempt(spark, target, OutputMode.APPEND, "run")

    def retry() -> None:
        assert later.prepare()
        stage(later, {"day=1": "later"})

    files = LateFiles(later.paths.staging, retry)
    attempt = open_attempt(spark, target, OutputMode.APPEND, "run", files=files)
    assert attempt.prepare()
    stage(attempt, {"day=1": "failed"})
    files.is_late = True
    attempt.abort()
    with later.transaction():
        pass
    assert tree(target) == {"day=1": ["later"]}
    assert hidden_files(target) == []


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, PARTITIONS, OutputMode.APPEND])
def test_attempt_that_commits_while_its_retry_begins_commits_all_rows_or_none(
    spark: SparkSession, tmp_path: Path, mode: OutputMode
) -> None:
    """The retry has the lock and deletes the rows of the earlier attempt, file by file."""
    for number in count(1):
        target = tmp_path / f"out {number}"
        write(open_attempt(spark, target, OutputMode.OVERWRITE, "old"), {"day=0": "old"})
        rest = {} if mode is OutputMode.OVERWRITE else tree(target)
        early = open_attempt(spark, target, mode, "run")
        assert early.prepare()
        stage(early, {"day=1": "new 1", "day=2": "new 2"})
        commit = threading.Thread(target=commit_unless_taken, args=(early,))
        files = InterruptedFiles(number, partial(run_in_between, commit))
        retry = open_attempt(spark, target, mode, "run", files=files)
        assert retry.prepare()
        if not files.is_reached:
            break
        commit.join()
        assert tree(target) in ({"day=0": ["old"]}, {**rest, "day=1": ["new 1"], "day=2": ["new 2"]})
        with retry.transaction():
            stage(retry, {"day=1": "again 1", "day=2": "again 2"})
        assert tree(target) == {**rest, "day=1": ["again 1"], "day=2": ["again 2"]}
        assert hidden_files(target) == []
    assert number > 4


def test_the_end_of_an_attempt_keeps_a_claim_that_its_retry_is_writing(spark: SparkSession, tmp_path: Path) -> None:
    early = open_attempt(spark, tmp_path / "out", OutputMode.OVERWRITE, "run")
    assert early.prepare()
    draft = local(early.paths.staging) / f".later{CLAIM}{DRAFT}"
    draft.touch()
    early.abort()
    assert draft.exists()


def test_a_process_that_has_lost_its_lock_leaves_no_heartbeat(spark: SparkSession, tmp_path: Path) -> None:
    """It still sends heartbeats when the other process has ended."""
    target = tmp_path / "out"
    slow = open_attempt(spark, target, OutputMode.OVERWRITE, "slow", patience=0.6)
    with slow._log.lock():
        write(open_attempt(spark, target, OutputMode.OVERWRITE, "other", patience=0.01), {"day=1": "other"})
        heartbeat = local(slow.paths.commits) / "1.heartbeat"
        for _ in range(600):
            if heartbeat.exists():
                break
            time.sleep(0.1)
        assert heartbeat.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert tree(target) == {"day=1": ["other"]}


def run_in_between(thread: threading.Thread, left: int) -> None:
    """Start a thread before the first of the interrupted operations, and wait for it a moment."""
    if left == 0:
        thread.start()
        thread.join(0.3)


def commit_unless_taken(output: FileOutput) -> None:
    with suppress(OutputTakenError), output.transaction():
        pass


@pytest.mark.parametrize("mode", [PARTITIONS, OutputMode.APPEND])
@pytest.mark.parametrize("seed", range(5))
def test_backfill_with_random_kills_equals_uninterrupted_runs(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, seed: int
) -> None:
    """Thirty days, two at a time. An attempt that was killed or counted as dead is retried until it succeeds."""
    chance = random.Random(seed)
    target = tmp_path / "out"
    write(open_attempt(spark, target, OutputMode.OVERWRITE, "before"), {"day=0": "before", "day=7": "before"})
    days = [f"day={day}" for day in range(1, 31)]
    chance.shuffle(days)
    kills = {day: [chance.randint(1, 30) for _ in range(chance.randint(0, 3))] for day in days}

    def backfill(day: str) -> None:
        for number in kills[day]:
            with suppress(KilledError, OutputTakenError):
                write(
                    open_attempt(spark, target, mode, day, files=killed_at(number), patience=1.0),
                    {day: f"partial {day}"},
                )
        is_written = False
        while not is_written:
            with suppress(OutputTakenError):
                write(open_attempt(spark, target, mode, day, patience=1.0), {day: f"rows of {day}"})
                is_written = True

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(backfill, days))
    clean = {day: [f"rows of {day}"] for day in days} | {"day=0": ["before"]}
    if mode is OutputMode.APPEND:
        clean["day=7"] = ["before", "rows of day=7"]
    assert tree(target) == clean
    assert hidden_files(target) == []
