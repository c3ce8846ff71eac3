"""Decides whether looking for an order of joins pays: it may cost a twentieth of the query's own time, by estimate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pushdown_spark.contract import SourceFormat

SHARE = 0.05
"""The part of a query's time that an analysis may take."""
_COLUMNAR = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
_COLUMNAR_BYTES = 32 << 20
_OTHER_BYTES = 96 << 20
"""Bytes of files for which a processor that joins them takes a second: rather too many than too few.

Guessed from the seconds of TPC-H's join queries over Parquet at scale 1; texts are about three times as long.
"""


_LEAST = 0.1
"""Seconds that Spark takes for a relation, however small it is: half of them to open and plan it. Measured."""
_FRESH = 0.02
_FAMILIAR = 0.007
"""Seconds for a relation before anything is known of this machine."""
_FORGOTTEN = 0.3
_WARMING = 6.0
"""Seconds by which the first query of a session takes longer: the JVM loads and compiles what all need.

Measured over queries of TPC-DS in fresh processes: 5.5 to 9.4.
"""
_FIRST = 2.0
"""How many times as long the first analysis of a session takes, at least."""


@dataclass
class AnalysisClock:
    """Seconds that an analysis takes for each relation: `fresh` ones, of files not seen before, and `familiar` ones.

    It starts with a guess, and follows what this machine takes. `warming` is what the next query takes beyond its work.
    """

    fresh: float = _FRESH
    familiar: float = _FAMILIAR
    warming: float = _WARMING

    def expected(self, relations: int, fresh: int) -> float:
        """Seconds for so many relations, some of them fresh."""
        seconds = self.familiar * (relations - fresh) + self.fresh * fresh
        return seconds * _FIRST if self.warming > 0 else seconds

    def took(self, seconds: float, relations: int, fresh: int) -> None:
        """Learn from an analysis that is done."""
        factor = seconds / max(self.expected(relations, fresh), 1e-6)
        if fresh:
            self.fresh = (self.fresh + self.fresh * factor) / 2
        if fresh < relations:
            self.familiar = (self.familiar + self.familiar * factor) / 2

    def skipped(self) -> None:
        """Forget a little: a machine that was busy once must not forbid all further analyses."""
        self.fresh += (_FRESH - self.fresh) * _FORGOTTEN
        self.familiar += (_FAMILIAR - self.familiar) * _FORGOTTEN


@dataclass(frozen=True)
class Outlook:
    """What an analysis, and the query as it is written, are expected to take, in seconds."""

    analysis: float
    query: float

    @property
    def obstacle(self) -> str | None:
        """Why there is to be no analysis, None where it pays."""
        if self.analysis <= SHARE * self.query:
            return None
        return (
            f"looking for an order would take about {self.analysis:.2f} s, more than {SHARE:.0%} of the "
            f"{self.query:.1f} s that the query may take"
        )


def query_seconds(sizes: Iterable[tuple[SourceFormat, int]], processors: int) -> float:
    """Seconds that a query over sources of these formats and bytes may take; less than that rather than more."""
    listed = list(sizes)
    seconds = sum(size / (_COLUMNAR_BYTES if kind in _COLUMNAR else _OTHER_BYTES) for kind, size in listed)
    return seconds / max(processors, 1) + _LEAST * len(listed)
