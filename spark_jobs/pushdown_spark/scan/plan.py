"""Plans of scans by the pushdown readers: the files, the conjuncts, and the reason for the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pushdown_spark.contract import ConjunctReport, CostReport, SourceReport
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.stores.listing import InputFile

_READER = "pushdown"


PUSHDOWN_REQUESTED = "asked for with reader='pushdown'"
"""The reason for a reader that the user chose."""


@dataclass(frozen=True)
class Choice:
    """Why the pushdown reader was chosen. `predicted` are the CPU seconds of the readers, if an estimate chose it."""

    reason: str = PUSHDOWN_REQUESTED
    predicted: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ScanPlan:
    """A planned scan of files by a pushdown reader. `conjuncts` are the ones that the reader gets."""

    files: tuple[InputFile, ...]
    choice: Choice
    conjuncts: tuple[ConjunctReport, ...]

    def report(self, request: ScanRequest, carrier: str | None = None) -> SourceReport:
        """Return the report before a run, without counts. `carrier` is where lines are searched.

        The conjuncts that pruned partitions come first.
        """
        pruning = () if request.directories is None else request.directories.conjuncts
        return SourceReport(
            reader=_READER,
            carrier=carrier,
            reason=self.choice.reason,
            cost=CostReport.of(carrier or _READER, self.choice.predicted),
            conjuncts=(*pruning, *self.conjuncts),
            columns=request.columns,
            files_total=len(self.files),
            bytes_total=sum(file.size for file in self.files),
            notes=request.notes,
        )

    def count_skipped(self, files_read: int) -> int:
        """Return the number of files with content that were not read."""
        return sum(1 for file in self.files if file.size) - files_read
