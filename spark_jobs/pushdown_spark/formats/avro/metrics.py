"""Counts of what an Avro scan read, taken where it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class BlockOutcome(StrEnum):
    """What happened to a block. The values are keys of the report."""

    TOTAL = "total"
    SKIPPED = "skipped by bytes"
    FILTERED = "filter columns decoded"
    SELECTED = "select columns decoded"


@dataclass
class AvroMetrics:
    """Counts for one file in one task.

    `records` counts the records of all blocks, `records_decoded` those of blocks whose filter columns were decoded.
    `bytes_read` counts stored bytes, `bytes_searched` decompressed bytes.
    """

    blocks: Counter[BlockOutcome] = field(default_factory=Counter)
    records: int = 0
    records_decoded: int = 0
    records_returned: int = 0
    bytes_read: int = 0
    bytes_searched: int = 0

    @property
    def rows_decoded(self) -> int:
        """The decoded records, under the name that all formats share."""
        return self.records_decoded

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """The blocks by outcome, as the report shows them."""
        return {"blocks": {str(outcome): self.blocks[outcome] for outcome in BlockOutcome}}


def sum_metrics(metrics: Iterable[AvroMetrics]) -> AvroMetrics:
    """Return the sum of some counts."""
    total = AvroMetrics()
    for part in metrics:
        total.blocks += part.blocks
        total.records += part.records
        total.records_decoded += part.records_decoded
        total.records_returned += part.records_returned
        total.bytes_read += part.bytes_read
        total.bytes_searched += part.bytes_searched
    return total
