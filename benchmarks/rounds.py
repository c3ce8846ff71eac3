"""Interleaved rounds of several engines for one query: wall seconds, CPU seconds and bytes read."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import psutil

Engines = dict[str, Callable[[], int]]
"""The actions of engines by name. Each returns the number of its rows."""


@dataclass
class Measured:
    """The measurements of one engine without warm-up rounds. `rows` are those of the last round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    rows: int = 0


def measure(
    engines: Mapping[str, Callable[[], int]],
    rounds: int,
    warm_up: int = 1,
    *,
    prepare: Callable[[str], None] = lambda _: None,
    order: Random | None = None,
) -> dict[str, Measured]:
    """Run all engines in turn, so that changes of the machine's speed affect all.

    `prepare` is called with the name of an engine before each of its runs. `order` draws the order of each round.
    """
    measurements = {name: Measured() for name in engines}
    for number in range(rounds + warm_up):
        for name in engines if order is None else order.sample(sorted(engines), len(engines)):
            prepare(name)
            wall, cpu, read = time.perf_counter(), tree_seconds(), _tree_bytes()
            rows = engines[name]()
            figures = measurements[name]
            figures.rows = rows
            if number >= warm_up:
                figures.wall.append(time.perf_counter() - wall)
                figures.cpu.append(tree_seconds() - cpu)
                figures.read.append(_tree_bytes() - read)
    return measurements


def repeat(engines: Mapping[str, Callable[[], int]], names: Iterable[str], times: int) -> None:
    """Run some engines in turn without measuring, so that the JVM compiles their code."""
    for _ in range(times):
        for name in names:
            engines[name]()


def ratio(measured: Mapping[str, Measured], other: str, ours: str, kind: str) -> float:
    """Return the median over rounds of another engine's value relative to ours. Above 1, ours is less.

    A round in which a process of either engine ended has no CPU time, because that of the process is lost. Without
    other rounds, the ratio is not a number.
    """
    pairs = zip(getattr(measured[other], kind), getattr(measured[ours], kind), strict=True)
    ratios = [theirs / max(mine, 1e-3) for theirs, mine in pairs if theirs >= 0 and mine >= 0]
    return statistics.median(ratios) if ratios else math.nan


def seconds(measured: Mapping[str, Measured], engine: str, kind: str = "cpu") -> str:
    """Return the median of an engine's seconds as a cell, which is empty if the engine did not run."""
    return f"{statistics.median(getattr(measured[engine], kind)):.2f}" if engine in measured else ""


@dataclass(frozen=True)
class Comparison:
    """A column of ratios: its title, the two engines, and what is compared (`cpu`, `wall` or `read`)."""

    title: str
    other: str
    ours: str
    kind: str = "cpu"

    def cell(self, measured: Mapping[str, Measured]) -> str:
        """Return the ratio, or nothing if one of the engines did not run."""
        is_measured = self.other in measured and self.ours in measured
        return f"{ratio(measured, self.other, self.ours, self.kind):.2f}" if is_measured else ""


def cpu_and_wall(title: str, other: str, ours: str) -> Sequence[Comparison]:
    """Return the two columns that compare CPU and wall time."""
    return Comparison(f"{title}: CPU", other, ours), Comparison("wall", other, ours, "wall")


def tree_seconds() -> float:
    """Return user and system seconds of this process, its JVM and its workers, including ended ones."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _tree_bytes() -> int:
    """Return the bytes that running processes have read by system calls, from files, the page cache and pipes."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.io_counters().read_chars
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
