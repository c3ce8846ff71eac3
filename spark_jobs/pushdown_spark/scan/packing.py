"""The packing of the splits of files into tasks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pushdown_spark.sources.stores.listing import Compression, InputFile, Split


@dataclass(frozen=True)
class Task:
    """Splits that one Spark task reads in order. `file` is the index of the first split's file."""

    splits: tuple[Split, ...]
    file: int = 0


@dataclass(frozen=True)
class Packing:
    """Spark's settings for splits, in bytes, and its parallelism."""

    max_partition_bytes: int
    open_cost: int
    parallelism: int

    def split_size(self, files: Sequence[InputFile]) -> int:
        """Return the size of a split: Spark's rule for file sources, with splits up to four times as large.

        Searching a byte is cheaper than parsing it, so the start of a Python task weighs more.
        """
        total = sum(file.size + self.open_cost for file in files)
        return max(1, min(4 * self.max_partition_bytes, max(self.open_cost, total // (2 * max(self.parallelism, 1)))))


def pack(files: Sequence[InputFile], packing: Packing, *, groups: Sequence[Hashable] | None = None) -> tuple[Task, ...]:
    """Divide files into splits and pack them into tasks, in the order of the files.

    `groups` has a group for each file. A task then reads files of one group only, because a task has one value of each
    constant column.
    """
    limit = packing.split_size(files) if files else 0
    tasks: list[Task] = []
    splits: list[Split] = []
    size_of_task = first = 0
    for index, file in enumerate(files):
        for split in _splits(file, limit):
            size = split.end - split.start
            is_other_group = groups is not None and groups[index] != groups[first]
            if splits and (is_other_group or size_of_task + size > limit):
                tasks.append(Task(tuple(splits), first))
                splits, size_of_task = [], 0
            if not splits:
                first = index
            splits.append(split)
            size_of_task += size + packing.open_cost
    if splits:
        tasks.append(Task(tuple(splits), first))
    return tuple(tasks)


def _splits(file: InputFile, limit: int) -> list[Split]:
    if file.size == 0:
        return []
    if file.compression not in (None, Compression.NONE):
        return [file.split(0, file.size)]
    size = file.split_size(limit)
    return [file.split(start, min(start + size, file.size)) for start in range(0, file.size, size)]
