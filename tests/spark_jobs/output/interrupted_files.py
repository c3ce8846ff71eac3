"""Real file systems whose process is killed, fails or stalls at a given operation, and outputs staged without Spark."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.local_paths import local_path
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import FileOutput, output_paths
from pushdown_spark.output.files.file_target import DirectoryTarget
from pushdown_spark.output.source_protection import ReadPathProtection
from pushdown_spark.runtime.file_systems.base_files import Files
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles, open_files
from pushdown_spark.runtime.file_systems.local_files import LocalFiles

Tree = dict[str, list[str]]
"""The contents of the data files of an output by partition, each list in order."""


class KilledError(BaseException):
    """A substitute for SIGKILL. The process does nothing afterward."""


class Interruption:
    """A mixin for file systems that interrupts their changing operations.

    `interrupt` is called before operation number `operation` (from 1) and before every later one. Its argument is 0 for
    the first of these operations, then -1, -2 and so on. Heartbeats stop with the other operations but have no number,
    because their count depends on the speed of the machine.
    """

    operation: int
    interrupt: Callable[[int], None]
    is_reached = False

    def step(self) -> None:
        self.operation -= 1
        if self.operation <= 0:
            self.is_reached = True
            self.interrupt(self.operation)

    def delete(self, path: str) -> None:
        self.step()
        super().delete(path)  # type: ignore[misc]

    def delete_empty(self, directory: str) -> None:
        self.step()
        super().delete_empty(directory)  # type: ignore[misc]

    def delete_empty_tree(self, directory: str) -> None:
        self.step()
        super().delete_empty_tree(directory)  # type: ignore[misc]

    def make_directory(self, path: str) -> None:
        self.step()
        super().make_directory(path)  # type: ignore[misc]

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)  # type: ignore[misc]

    def create(self, path: str, text: str) -> bool:
        self.step()
        return super().create(path, text)  # type: ignore[misc, no-any-return]

    def write_text(self, path: str, text: str) -> None:
        if not path.endswith(".heartbeat"):
            self.step()
        elif self.operation <= 0:
            self.interrupt(self.operation)
        super().write_text(path, text)  # type: ignore[misc]


class InterruptedFiles(Interruption, LocalFiles):
    """Local files with an interruption, which may be in the middle of the deletion of a directory."""

    def __init__(self, operation: int, interrupt: Callable[[int], None]) -> None:
        self.operation = operation
        self.interrupt = interrupt

    def delete(self, path: str) -> None:
        directory = local(path)
        # Another process may move a directory meanwhile. os.walk skips it, as Hadoop's deletion does; rglob fails.
        files = [Path(parent, name) for parent, _, names in os.walk(directory) for name in names]
        for file in sorted(file for file in files if file.name.startswith("part-")):
            self.step()
            if file.parent != directory:
                shutil.rmtree(file.parent, ignore_errors=True)
        super().delete(path)


class KilledHadoopFiles(Interruption, HadoopFiles):
    """Hadoop files of a process that is killed before a given operation."""

    def __init__(self, spark: SparkSession, operation: int) -> None:
        super().__init__(spark)
        self.operation = operation
        self.interrupt = _kill


def _kill(_left: int) -> None:
    raise KilledError


class InterruptedCopies(InterruptedFiles):
    """Local files that are moved as in an object store: all are copied, then all are deleted."""

    moves_directories = False

    def rename(self, source: str, target: str) -> None:
        old, new = local(source), local(target)
        if new.exists():
            raise FileExistsError(target)
        paths = [old] if old.is_file() else sorted(path for path in old.rglob("*") if path.is_file())
        for path in paths:
            self.step()
            copy = new / path.relative_to(old) if path != old else new
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        for path in paths:
            self.step()
            path.unlink()
        shutil.rmtree(old, ignore_errors=True)


class UnansweredCopies(InterruptedCopies):
    """A store that writes a file with the given text, but whose response is lost."""

    text = ""

    def write_text(self, path: str, text: str) -> None:
        super().write_text(path, text)
        if text == self.text:
            raise OSError("the response was lost")


def killed_at(count: int, store: type[InterruptedFiles] = InterruptedFiles) -> InterruptedFiles:
    """Return the files of a process that is killed before its operation with this number."""
    return store(count, _kill)


def without_interruption(store: type[InterruptedFiles]) -> InterruptedFiles:
    return store(1_000_000, lambda _left: None)


def failing_at(count: int, times: int = 1) -> InterruptedFiles:
    """Return files for which some consecutive operations fail."""

    def fail(left: int) -> None:
        if left > -times:
            raise OSError("the file system failed")

    return InterruptedFiles(count, fail)


@contextmanager
def full_disk_from(count: int) -> Iterator[InterruptedFiles]:
    """Yield the files of a process that can write no bytes from an operation on. It can still rename and delete."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield InterruptedFiles(count, lambda _left: resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1])))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def stalled_at(
    count: int, resume: threading.Event, stall: threading.Event, store: type[InterruptedFiles] = InterruptedFiles
) -> InterruptedFiles:
    """Return the files of a process that stalls at an operation until `resume` is set."""

    def wait(_left: int) -> None:
        stall.set()
        assert resume.wait(60)

    return store(count, wait)


