"""Interleaved rounds of several engines over one query: wall seconds, CPU seconds, bytes read."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.cpu import tree_bytes, tree_seconds


@dataclass
class Measured:
    """What one engine took in the rounds that count; `rows` of the last one."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    rows: int = 0


def measure(engines: Mapping[str, Callable[[], int]], rounds: int, warm_up: int = 1) -> dict[str, Measured]:
    """Run all engines in turn, so that a change in the machine's speed meets all of them; each returns its rows."""
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
    """Run some engines in turn without measuring, so that the JVM has compiled what each of them runs."""
    for _ in range(times):
        for name in names:
            engines[name]()


def ratio(measured: Mapping[str, Measured], other: str, ours: str, kind: str) -> float:
    """The median over rounds of another engine's figure over ours: above 1 where ours is less."""
    pairs = zip(getattr(measured[other], kind), getattr(measured[ours], kind), strict=True)
    return statistics.median(theirs / max(mine, 1e-3) for theirs, mine in pairs)
