"""What a lazy ORC scan did, counted where it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from pushdown_spark.formats.orc.coalesced_reads import Purpose


class Fate(StrEnum):
    """What can become of a stripe or a row group."""

    TOTAL = "total"
    BY_STATISTICS = "pruned by statistics"
    BY_BLOOM_FILTER = "pruned by bloom filter"
    FILTERED = "filter columns read"
    SELECTED = "select columns read"


@dataclass
class OrcCount:
    """Figures of one file in one task; bytes as stored, rows as decoded from filter columns and as handed to Spark."""

    stripes: Counter[Fate] = field(default_factory=Counter)
    groups: Counter[Fate] = field(default_factory=Counter)
    bytes: Counter[Purpose] = field(default_factory=Counter)
    rows_decoded: int = 0
    rows_returned: int = 0
    reads: int = 0

    def prune(self, fate: Fate, groups: int) -> None:
        """Count a whole stripe, with so many row groups, as pruned."""
        self.stripes[fate] += 1
        self.groups[fate] += groups

    @property
    def bytes_read(self) -> int:
        """Bytes read for whatever purpose."""
        return sum(self.bytes.values())


def total(counts: Iterable[OrcCount]) -> OrcCount:
    """The sum of figures."""
    sums = OrcCount()
    for count in counts:
        sums.stripes += count.stripes
        sums.groups += count.groups
        sums.bytes += count.bytes
        sums.rows_decoded += count.rows_decoded
        sums.rows_returned += count.rows_returned
        sums.reads += count.reads
    return sums
