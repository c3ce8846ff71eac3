"""Counts of what an ORC scan read, taken where it happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from pushdown_spark.formats.scan_task import FileMetrics


class OrcOutcome(StrEnum):
    """What happened to a stripe or a row group. The values are keys of the report."""

    TOTAL = "total"
    BY_STATISTICS = "pruned by statistics"
    BY_BLOOM_FILTER = "pruned by bloom filter"
    FILTERED = "filter columns read"
    SELECTED = "select columns read"


class ReadPurpose(StrEnum):
    """What bytes are read for. The values are keys of the report."""

    METADATA = "metadata"
    INDEX = "index"
    FILTER = "filter columns"
    SELECT = "select columns"


@dataclass
class OrcMetrics(FileMetrics):
    """Counts for one file in one task.

    `bytes` counts stored bytes, `rows_decoded` rows whose filter columns were decoded, `rows_returned` rows that were
    passed to Spark, and `reads` read requests.
    """

    stripes: Counter[OrcOutcome] = field(default_factory=Counter)
    groups: Counter[OrcOutcome] = field(default_factory=Counter)
    bytes: Counter[ReadPurpose] = field(default_factory=Counter)
    rows_decoded: int = 0
    rows_returned: int = 0
    reads: int = 0

    def count_pruned_stripe(self, outcome: OrcOutcome, groups: int) -> None:
        """Count a stripe and all its row groups as pruned."""
        self.stripes[outcome] += 1
        self.groups[outcome] += groups

    @property
    def bytes_read(self) -> int:
        """Bytes read for any purpose."""
        return sum(self.bytes.values())

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """The stripes and row groups by outcome, as the report shows them."""
        return {
            "stripes": {str(outcome): self.stripes[outcome] for outcome in OrcOutcome},
            "row groups": {str(outcome): self.groups[outcome] for outcome in OrcOutcome},
        }

    @property
    def details(self) -> dict[str, object]:
        """The bytes by purpose."""
        return {"bytes_by_purpose": {str(purpose): self.bytes[purpose] for purpose in ReadPurpose}}
