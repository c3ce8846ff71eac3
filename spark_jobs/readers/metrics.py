"""What Python workers really did, collected per task on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

Count = TypeVar("Count")
"""Figures of one task, of whatever reader."""


@dataclass(frozen=True)
class TaskCount:
    """Figures of one finished task; bytes as stored and as searched, lines handed to Spark's parser."""

    files: frozenset[str] = field(default_factory=frozenset)
    bytes_read: int = 0
    bytes_searched: int = 0
    candidate_lines: int = 0
    candidate_bytes: int = 0
    exhausted: bool = True


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


@dataclass(frozen=True)
class Totals:
    """Sums over all tasks of a run."""

    files: int
    bytes_read: int
    bytes_searched: int
    candidate_lines: int
    candidate_bytes: int


def totals(counts: Mapping[tuple[int, int], TaskCount]) -> Totals:
    """Add up the tasks' figures; a file counts once however many tasks opened it."""
    files: set[str] = set()
    for count in counts.values():
        files |= count.files
    return Totals(
        len(files),
        sum(c.bytes_read for c in counts.values()),
        sum(c.bytes_searched for c in counts.values()),
        sum(c.candidate_lines for c in counts.values()),
        sum(c.candidate_bytes for c in counts.values()),
    )
