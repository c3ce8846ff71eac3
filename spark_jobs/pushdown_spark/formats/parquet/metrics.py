"""Counts of what a Parquet scan read, from the footer and from DataFusion's metrics."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from pushdown_spark.formats.scan_task import FileMetrics

_STATISTICS, _BLOOM_FILTER = "row_groups_pruned_statistics", "row_groups_pruned_bloom_filter"
_PAGE_INDEX = "page_index_pages_pruned"
_COUNT = r"([\d.]+) ?([KMB]?)"
_PRUNING_METRIC = re.compile(
    rf"\b({_STATISTICS}|{_BLOOM_FILTER}|{_PAGE_INDEX})\{{[^}}]*\}}={_COUNT} total → {_COUNT} matched"
)
"""How DataFusion prints a metric of pruning. Python has no other access to its value."""
_SCALES = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}


class ParquetOutcome(StrEnum):
    """What happened to a row group or a page. The values are keys of the report."""

    TOTAL = "total"
    BY_STATISTICS = "pruned by statistics"
    BY_BLOOM_FILTER = "pruned by bloom filter"
    BY_PAGE_INDEX = "pruned by page index"
    READ = "read"


_ROW_GROUP_OUTCOMES = (
    ParquetOutcome.TOTAL,
    ParquetOutcome.BY_STATISTICS,
    ParquetOutcome.BY_BLOOM_FILTER,
    ParquetOutcome.READ,
)
_PAGE_OUTCOMES = (ParquetOutcome.TOTAL, ParquetOutcome.BY_PAGE_INDEX)
"""Pages are counted only where a page index was consulted."""


@dataclass
class ParquetMetrics(FileMetrics):
    """Counts for one file in one task.

    `bytes_read` counts stored bytes with the footer, `rows_decoded` rows whose filter columns were decoded, and
    `rows_returned` rows that were passed to Spark.
    """

    row_groups: Counter[ParquetOutcome] = field(default_factory=Counter)
    pages: Counter[ParquetOutcome] = field(default_factory=Counter)
    bytes_read: int = 0
    rows_decoded: int = 0
    rows_returned: int = 0

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """The row groups and pages by outcome, as the report shows them."""
        return {
            "row groups": {str(outcome): self.row_groups[outcome] for outcome in _ROW_GROUP_OUTCOMES},
            "pages": {str(outcome): self.pages[outcome] for outcome in _PAGE_OUTCOMES},
        }

    def count_pruning(self, text: str, row_groups: int) -> None:
        """Add the outcomes of `row_groups` row groups, given the printed metrics of a scan."""
        pruned_units: Counter[str] = Counter()
        all_units: Counter[str] = Counter()
        for name, count, scale, match_count, match_scale in _PRUNING_METRIC.findall(text):
            units = round(float(count) * _SCALES[scale])
            all_units[name] += units
            pruned_units[name] += units - round(float(match_count) * _SCALES[match_scale])
        by_statistics = pruned_units[_STATISTICS]
        by_bloom_filter = pruned_units[_BLOOM_FILTER]
        self.row_groups[ParquetOutcome.TOTAL] += row_groups
        self.row_groups[ParquetOutcome.BY_STATISTICS] += by_statistics
        self.row_groups[ParquetOutcome.BY_BLOOM_FILTER] += by_bloom_filter
        self.row_groups[ParquetOutcome.READ] += max(row_groups - by_statistics - by_bloom_filter, 0)
        self.pages[ParquetOutcome.TOTAL] += all_units[_PAGE_INDEX]
        self.pages[ParquetOutcome.BY_PAGE_INDEX] += pruned_units[_PAGE_INDEX]
