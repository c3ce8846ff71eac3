"""Interleaved rounds of several engines for one query: wall seconds, CPU seconds and bytes read."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.cpu import tree_bytes, tree_seconds


@dataclass
class Measured:
    """The measurements of one engine without warm-up rounds. `rows` are those of the last round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    rows: int = 0


def measure(engines: Mapping[str, Callable[[], int]], rounds: int, warm_up: int = 1) -> dict[str, Measured]:
    """Run all engines in turn, so that changes of the machine's speed affect all. Each action returns its rows."""
    measured = {name: Measured() for name in engines}
    for number in range(rounds + warm_up):
        for name, action in engines.items():
            wall, cpu, read = time.perf_counter(), tree_seconds(), tree_bytes()
            rows = action()
            figures = measured[name]
            figures.rows = rows
            if number >= warm_up:
                figures.wall.append(time.perf_counter() - wall)
                figures.cpu.append(tree_seconds() - cpu)
                figures.read.append(tree_bytes() - read)
    return measured


def repeat(engines: Mapping[str, Callable[[], int]], names: Iterable[str], times: int) -> None:
    """Run some engines in turn without measuring, so that the JVM compiles their code."""
    for _ in range(times):
        for name in names:
            engines[name]()


def ratio(measured: Mapping[str, Measured], other: str, ours: str, kind: str) -> float:
    """Return the median over rounds of another engine's value relative to ours. Above 1, ours is less."""
    pairs = zip(getattr(measured[other], kind), getattr(measured[ours], kind), strict=True)
    return statistics.median(theirs / max(mine, 1e-3) for theirs, mine in pairs)
