"""The values that the report page shows: the stages of the funnel, and formatted amounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pushdown_spark.contract import ConjunctReport, Exactness, FileReport, ScanReport, SourceReport
from pushdown_spark.contract.report_text import check_line, human_bytes, human_share

_BYTES = "bytes "


@dataclass(frozen=True)
class Stage:
    """One step from files to rows. `share` is its fraction of the first step, from 0 to 1."""

    label: str
    amount: str
    share: float


@dataclass(frozen=True)
class UnitCount:
    """The outcome of some units of one kind, their number, and their fraction of all units."""

    outcome: str
    count: int
    share: float


def funnel(source: SourceReport) -> tuple[Stage, ...]:
    """Return the known steps from bytes in the files to rows returned. No step is wider than the previous one.

    Rows are not comparable to bytes. Decoded rows have the width of the bytes that they were decoded from, and returned
    rows have their fraction of the decoded rows.
    """
    stages: list[Stage] = []
    share = 1.0
    for label, amount, part in _steps(source):
        share *= min(max(part, 0.0), 1.0)
        stages.append(Stage(label, amount, share))
    return tuple(stages)


def scan_outcome(scan: ScanReport) -> str:
    """Return what one of several scans did: its error, or what it wrote and how many checks passed."""
    if scan.error is not None:
        failed = [check_line(check) for check in scan.checks if not check.passed]
        return "; ".join([f"failed ({scan.error.code.value}): {scan.error.message}", *failed])
    if scan.rows is None:
        return "nothing written, the output already exists"
    if scan.output is None:
        return "counted"
    earlier = (
        " by an earlier try" if scan.output_summary is not None and scan.output_summary.is_from_earlier_try else ""
    )
    passed = f", {len(scan.checks)} checks passed" if scan.checks else ""
    return f"written{earlier}{passed}"


def unit_outcomes(outcomes: dict[str, int]) -> tuple[UnitCount, ...]:
    """Return the outcomes of units of one kind, without outcomes of no unit."""
    total = sum(outcomes.values())
    return tuple(UnitCount(outcome, count, count / total) for outcome, count in outcomes.items() if count)


def units_in_words(file: FileReport) -> tuple[str, ...]:
    """Return the outcomes of a file's units, one line for each kind."""
    return tuple(
        f"{kind}: {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes.items() if count)}"
        for kind, outcomes in file.units.items()
        if any(outcomes.values())
    )


def pushed(source: SourceReport) -> tuple[ConjunctReport, ...]:
    """Return the conjuncts that the source evaluates, exactly or inexactly."""
    return tuple(conjunct for conjunct in source.conjuncts if conjunct.exactness is not Exactness.UNSUPPORTED)


def evaluated_by_spark(source: SourceReport) -> tuple[ConjunctReport, ...]:
    """Return the conjuncts that Spark evaluates or re-evaluates."""
    return tuple(conjunct for conjunct in source.conjuncts if conjunct.exactness is not Exactness.EXACT)


def skipped(source: SourceReport) -> tuple[str, ...]:
    """Return the amounts that were never read or parsed, formatted."""
    return tuple(
        f"{human_bytes(count)} {kind.removeprefix(_BYTES)}" if kind.startswith(_BYTES) else f"{count:,} {kind}"
        for kind, count in source.skipped.items()
        if count
    )


def _steps(source: SourceReport) -> Iterator[tuple[str, str, float]]:
    """Yield label and amount of each step, and its fraction of the previous step."""
    if source.bytes_total:
        where = "bytes in the files" if source.files_total else "bytes in the table"
        yield where, human_bytes(source.bytes_total), 1.0
    if source.bytes_read is not None:
        part = source.bytes_read / source.bytes_total if source.bytes_total else 1.0
        share = f" ({human_share(source.bytes_read, source.bytes_total)})" if source.bytes_total else ""
        yield "bytes read", f"{human_bytes(source.bytes_read)}{share}", part
    if source.bytes_searched:
        parsed = source.bytes_searched - source.skipped.get("bytes never parsed", 0)
        yield "bytes searched, decompressed", human_bytes(source.bytes_searched), 1.0
        share = human_share(parsed, source.bytes_searched)
        yield "bytes parsed", f"{human_bytes(parsed)} ({share})", parsed / source.bytes_searched
    if source.rows_decoded is not None:
        yield "rows decoded", f"{source.rows_decoded:,}", 1.0
    if source.rows_returned is not None:
        yield "rows returned", f"{source.rows_returned:,}", _part(source.rows_returned, source.rows_decoded)


def _part(count: int, whole: int | None) -> float:
    """Return a count as a fraction of the whole, 1 if the whole is unknown."""
    if whole is None:
        return 1.0
    return count / whole if whole else 0.0
