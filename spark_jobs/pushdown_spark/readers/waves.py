"""Runs a scan's tasks piece by piece until a limit is reached, for readers whose tasks can stop early by themselves."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from pushdown_spark.readers.files import Task

_LARGEST_WAVE = 10
"""The number of tasks in a wave is a power of two, up to this one."""


class WavedScan(Protocol):
    """A scan that can run some of its tasks."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in file order."""

    def wave(self, tasks: tuple[Task, ...], wave: int, cap: int | None) -> DataFrame:
        """The rows of some tasks; of each task at most `cap` rows where every one of them satisfies the predicate."""


class GrowingWaves:
    """Runs a scan's tasks front to back, twice as many each time."""

    def __init__(self, scan: WavedScan, limit: int) -> None:
        self._scan = scan
        self._limit = limit
        self._pending = scan.tasks
        self._wave = 0

    def next_frame(self) -> DataFrame | None:
        """The next wave's rows, None behind the last task."""
        size = 1 << min(self._wave, _LARGEST_WAVE)
        tasks, self._pending = self._pending[:size], self._pending[size:]
        if not tasks:
            return None
        self._wave += 1
        return self._scan.wave(tasks, self._wave, self._limit)
