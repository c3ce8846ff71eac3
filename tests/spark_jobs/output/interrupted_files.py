"""A real file system whose user dies, fails or stalls at a chosen operation, and outputs staged without Spark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.filesystem import LocalFiles, local_path
from pushdown_spark.output.files import FileOutput, open_output

Tree = dict[str, list[str]]
"""The contents of the data files of an output by partition, each list in order."""


class KilledError(BaseException):
    """Stands for SIGKILL: from here on the process does nothing any more."""


class InterruptedFiles(LocalFiles):
    """This machine's files; changing operation number `count` (from 1) does not take place, nor does what `then` says.

    `then` is called in place of the operation, and of every later one, so that the thread of heartbeats stops as well.
    """

    def __init__(self, count: int, then: Callable[[int], None]) -> None:
        self._left = count
        self._then = then
        self.reached = False

    def _step(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.reached = True
            self._then(self._left)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)

    def delete_empty(self, directory: str) -> None:
        self._step()
        super().delete_empty(directory)

    def make_directory(self, path: str) -> None:
        self._step()
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def create(self, path: str, text: str) -> bool:
        self._step()
        return super().create(path, text)

    def write_text(self, path: str, text: str) -> None:
        self._step()
        super().write_text(path, text)


class InterruptedCopies(InterruptedFiles):
    """The same files, moved as an object store moves them: each is copied, then each is deleted."""

    moves_directories = False

    def rename(self, source: str, target: str) -> None:
        old, new = local_path(source), local_path(target)
        assert old is not None
        assert new is not None
        if new.exists():
            raise FileExistsError(target)
        paths = [old] if old.is_file() else sorted(path for path in old.rglob("*") if path.is_file())
        for path in paths:
            self._step()
            copy = new / path.relative_to(old) if path != old else new
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        for path in paths:
            self._step()
            path.unlink()
        shutil.rmtree(old, ignore_errors=True)


def killed_at(count: int, store: type[InterruptedFiles] = InterruptedFiles) -> InterruptedFiles:
    """Files of a process that is killed before its operation with this number."""

    def die(_left: int) -> None:
        raise KilledError

    return store(count, die)


def undisturbed(store: type[InterruptedFiles]) -> InterruptedFiles:
    """Files of a process to which nothing happens."""
    return store(1_000_000, lambda _left: None)


def failing_at(count: int, times: int = 1) -> InterruptedFiles:
    """Files of which some operations in a row fail."""

    def fail(left: int) -> None:
        if left > -times:
            raise OSError("the file system failed")

    return InterruptedFiles(count, fail)


def stalled_at(count: int, resumed: threading.Event, stalled: threading.Event) -> InterruptedFiles:
    """Files of a process that stands still at an operation until `resumed` is set."""

    def wait(_left: int) -> None:
        stalled.set()
        assert resumed.wait(60)

    return InterruptedFiles(count, wait)


def opened(
    spark: SparkSession,
    target: Path,
    mode: OutputMode,
    run: str,
    *,
    files: LocalFiles | None = None,
    patience: float = 60.0,
) -> FileOutput:
    """An attempt to write an output that is partitioned by `day`."""
    spec = OutputSpec(path=str(target), mode=mode, format="json", partition_by=("day",))
    return open_output(spark, spec, run, files=files or LocalFiles(), patience=patience)


def stage(output: FileOutput, rows: Mapping[str, str]) -> None:
    """Stage one file for each partition, as Spark would leave them; values are the files' contents."""
    folder = local_path(output.paths.rows)
    assert folder is not None
    shutil.rmtree(folder, ignore_errors=True)
    for partition, content in rows.items():
        path = folder / partition / f"part-00000-{output.paths.attempt}.json"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    (folder / "_SUCCESS").touch()


def write(output: FileOutput, rows: Mapping[str, str]) -> None:
    """All steps of one attempt."""
    if output.prepare():
        with output.guarded():
            stage(output, rows)


def tree(target: Path) -> Tree:
    """What a reader finds in an output."""
    found: Tree = {}
    for path in sorted(target.rglob("part-*")):
        found.setdefault(str(path.parent.relative_to(target)), []).append(path.read_text())
    return {partition: sorted(contents) for partition, contents in found.items()}


def hidden(target: Path) -> list[str]:
    """Everything that is left in the hidden directory beside an output."""
    control = target.parent / f".{target.name}.pushdown"
    return sorted(str(path.relative_to(control)) for path in control.rglob("*"))
