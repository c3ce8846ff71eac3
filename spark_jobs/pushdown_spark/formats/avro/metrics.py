"""What an Avro scan did, counted where it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """What can become of a block."""

    TOTAL = "total"
    SKIPPED = "skipped by bytes"
    FILTERED = "filter columns decoded"
    SELECTED = "select columns decoded"


@dataclass
class AvroCount:
    """Figures of one file in one task.

    `records` are those of all blocks, as their heads tell; `records_decoded` those of blocks of which at least the
    filter columns were decoded. `bytes_read` are as stored, `bytes_searched` as unpacked.
    """

    blocks: Counter[Fate] = field(default_factory=Counter)
    records: int = 0
    records_decoded: int = 0
    records_returned: int = 0
    bytes_read: int = 0
    bytes_searched: int = 0


def total(counts: Iterable[AvroCount]) -> AvroCount:
    """The sum of figures."""
    sums = AvroCount()
    for count in counts:
        sums.blocks += count.blocks
        sums.records += count.records
        sums.records_decoded += count.records_decoded
        sums.records_returned += count.records_returned
        sums.bytes_read += count.bytes_read
        sums.bytes_searched += count.bytes_searched
    return sums
