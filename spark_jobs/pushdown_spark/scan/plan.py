"""Plans of scans by the pushdown readers: the decision by estimated CPU seconds, the files and the conjuncts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pushdown_spark.contract import ConjunctReport, CostReport, SourceReport
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import InputFile, files_with_content

MAX_SAMPLED_FILES = 3
"""Maximum number of files from which an estimate reads a sample."""
_MARGIN = 0.9
"""The pushdown reader must cost less than this fraction of Spark's reader, because estimates are inexact."""
_READER = "pushdown"
PUSHDOWN_REQUESTED = "requested with reader='pushdown'"
"""The reason for a reader that the user chose."""


@dataclass(frozen=True)
class ReaderDecision:
    """Why the pushdown reader was chosen. `predicted` are the CPU seconds of the readers, if an estimate chose it."""

    reason: str = PUSHDOWN_REQUESTED
    predicted: Mapping[str, float] = field(default_factory=dict)


def is_cheaper(seconds: float, spark: float) -> bool:
    """Return whether a reader is cheaper than Spark's, with a margin for errors of the estimate.

    >>> is_cheaper(0.8, 1.0), is_cheaper(0.9, 1.0)
    (True, False)
    """
    return seconds < _MARGIN * spark


def describe_estimates(seconds: Mapping[str, float], startup: float = 0.0) -> str:
    """Return the estimates of the readers for a reason. `startup` are the seconds in them for the start of Python.

    >>> describe_estimates({"pushdown": 1.25, "spark": 3.0}, 0.5)
    'estimated CPU: pushdown 1.2 s, spark 3.0 s (including 0.5 s for the start of Python workers)'
    """
    figures = ", ".join(f"{reader} {value:.1f} s" for reader, value in seconds.items())
    return f"estimated CPU: {figures}{startup_note(startup)}"


def choose_pushdown(sample: str, pushdown: float, spark: float, startup: float) -> ReaderDecision:
    """Return the decision for the pushdown reader, which needs `startup` seconds in addition to start Python.

    `sample` says what a sample shows. Raises UnsupportedError if Spark's reader is cheaper.
    """
    predicted = {"pushdown": pushdown + startup, "spark": spark}
    reason = f"{sample}; {describe_estimates(predicted, startup)}"
    if not is_cheaper(predicted["pushdown"], spark):
        raise UnsupportedError(reason, predicted)
    return ReaderDecision(reason, predicted)


def startup_note(seconds: float) -> str:
    """Return the note for an estimate that includes the start of workers, or an empty string if it does not."""
    return f" (including {seconds:.1f} s for the start of Python workers)" if seconds else ""


@dataclass(frozen=True)
class ScanPlan:
    """A planned scan of files by a pushdown reader. `conjuncts` are the ones that the reader gets."""

    files: tuple[InputFile, ...]
    decision: ReaderDecision
    conjuncts: tuple[ConjunctReport, ...]

    def report(self, request: ScanRequest, carrier: str | None = None) -> SourceReport:
        """Return the report before a run, without counts. `carrier` is where lines are searched.

        The conjuncts that pruned partitions come first.
        """
        pruning_conjuncts = () if request.directories is None else request.directories.conjuncts
        return SourceReport(
            reader=_READER,
            carrier=carrier,
            reason=self.decision.reason,
            cost=CostReport.of(carrier or _READER, self.decision.predicted),
            conjuncts=(*pruning_conjuncts, *self.conjuncts),
            columns=request.columns,
            files_total=len(self.files),
            bytes_total=sum(file.size for file in self.files),
            notes=request.notes,
        )

    def count_skipped(self, files_read: int) -> int:
        """Return the number of files with content that were not read. A file may be in the plan several times."""
        return len({file.path for file in files_with_content(self.files)}) - files_read
