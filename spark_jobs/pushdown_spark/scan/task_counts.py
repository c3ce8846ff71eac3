"""Counts of Python workers, collected per task on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    # Workers import this module too, and importing the contract takes a quarter of a second.
    from pushdown_spark.contract import FileReport

MAX_FILES = 50
"""Maximum number of files that a source report lists."""
WHOLE_SCAN = 0
"""The number of the batch with all tasks. The batches of an incremental scan have higher numbers."""

Count = TypeVar("Count")
"""Counts of a reader for one task."""


class TaskCounts(AccumulatorParam[dict[tuple[int, int], Count]], Generic[Count]):
    """Accumulates counts by batch and task, so that a task that Spark runs twice counts once."""

    def zero(self, value: dict[tuple[int, int], Count]) -> dict[tuple[int, int], Count]:
        """Return no counts."""
        return {}

    def addInPlace(  # noqa: N802 -- the name is Spark's
        self, value1: dict[tuple[int, int], Count], value2: dict[tuple[int, int], Count]
    ) -> dict[tuple[int, int], Count]:
        """Add the counts of more tasks."""
        value1.update(value2)
        return value1


def counts_of_batch(counts: dict[tuple[int, int], Count], batch: int) -> dict[int, Count]:
    """Return the counts of the finished tasks of a batch by task, also while Spark adds those of more tasks."""
    return {task: count for (its_batch, task), count in counts.copy().items() if its_batch == batch}


def group_by_file(tasks: Iterable[Mapping[str, Count]]) -> dict[str, list[Count]]:
    """Return the counts of all tasks by file. Several tasks may read splits of one file."""
    counts: dict[str, list[Count]] = {}
    for task in tasks:
        for path, count in task.items():
            counts.setdefault(path, []).append(count)
    return counts


def most_read_files(files: Iterable[FileReport]) -> tuple[FileReport, ...]:
    """Return the files with the most bytes read, at most `MAX_FILES`, because a result must stay small."""
    return tuple(sorted(files, key=lambda file: (-file.bytes_read, file.path))[:MAX_FILES])
