"""Commits killed, failing or stalled at any operation: the next run finds the old or the new output, never a mix."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from interrupted_files import (
    InterruptedCopies,
    InterruptedFiles,
    KilledError,
    UnansweredCopies,
    expected_tree,
    failing_at,
    full_disk_from,
    hidden_files,
    killed_at,
    open_attempt,
    stage,
    stalled_at,
    tree,
    tree_of,
    without_interruption,
    write,
)
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import output_paths
from pushdown_spark.output.files.journal import Journal, JournalReplay, Move
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.runtime.file_systems.local_files import LocalFiles

OLD = {"day=1": "old 1", "day=2": "old 2", "day=3": "old 3"}
NEW = {"day=0": "new 0", "day=2": "new 2", "day=3": "new 3", "day=4": "new 4"}
"""The first move of an overwrite of partitions replaces no file, others do."""
MOVES = 6
"""The moves of an overwrite of four partitions, two of which exist."""
MODES = [mode for mode in OutputMode if mode is not OutputMode.MERGE]
CHANGING = [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND]
IMPATIENT = 0.08
STORES = [InterruptedFiles, InterruptedCopies]


def create_output(spark: SparkSession, place: Path, number: int, old: dict[str, str]) -> Path:
    """Create an output with an earlier run."""
    target = place / f"out {number}"
    if old:
        write(open_attempt(spark, target, OutputMode.OVERWRITE, "earlier run"), old)
    return target


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("old", [OLD, {}], ids=["existing", "missing"])
@pytest.mark.parametrize("mode", MODES)
def test_retry_after_kill_equals_one_run(
    spark: SparkSession,
    tmp_path: Path,
    mode: OutputMode,
    old: dict[str, str],
    store: type[InterruptedFiles],
    operations: Iterator[int],
) -> None:
    if old and mode not in CHANGING:
        pytest.skip("these modes write nothing where an output exists")
    for number in operations:
        target = create_output(spark, tmp_path, number, old)
        files = killed_at(number, store)
        with suppress(KilledError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
        if not files.is_reached:
            break
        is_there = tree(target) == expected_tree(mode, old, NEW)
        again = OutputMode.OVERWRITE if is_there and mode not in CHANGING else mode
        write(open_attempt(spark, target, again, "run", files=without_interruption(store), patience=IMPATIENT), NEW)
        assert tree(target) == expected_tree(mode, old, NEW), f"killed before operation {number}"
        assert hidden_files(target) == [], f"killed before operation {number}"
    assert number > 10, "a commit has more operations than that"


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", CHANGING)
def test_other_run_after_kill_sees_old_or_new_output(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, store: type[InterruptedFiles], operations: Iterator[int]
) -> None:
    outcomes = set()
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        files = killed_at(number, store)
        with suppress(KilledError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
        if not files.is_reached:
            break
        others = without_interruption(store)
        other = open_attempt(spark, target, OutputMode.OVERWRITE_PARTITIONS, "other", files=others, patience=IMPATIENT)
        assert other.prepare()
        actual = tree(target)
        assert actual in (tree_of(OLD), expected_tree(mode, OLD, NEW)), f"killed before operation {number}"
        outcomes.add(actual == tree_of(OLD))
        with other.transaction():
            stage(other, {"day=9": "other 9"})
        assert tree(target) == actual | {"day=9": ["other 9"]}
        assert not [name for name in hidden_files(target) if not name.startswith("staging-")]
    assert outcomes == {True, False}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", CHANGING)
def test_killed_repair_is_repaired(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, store: type[InterruptedFiles], operations: Iterator[int]
) -> None:
    """The first run is killed during its renames. Its repair is killed at each operation."""
    amid = next(number for number in count(8) if _is_half_done(spark, tmp_path, mode, number, store))
    for number in operations:
        target = create_output(spark, tmp_path / "repairs", number, OLD)
        with pytest.raises(KilledError):
            write(open_attempt(spark, target, mode, "run", files=killed_at(amid, store)), NEW)
        files = killed_at(number, store)
        with suppress(KilledError):
            open_attempt(spark, target, OutputMode.APPEND, "second run", files=files, patience=IMPATIENT).prepare()
        if not files.is_reached:
            break
        third = open_attempt(
            spark, target, OutputMode.APPEND, "third", files=without_interruption(store), patience=IMPATIENT
        )
        assert third.prepare()
        third.abort()
        assert tree(target) == tree_of(OLD), f"repair killed before operation {number}"
    assert number > 8


def test_killed_undo_of_complete_moves_is_repaired(
    spark: SparkSession, tmp_path: Path, operations: Iterator[int]
) -> None:
    """The store has recorded the end of the moves, but its response is lost. The process is killed during the undo."""
    mode = OutputMode.OVERWRITE_PARTITIONS
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        files = killed_at(number, UnansweredCopies)
        files.text = str(MOVES)  # type: ignore[attr-defined]
        with suppress(KilledError, OSError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
        if not files.is_reached:
            break
        others = without_interruption(InterruptedCopies)
        other = open_attempt(spark, target, OutputMode.APPEND, "other", files=others, patience=IMPATIENT)
        assert other.prepare()
        other.abort()
        assert tree(target) in (tree_of(OLD), expected_tree(mode, OLD, NEW)), f"killed before operation {number}"
    assert tree(target) == tree_of(OLD)


def _is_half_done(
    spark: SparkSession, place: Path, mode: OutputMode, number: int, store: type[InterruptedFiles] = InterruptedFiles
) -> bool:
    target = create_output(spark, place / "probe", number, OLD)
    with pytest.raises(KilledError):
        write(open_attempt(spark, target, mode, "run", files=killed_at(number, store)), NEW)
    return tree(target) not in (tree_of(OLD), expected_tree(mode, OLD, NEW))


@pytest.mark.parametrize("mode", CHANGING)
def test_lost_staged_rows_keep_the_old_rows(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, operations: Iterator[int]
) -> None:
    """For example, another program deletes hidden directories."""
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        files = killed_at(number)
        with suppress(KilledError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
        if not files.is_reached:
            break
        for staging in (tmp_path / f".{target.name}.pushdown").glob("staging-*/*"):
            if staging.is_dir():
                shutil.rmtree(staging)
        with suppress(FileNotFoundError):
            open_attempt(spark, target, OutputMode.APPEND, "other", patience=IMPATIENT).prepare()
        places = (target, target.parent / f".{target.name}.pushdown")
        on_disk = {path.read_text() for place in places for path in place.rglob("part-*")}
        replaced = {old for day, old in OLD.items() if tree(target).get(day) == expected_tree(mode, OLD, NEW).get(day)}
        assert on_disk | replaced >= set(OLD.values()), f"killed before operation {number}"


@pytest.fixture
def other_device(tmp_path: Path) -> Iterator[Path]:
    """A directory from which Hadoop's local file system copies files instead of renaming them."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one device")
    with TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


