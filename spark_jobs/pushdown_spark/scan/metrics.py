"""What Python workers really did, collected per task on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    # Workers load this module too: the contract takes each of them a quarter of a second.
    from pushdown_spark.contract import FileReport

MOST_FILES = 50
"""So many files of a source are told of one by one."""

Count = TypeVar("Count")
"""Figures of a reader."""


class TaskCounts(AccumulatorParam[dict[tuple[int, int], Count]], Generic[Count]):
    """Accumulates counts by wave and task, so that a task that Spark runs twice is counted once."""

    def zero(self, value: dict[tuple[int, int], Count]) -> dict[tuple[int, int], Count]:
        """No counts."""
        return {}

    def addInPlace(  # noqa: N802 -- the name is Spark's
        self, value1: dict[tuple[int, int], Count], value2: dict[tuple[int, int], Count]
    ) -> dict[tuple[int, int], Count]:
        """Take over the counts of further tasks."""
        value1.update(value2)
        return value1


def by_file(tasks: Iterable[Mapping[str, Count]]) -> dict[str, list[Count]]:
    """The figures of all tasks by file: a file may be cut into splits that different tasks read."""
    found: dict[str, list[Count]] = {}
    for task in tasks:
        for path, count in task.items():
            found.setdefault(path, []).append(count)
    return found


def most_read(files: Iterable[FileReport]) -> tuple[FileReport, ...]:
    """The files that most was read of: a result must stay small however many files there are."""
    return tuple(sorted(files, key=lambda file: (-file.bytes_read, file.path))[:MOST_FILES])
