"""Counts of what an Avro scan read, taken where it happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pushdown_spark.formats.scan_task import FileMetrics

if TYPE_CHECKING:
    from pushdown_spark.contract import Skipped


class AvroOutcome(StrEnum):
    """What happened to a block. The values are keys of the report."""

    TOTAL = "total"
    SKIPPED = "skipped by bytes"
    FILTERED = "filter columns decoded"
    SELECTED = "select columns decoded"


@dataclass
class AvroMetrics(FileMetrics):
    """Counts for one file in one task.

    `records` counts the records of all blocks, `rows_decoded` those of blocks whose filter columns were decoded,
    `rows_returned` those that were passed to Spark.
    `bytes_read` counts stored bytes, `bytes_searched` decompressed bytes.
    """

    blocks: Counter[AvroOutcome] = field(default_factory=Counter)
    records: int = 0
    rows_decoded: int = 0
    rows_returned: int = 0
    bytes_read: int = 0
    bytes_searched: int = 0

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """The blocks by outcome, as the report shows them."""
        return {"blocks": {str(outcome): self.blocks[outcome] for outcome in AvroOutcome}}

    def count_skipped(self, bytes_total: int) -> dict[Skipped, int]:
        """Return the rows of skipped blocks, whose bytes are read and searched."""
        # Imported here, because workers do not need it.
        from pushdown_spark.contract import Skipped

        return {Skipped.ROWS_NEVER_DECODED: self.records - self.rows_decoded}

    @property
    def details(self) -> dict[str, object]:
        """The bytes that were searched for patterns."""
        return {"bytes_searched": self.bytes_searched}
