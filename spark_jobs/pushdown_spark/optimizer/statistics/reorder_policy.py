"""The decision whether collecting statistics pays: it may cost a twentieth of the estimated time of the query."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pushdown_spark.contract import JoinOptions, JoinReport, SourceFormat
from pushdown_spark.errors import UnsupportedError

MAX_ANALYSIS_SHARE = 0.05
"""Share of the time of a query that collecting statistics may take."""
_COLUMNAR = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
# Bytes of files that one processor joins per second, estimated from the joins of TPC-H over Parquet at scale 1. Text
# files are about three times as large.
_COLUMNAR_BYTES_PER_SECOND = 32 << 20
_OTHER_BYTES_PER_SECOND = 96 << 20
_RELATION_SECONDS = 0.1
"""Seconds that Spark needs for a relation of any size, half of them for planning. Measured."""
_NEW_SECONDS = 0.02
_CACHED_SECONDS = 0.007
_WARMUP_SECONDS = 6.0
"""Additional seconds of the first query of a session, in which the JVM loads classes. Measured with TPC-DS."""
_DECAY = 0.3
_FIRST_ANALYSIS_FACTOR = 2.0
"""How many times as long the first analysis of a session takes, at least."""


@dataclass
class AnalysisCosts:
    """Seconds that collecting statistics takes per relation on this machine.

    It starts with a guess and follows the measured times. `new` is for files that have not been sampled before,
    `cached` for sampled files. `warmup` is the additional time of the next query.
    """

    new: float = _NEW_SECONDS
    cached: float = _CACHED_SECONDS
    warmup: float = _WARMUP_SECONDS

    def expected_seconds(self, relations: int, new: int) -> float:
        """Return the expected seconds for a number of relations, some of which are new."""
        seconds = self.cached * (relations - new) + self.new * new
        return seconds * _FIRST_ANALYSIS_FACTOR if self.warmup > 0 else seconds

    def record(self, seconds: float, relations: int, new: int) -> None:
        """Learn from the measured seconds of an analysis."""
        factor = seconds / max(self.expected_seconds(relations, new), 1e-6)
        if new:
            self.new = (self.new + self.new * factor) / 2
        if new < relations:
            self.cached = (self.cached + self.cached * factor) / 2

    def decay(self) -> None:
        """Move towards the initial guess, so that one slow analysis does not prevent all later ones."""
        self.new += (_NEW_SECONDS - self.new) * _DECAY
        self.cached += (_CACHED_SECONDS - self.cached) * _DECAY


def check_analysis_time(analysis_seconds: float, query_seconds: float) -> None:
    """Raise UnsupportedError if collecting statistics does not pay."""
    if analysis_seconds > MAX_ANALYSIS_SHARE * query_seconds:
        raise UnsupportedError(
            f"collecting statistics would take about {analysis_seconds:.2f} s, more than {MAX_ANALYSIS_SHARE:.0%} of "
            f"the estimated {query_seconds:.1f} s of the query"
        )


def estimated_query_seconds(sizes: Iterable[tuple[SourceFormat, int]], processors: int) -> float:
    """Return a low estimate of the seconds of a query over sources of these formats and bytes."""
    listed = list(sizes)
    seconds = sum(
        size / (_COLUMNAR_BYTES_PER_SECOND if source_format in _COLUMNAR else _OTHER_BYTES_PER_SECOND)
        for source_format, size in listed
    )
    return seconds / max(processors, 1) + _RELATION_SECONDS * len(listed)


@dataclass(frozen=True)
class SourceSize:
    """A source that a query reads: its name, its format (None for a database), its bytes, and whether it is sampled."""

    name: str
    format: SourceFormat | None
    bytes: int | None
    is_sampled: bool


class ReorderPolicy:
    """Decides whether statistics are collected for a query, and learns from the time that this takes."""

    def __init__(
        self, options: JoinOptions, costs: AnalysisCosts, references: Sequence[SourceSize], processors: int
    ) -> None:
        """Decide for a query. `references` has a source once per reference to it."""
        self._costs = costs
        self._relations = len(references)
        # A source that is referenced twice is sampled once.
        self._new = sum(not source.is_sampled for source in {each.name: each for each in references}.values())
        self.obstacle: str | None = None
        """Why no statistics are collected, None if they are."""
        try:
            self._check_statistics(options, references, processors)
        except UnsupportedError as problem:
            self.obstacle = str(problem)
        self._started = time.perf_counter()

    def _check_statistics(self, options: JoinOptions, references: Sequence[SourceSize], processors: int) -> None:
        """Raise UnsupportedError if collecting statistics does not pay. It pays if a size is unknown."""
        if not options.reorder or any(source.bytes is None for source in references):
            return
        if options.min_bytes is not None:
            total = sum(source.bytes or 0 for source in references)
            if total < options.min_bytes:
                raise UnsupportedError(f"the sources have {total:,} bytes, fewer than join_reorder_min_bytes")
            return
        sizes = [(source.format, source.bytes or 0) for source in references]
        seconds = estimated_query_seconds([(kind, size) for kind, size in sizes if kind is not None], processors)
        analysis = self._costs.expected_seconds(self._relations, self._new)
        check_analysis_time(analysis, seconds + self._costs.warmup)

    def learn(self, joins: Sequence[JoinReport]) -> None:
        """Record the time since the decision, provided that join orders were compared."""
        seconds = time.perf_counter() - self._started
        is_first, self._costs.warmup = self._costs.warmup > 0, 0.0
        if self.obstacle is not None:
            self._costs.decay()
        # The first analysis of a session takes much longer than later ones.
        elif not is_first and any(report.method for report in joins):
            self._costs.record(seconds, self._relations, self._new)