def open_attempt(
    spark: SparkSession,
    target: Path | str,
    mode: OutputMode,
    run: str,
    *,
    files: Files | None = None,
    patience: float = 60.0,
    partition_by: tuple[str, ...] = ("day",),
) -> FileOutput:
    """Return an attempt to write a partitioned output. `files` is the file system, by default that of the target."""
    spec = OutputSpec(path=str(target), mode=mode, format="json", partition_by=partition_by)
    paths = output_paths(spark, spec.path, run)
    log = CommitLog(files or open_files(spark, paths.output), paths, patience=patience)
    directory = DirectoryTarget(spark, spec, log.files, paths)
    return FileOutput(spark, directory, log, ReadPathProtection(HadoopFiles(spark), paths, ()))


def local(path: str) -> Path:
    return Path(str(local_path(path)))


def stage(output: FileOutput, rows: Mapping[str, str]) -> None:
    """Stage one file for each partition as Spark would. Values are the contents of the files."""
    folder = local(output.paths.rows)
    shutil.rmtree(folder, ignore_errors=True)
    for partition, content in rows.items():
        path = folder / partition / f"part-00000-{output.paths.attempt}.json"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_SUCCESS").touch()


def write(output: FileOutput, rows: Mapping[str, str]) -> None:
    """Make all steps of one attempt."""
    if output.prepare():
        with output.transaction():
            stage(output, rows)


def tree(target: Path) -> Tree:
    """Return the data files of an output."""
    contents: Tree = {}
    for path in sorted(target.rglob("part-*")):
        contents.setdefault(str(path.parent.relative_to(target)), []).append(path.read_text())
    return {partition: sorted(lines) for partition, lines in contents.items()}


def hidden_files(target: Path) -> list[str]:
    """Return the content of the hidden directory of an output."""
    control = target.parent / f".{target.name}.pushdown"
    return sorted(str(path.relative_to(control)) for path in control.rglob("*"))


def expected_tree(mode: OutputMode, old: Mapping[str, str], new: Mapping[str, str]) -> Tree:
    """Return the contents after one undisturbed run that writes `new`. Both have one content for each partition."""
    if mode is OutputMode.APPEND:
        return {day: sorted(rows[day] for rows in (old, new) if day in rows) for day in sorted(old.keys() | new.keys())}
    rest = old if mode is OutputMode.OVERWRITE_PARTITIONS else {}
    return tree_of(dict(sorted({**rest, **new}.items())))


def tree_of(rows: Mapping[str, str]) -> Tree:
    return {day: [content] for day, content in rows.items()}
