"""The renames that put staged rows into an output, for each mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pushdown_spark.output.files.journal import Move
from pushdown_spark.output.files.layout import OutputPaths
from pushdown_spark.runtime.file_systems.base_files import FileEntry, Files, is_hidden

_PART = "part-"


def is_data(path: str) -> bool:
    """Return whether a path below the staged rows is a file of the committed write: only partitions are above it.

    A task attempt that Spark has abandoned may go on writing to a temporary directory after the write was committed.
    """
    *directories, name = path.strip("/").split("/")
    return all("=" in directory for directory in directories) and not is_hidden(name)


def staged_files(files: Files, paths: OutputPaths) -> list[FileEntry]:
    """Return the data files that an attempt has staged."""
    return [entry for entry in files.files(paths.rows) if is_data(paths.below_rows(entry.path))]


def partitions_of(entries: Iterable[FileEntry], paths: OutputPaths) -> list[str]:
    """Return the sorted partitions of staged files; the only one of an output without partitions is empty."""
    return sorted({paths.partition_of(entry.path) for entry in entries})


@dataclass(frozen=True)
class MovePlanner:
    """The moves of one attempt. An append puts the run into the names of its files, so that a retry finds them."""

    files: Files
    paths: OutputPaths

    def rename_staged(self, files: Iterable[FileEntry]) -> None:
        """Give the staged files the names of an append."""
        for entry in files:
            self.files.rename(entry.path, f"{entry.path.rpartition('/')[0]}/{self._name_in_output(entry)}")

    def replace_output(self, *, exists: bool) -> Iterator[Move]:
        """Yield the moves that replace the output with the directory of all staged rows.

        `exists` is whether the run has found an output that it may replace. If not, another program may have created
        one since, and the move of the staged rows fails.
        """
        if exists and self.files.exists(self.paths.output):
            yield Move(hidden="whole", output=self.paths.output, is_inward=False)
        yield Move(hidden="", output=self.paths.output, is_inward=True)

    def replace_partitions(self, partitions: Sequence[str], removals: Sequence[str]) -> Iterator[Move]:
        """Yield the moves that replace the directories of partitions. The `removals` have no staged rows."""
        for number, partition in enumerate([*partitions, *removals]):
            target = f"{self.paths.output}/{partition}"
            if self.files.exists(target):
                yield Move(hidden=str(number), output=target, is_inward=False)
            if partition not in removals:
                yield Move(hidden=partition, output=target, is_inward=True)

    def add_files(self, files: Iterable[FileEntry], depth: int) -> Iterator[Move]:
        """Yield the moves of an append to an output with `depth` partition columns.

        It replaces the files that an earlier attempt of the same run has added.
        """
        pattern = "*/" * depth + f"{self._own_prefix}*"
        for number, path in enumerate(self.files.glob(self.paths.output, pattern)):
            yield Move(hidden=str(number), output=path, is_inward=False)
        for entry in files:
            folder = f"{self.paths.output}/{self.paths.partition_of(entry.path)}".rstrip("/")
            hidden = self.paths.below_rows(entry.path).strip("/")
            yield Move(hidden=hidden, output=f"{folder}/{self._name_in_output(entry)}", is_inward=True)

    @property
    def _own_prefix(self) -> str:
        return f"{_PART}{self.paths.run}-"

    def _name_in_output(self, entry: FileEntry) -> str:
        return self._own_prefix + entry.path.rpartition("/")[2].removeprefix(_PART)
