"""The limit of the time to collect statistics: a twentieth of the estimated time of the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.contract import JoinOptions, SourceFormat
from pushdown_spark.contract.report_text import human_bytes
from pushdown_spark.errors import UnsupportedError

MAX_ANALYSIS_FRACTION = 0.05
"""Fraction of the time of a query that collecting statistics may take."""
_COLUMNAR = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
# Bytes of files that one processor joins per second, estimated from the joins of TPC-H over Parquet at scale 1. Text
# files are about three times as large.
_COLUMNAR_BYTES_PER_SECOND = 32 << 20
_OTHER_BYTES_PER_SECOND = 96 << 20
_RELATION_SECONDS = 0.1
"""Seconds that Spark needs for a relation of any size, half of them for planning. Measured."""


@dataclass(frozen=True)
class AnalysisCosts:
    """Seconds to collect statistics for a relation: `cached` if its files were sampled before, else `new`.

    `warmup` is the additional time of the first query of a session, when the JVM loads classes. The values are
    estimated from TPC-H and the Join Order Benchmark.
    """

    new: float = 0.04
    cached: float = 0.02
    warmup: float = 6.0

    def expected_seconds(self, relations: int, new: int) -> float:
        """Return the expected seconds for a number of relations, some of which are new."""
        return self.cached * (relations - new) + self.new * new


def check_statistics_time(
    options: JoinOptions,
    costs: AnalysisCosts,
    sizes: Sequence[tuple[SourceFormat, int | None]],
    new: int,
    processors: int,
) -> None:
    """Raise UnsupportedError if collecting statistics would take too long. Sources of unknown size set no limit.

    `sizes` are the formats and bytes of all references to sources. `new` sources have not been sampled before.
    """
    known_sizes = [(source_format, size) for source_format, size in sizes if size is not None]
    if not options.reorder or len(known_sizes) < len(sizes):
        return
    if options.min_bytes is None:
        query_seconds = estimated_query_seconds(known_sizes, processors) + costs.warmup
        check_analysis_time(costs.expected_seconds(len(sizes), new), query_seconds)
        return
    total = sum(size for _, size in known_sizes)
    if total < options.min_bytes:
        raise UnsupportedError(f"the sources have {human_bytes(total)}, fewer than join_reorder_min_bytes")


def check_analysis_time(analysis_seconds: float, query_seconds: float) -> None:
    """Raise UnsupportedError if collecting statistics takes too large a fraction of the time of a query."""
    if analysis_seconds > MAX_ANALYSIS_FRACTION * query_seconds:
        raise UnsupportedError(
            f"collecting statistics would take about {analysis_seconds:.2f} s, more than {MAX_ANALYSIS_FRACTION:.0%} "
            f"of the estimated {query_seconds:.1f} s of the query"
        )


def estimated_query_seconds(sizes: Sequence[tuple[SourceFormat, int]], processors: int) -> float:
    """Return a low estimate of the seconds of a query over sources of these formats and bytes."""
    seconds = sum(
        size / (_COLUMNAR_BYTES_PER_SECOND if source_format in _COLUMNAR else _OTHER_BYTES_PER_SECOND)
        for source_format, size in sizes
    )
    return seconds / max(processors, 1) + _RELATION_SECONDS * len(sizes)