def test_a_signal_waits_for_the_end_of_a_move(spark: SparkSession, tmp_path: Path, other_device: Path) -> None:
    """The JVM copies the file, also when Python no longer waits for it."""
    staged, moved = other_device / "part-0", tmp_path / "out" / "part-0"
    os.mkfifo(staged)
    rows, aside = f"file:{other_device}", f"file:{tmp_path}/aside"
    move = Move(hidden=staged.name, output=f"file:{moved}", is_inward=True)
    names = frozenset([staged.name])
    journal = Journal(run="run", writer="run", rows=rows, aside=aside, files=names, moves=(move,), partitions=())
    replay = JournalReplay(HadoopFiles(spark, moves_directories=True), journal, f"file:{tmp_path}/progress")

    def interrupt() -> None:
        with staged.open("w") as pipe:
            # The pipe is open: the JVM has begun to copy, and waits for the rows.
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.5)
            pipe.write("rows")

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            replay.apply(lambda: None)
        assert moved.read_text() == "rows"
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
    replay.undo(lambda: None)
    assert (staged.read_text(), moved.exists()) == ("rows", False)


@pytest.mark.filterwarnings("ignore:the rows are in")
@pytest.mark.parametrize("times", [1, 2, 3, 5])
@pytest.mark.parametrize("mode", CHANGING)
def test_failure_leaves_old_or_new_output(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, times: int, operations: Iterator[int]
) -> None:
    """Some consecutive operations fail. What the attempt cannot undo, the next run undoes or completes."""
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        files = failing_at(number, times)
        is_done = False
        with suppress(OSError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
            is_done = True
        if not files.is_reached:
            break
        if times > 1:
            other = open_attempt(spark, target, OutputMode.APPEND, "other", patience=IMPATIENT)
            assert other.prepare()
            other.abort()
        expected = expected_tree(mode, OLD, NEW)
        assert tree(target) in ((expected,) if is_done else (tree_of(OLD), expected)), f"operation {number} failed"
        write(open_attempt(spark, target, mode, "run"), NEW)
        assert tree(target) == expected
        assert hidden_files(target) == []


@pytest.mark.parametrize("mode", CHANGING)
def test_a_full_disk_leaves_the_old_output_and_no_hidden_file(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, operations: Iterator[int]
) -> None:
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        failed = False
        with full_disk_from(number) as files:
            try:
                write(open_attempt(spark, target, mode, "run", files=files), NEW)
            except OSError:
                failed = True
        assert tree(target) == (tree_of(OLD) if failed else expected_tree(mode, OLD, NEW)), f"full from {number} on"
        commit_directory = target.with_name(f".{target.name}.pushdown").rglob("*")
        assert [path.name for path in commit_directory if path.is_file()] == [], f"full from {number} on"
        write(open_attempt(spark, target, mode, "run"), NEW)
        assert tree(target) == expected_tree(mode, OLD, NEW)
        if not files.is_reached:
            break
    assert number > 10


@pytest.mark.parametrize("run", ["run", "other run"], ids=["retry", "other run"])
@pytest.mark.parametrize("mode", CHANGING)
def test_stalled_process_changes_nothing_after_takeover(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, run: str, operations: Iterator[int]
) -> None:
    """Another run considered the process dead, and has undone its renames or completed its commit."""
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        resume, stall, errors = threading.Event(), threading.Event(), []
        files = stalled_at(number, resume, stall)
        slow = open_attempt(spark, target, mode, "run", files=files, patience=IMPATIENT)
        thread = threading.Thread(target=_write_and_keep_error, args=(slow, errors))
        thread.start()
        while thread.is_alive() and not stall.is_set():
            stall.wait(0.01)
        if not stall.is_set():
            thread.join()
            break
        later = open_attempt(spark, target, OutputMode.OVERWRITE_PARTITIONS, run, patience=IMPATIENT)
        assert later.prepare()
        with later.transaction():
            stage(later, {"day=2": "later 2", "day=9": "later 9"})
        after = tree(target)
        assert after["day=2"] == ["later 2"]
        resume.set()
        thread.join()
        actual = tree(target)
        # The first operation creates the lock. Before it, the slow attempt has not begun, and is the later one.
        if errors or (run == "run" and number > 1):
            assert actual == after, f"stalled before operation {number}: {errors}"
        else:
            # It had not begun its commit, so that it could still make it, or had nothing but cleaning left.
            assert actual in (after, expected_tree(mode, {**OLD, "day=9": "later 9", "day=2": "later 2"}, NEW))
        hidden_left = [name for name in hidden_files(target) if name.startswith("aside-")]
        assert hidden_left == []
    assert number > 10


@pytest.mark.parametrize("mode", CHANGING)
def test_retry_on_an_object_store_waits_for_the_copies_of_a_live_driver(
    spark: SparkSession, tmp_path: Path, mode: OutputMode
) -> None:
    """The driver stalls between the copies of a rename. It deletes the originals afterward."""
    amid = next(number for number in count(8) if _is_half_done(spark, tmp_path, mode, number, InterruptedCopies))
    target = create_output(spark, tmp_path, 0, OLD)
    resume, stall, errors = threading.Event(), threading.Event(), []
    files = stalled_at(amid, resume, stall, InterruptedCopies)
    slow = threading.Thread(
        target=_write_and_keep_error, args=(open_attempt(spark, target, mode, "run", files=files), errors)
    )
    slow.start()
    assert stall.wait(60)
    files = without_interruption(InterruptedCopies)
    retry = threading.Thread(
        target=_write_and_keep_error, args=(open_attempt(spark, target, mode, "run", files=files), errors)
    )
    retry.start()
    retry.join(1)
    resume.set()
    slow.join()
    retry.join()
    assert errors == []
    assert tree(target) == expected_tree(mode, OLD, NEW)
    assert hidden_files(target) == []


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", CHANGING)
def test_undo_keeps_the_files_of_another_program(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, store: type[InterruptedFiles], operations: Iterator[int]
) -> None:
    """Another program writes into the output between a kill and the undo."""
    for number in operations:
        target = create_output(spark, tmp_path, number, OLD)
        files = killed_at(number, store)
        with suppress(KilledError):
            write(open_attempt(spark, target, mode, "run", files=files), NEW)
        if not files.is_reached:
            break
        theirs = target / "day=4" / "theirs.json"
        theirs.parent.mkdir(parents=True, exist_ok=True)
        theirs.write_text("theirs")
        others = without_interruption(store)
        other = open_attempt(spark, target, OutputMode.APPEND, "other", files=others, patience=IMPATIENT)
        assert other.prepare()
        other.abort()
        assert theirs.read_text() == "theirs", f"killed before operation {number}"
        assert tree(target) in (tree_of(OLD), expected_tree(mode, OLD, NEW)), f"killed before operation {number}"
    assert number > 10


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE_PARTITIONS, OutputMode.ERROR_IF_EXISTS])
def test_failed_move_keeps_what_another_program_has_created(
    spark: SparkSession,
    tmp_path: Path,
    mode: OutputMode,
    store: type[InterruptedFiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other program creates the target after the moves were planned."""
    target = create_output(spark, tmp_path, 0, OLD if mode is OutputMode.OVERWRITE_PARTITIONS else {})
    theirs = target / "day=4" / "theirs.json"
    commit = CommitLog.commit

    def commit_late(log: CommitLog, journal: Journal) -> None:
        theirs.parent.mkdir(parents=True)
        theirs.write_text("theirs")
        (target / "_SUCCESS").touch()
        commit(log, journal)

    monkeypatch.setattr(CommitLog, "commit", commit_late)
    with pytest.raises(FileExistsError):
        write(open_attempt(spark, target, mode, "run", files=without_interruption(store)), NEW)
    assert theirs.read_text() == "theirs"
    assert (target / "_SUCCESS").exists()
    assert hidden_files(target) == []


def test_process_that_is_slow_to_read_a_lock_waits_for_the_one_that_has_taken_it_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lists the lock of a killed attempt. A retry takes the lock over and deletes it before it is read."""
    killed, retry, slow = (
        CommitLog(LocalFiles(), output_paths(spark, str(tmp_path / "out"), run)) for run in ("run", "run", "slow")
    )
    killed_lock, retry_lock, is_entered = killed.lock(), retry.lock(), threading.Event()
    killed_lock.__enter__()
    names = slow.files.names

    def list_names(directory: str) -> list[str]:
        listed = names(directory)
        if "1.lock" in listed:
            monkeypatch.undo()
            retry_lock.__enter__()
        return listed

    def enter() -> None:
        with slow.lock(lambda: None):
            is_entered.set()

    monkeypatch.setattr(slow.files, "names", list_names)
    thread = threading.Thread(target=enter)
    thread.start()
    assert not is_entered.wait(1)
    retry_lock.__exit__(None, None, None)
    thread.join()
    assert is_entered.is_set()


@pytest.mark.parametrize("store", STORES)
def test_repair_that_resumes_leaves_the_commit_of_its_successor(
    spark: SparkSession, tmp_path: Path, store: type[InterruptedFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repair stalls before it lists the journals, and finds that of the process that has taken its lock."""
    target = create_output(spark, tmp_path, 0, OLD)
    slow = CommitLog(without_interruption(store), output_paths(spark, str(target), "slow"))
    resume, stall, errors = threading.Event(), threading.Event(), list[BaseException]()
    glob = slow.files.glob

    def stalled_glob(directory: str, pattern: str) -> list[str]:
        stall.set()
        assert resume.wait(60)
        return glob(directory, pattern)

    def repair() -> None:
        try:
            with slow.lock(lambda: None):
                pass
        except PushdownError as problem:
            errors.append(problem)

    monkeypatch.setattr(slow.files, "glob", stalled_glob)
    thread = threading.Thread(target=repair)
    thread.start()
    assert stall.wait(60)
    files, renames = without_interruption(store), count(1)
    rename = files.rename

    def resume_repair(source: str, target: str) -> None:
        if next(renames) == MOVES // 2:
            resume.set()
            thread.join()
        rename(source, target)

    monkeypatch.setattr(files, "rename", resume_repair)
    write(open_attempt(spark, target, OutputMode.OVERWRITE_PARTITIONS, "run", files=files, patience=IMPATIENT), NEW)
    assert len(errors) == 1
    assert tree(target) == expected_tree(OutputMode.OVERWRITE_PARTITIONS, OLD, NEW)


class PausedFiles(LocalFiles):
    """Local files of a process that waits before or after an operation until another process has done its part."""

    def __init__(self) -> None:
        self.is_reached, self.may_continue = threading.Event(), threading.Event()

    def pause(self) -> None:
        if not self.is_reached.is_set():
            self.is_reached.set()
            assert self.may_continue.wait(60)


def test_driver_does_not_continue_after_a_failed_repair(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry takes the lock from a live driver, begins to undo its commit, and fails."""
    target = create_output(spark, tmp_path, 0, OLD)
    slow, broken, errors = PausedFiles(), LocalFiles(), list[BaseException]()

    def rename_slowly(source: str, target: str) -> None:
        if source.endswith("/day=3"):
            slow.pause()
        LocalFiles().rename(source, target)

    def fail(source: str, target: str) -> None:
        if "/aside-" in source and target.endswith("/day=2"):
            raise OSError("the file system failed")
        LocalFiles().rename(source, target)

    monkeypatch.setattr(slow, "rename", rename_slowly)
    monkeypatch.setattr(broken, "rename", fail)
    mode = OutputMode.OVERWRITE_PARTITIONS
    thread = threading.Thread(
        target=_write_and_keep_error, args=(open_attempt(spark, target, mode, "run", files=slow), errors)
    )
    thread.start()
    assert slow.is_reached.wait(60)
    with pytest.raises(OSError, match="the file system failed"):
        open_attempt(spark, target, mode, "run", files=broken).prepare()
    slow.may_continue.set()
    thread.join()
    assert len(errors) == 1
    assert open_attempt(spark, target, mode, "run").prepare()
    assert tree(target) == tree_of(OLD)


def test_repair_keeps_a_commit_that_its_own_driver_completes_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry has taken the lock after the last move of the driver, and pauses before it looks for the moves."""
    target = create_output(spark, tmp_path, 0, OLD)
    driver, repair, threads = LocalFiles(), PausedFiles(), list[threading.Thread]()
    mode = OutputMode.OVERWRITE_PARTITIONS

    def prepare() -> None:
        open_attempt(spark, target, mode, "run", files=repair).prepare()

    def delete(path: str) -> None:
        LocalFiles().delete(path)
        if "/aside-" in path:
            threads.append(threading.Thread(target=prepare))
            threads[0].start()
            assert repair.is_reached.wait(60)

    def fence(source: str, target: str) -> None:
        LocalFiles().rename(source, target)
        if "/staging-" in target:
            repair.pause()

    monkeypatch.setattr(driver, "delete", delete)
    monkeypatch.setattr(repair, "rename", fence)
    write(open_attempt(spark, target, mode, "run", files=driver), NEW)
    repair.may_continue.set()
    threads[0].join()
    assert tree(target) == expected_tree(mode, OLD, NEW)


def test_older_attempt_leaves_the_staged_rows_of_the_newest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It pauses after it has seen that it holds the lock, and then deletes what earlier attempts have left."""
    target, mode = create_output(spark, tmp_path, 0, OLD), OutputMode.OVERWRITE_PARTITIONS
    files, errors = PausedFiles(), list[BaseException]()
    older, newest = open_attempt(spark, target, mode, "run", files=files), open_attempt(spark, target, mode, "run")
    names = files.names

    def list_names(directory: str) -> list[str]:
        listed = names(directory)
        if "/staging-" in directory:
            files.pause()
        return listed

    monkeypatch.setattr(files, "names", list_names)
    thread = threading.Thread(target=_write_and_keep_error, args=(older, errors))
    thread.start()
    assert files.is_reached.wait(60)
    assert newest.prepare()
    with newest.transaction():
        stage(newest, NEW)
        files.may_continue.set()
        thread.join()
    assert len(errors) == 1
    assert tree(target) == expected_tree(mode, OLD, NEW)


def test_undo_that_resumes_leaves_the_output_of_its_successor(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit fails after its last move, and the driver stalls while it undoes it."""
    target, files, errors = tmp_path / "out", PausedFiles(), list[BaseException]()
    write_text = files.write_text

    def fail(path: str, text: str) -> None:
        if path.endswith(".heartbeat"):
            return
        if path.endswith(".progress"):
            raise OSError("the file system failed")
        write_text(path, text)

    def rename_slowly(source: str, target: str) -> None:
        if "/staging-" in target:
            files.pause()
        LocalFiles().rename(source, target)

    monkeypatch.setattr(files, "write_text", fail)
    monkeypatch.setattr(files, "rename", rename_slowly)
    slow = open_attempt(spark, target, OutputMode.OVERWRITE, "slow", files=files)
    thread = threading.Thread(target=_write_and_keep_error, args=(slow, errors))
    thread.start()
    assert files.is_reached.wait(60)
    later = {"day=5": "later 5"}
    write(open_attempt(spark, target, OutputMode.OVERWRITE, "later", patience=IMPATIENT), later)
    files.may_continue.set()
    thread.join()
    assert len(errors) == 1
    assert tree(target) == tree_of(later)


def test_repeated_repair_beside_files_of_another_program_leaves_no_new_rows(
    spark: SparkSession, tmp_path: Path, operations: Iterator[int]
) -> None:
    """Files go back one by one, because the other program has written into a new partition. The repair is killed."""
    mode = OutputMode.OVERWRITE_PARTITIONS
    amid = next(number for number in count(8) if _is_half_done(spark, tmp_path, mode, number))
    for number in operations:
        target = create_output(spark, tmp_path / "repairs", number, OLD)
        with pytest.raises(KilledError):
            write(open_attempt(spark, target, mode, "run", files=killed_at(amid, InterruptedFiles)), NEW)
        for partition in target.glob("day=*"):
            (partition / "theirs.json").write_text("theirs")
        files = killed_at(number, InterruptedFiles)
        with suppress(KilledError):
            open_attempt(spark, target, OutputMode.APPEND, "second", files=files, patience=IMPATIENT).prepare()
        if not files.is_reached:
            break
        third = open_attempt(spark, target, OutputMode.APPEND, "third", patience=IMPATIENT)
        assert third.prepare()
        third.abort()
        assert tree(target) == tree_of(OLD), f"repair killed before operation {number}"
    assert number > 8


def test_failed_clean_up_after_a_commit_is_a_warning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = create_output(spark, tmp_path, 0, OLD)
    output = open_attempt(spark, target, OutputMode.APPEND, "run")
    assert output.prepare()

    def fail(_files: LocalFiles, path: str) -> None:
        raise OSError(f"cannot delete {path}")

    stage(output, NEW)
    delete = LocalFiles.delete
    monkeypatch.setattr(
        LocalFiles, "delete", lambda files, path: (fail if path.endswith(".lock") else delete)(files, path)
    )
    with pytest.warns(RuntimeWarning, match="the rows are in .*cannot delete .*1.lock"):
        output.commit()
    assert tree(target) == expected_tree(OutputMode.APPEND, OLD, NEW)
    assert not [name for name in hidden_files(target) if name.endswith(".claim")]


def test_unreadable_journal_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    target = create_output(spark, tmp_path, 0, OLD)
    journal = tmp_path / ".out 0.pushdown/commits/1-attempt.journal"
    journal.parent.mkdir(parents=True)
    journal.touch()
    with pytest.raises(BadSpecError, match=f"the journal file:{journal} of an interrupted commit cannot be read"):
        write(open_attempt(spark, target, OutputMode.APPEND, "run"), NEW)
    assert tree(target) == tree_of(OLD)


def _write_and_keep_error(output: object, errors: list[BaseException]) -> None:
    try:
        write(output, NEW)  # type: ignore[arg-type]
    except (PushdownError, OSError) as problem:
        errors.append(problem)


@pytest.mark.parametrize(("run", "is_retryable"), [("run", False), ("other", True)])
def test_commit_that_another_attempt_has_undone_is_retryable_unless_the_run_has_a_later_attempt(
    spark: SparkSession, tmp_path: Path, run: str, is_retryable: bool
) -> None:
    amid = next(
        number for number in count(8) if _is_half_done(spark, tmp_path, OutputMode.OVERWRITE_PARTITIONS, number)
    )
    target = create_output(spark, tmp_path, 0, OLD)
    resume, stall, errors = threading.Event(), threading.Event(), []
    files = stalled_at(amid, resume, stall)
    slow = open_attempt(spark, target, OutputMode.OVERWRITE_PARTITIONS, "run", files=files, patience=IMPATIENT)
    thread = threading.Thread(target=_write_and_keep_error, args=(slow, errors))
    thread.start()
    assert stall.wait(300)
    write(open_attempt(spark, target, OutputMode.OVERWRITE_PARTITIONS, run, patience=IMPATIENT), {"day=9": "other 9"})
    resume.set()
    thread.join()
    assert isinstance(errors[0], PushdownError)
    assert errors[0].code.retryable == is_retryable, errors[0]
    assert tree(target) == {**tree_of(OLD), "day=9": ["other 9"]}
