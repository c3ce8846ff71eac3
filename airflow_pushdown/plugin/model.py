"""The values that the report page shows: the steps of the funnel, conjuncts, and formatted amounts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pushdown_spark.contract import (
    ConjunctReport,
    Exactness,
    FileReport,
    JobResult,
    ScanReport,
    Skipped,
    SourceReport,
    known_sum,
)
from pushdown_spark.contract.progress import Progress
from pushdown_spark.contract.report_text import (
    EXACTNESS_MEANINGS,
    check_line,
    human_bytes,
    human_count,
    human_percent,
    residual_reason,
    skipped_amount,
)

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Step:
    """One step from stored bytes to written rows.

    `amount` is formatted. `share` is the length of its bar from 0 to 1, or None if it is unknown. `part` is the
    amount as a percentage of the first step of its unit.
    """

    label: str
    amount: str
    share: float | None
    part: str


@dataclass(frozen=True)
class ConjunctRow:
    """One conjunct: its exactness with its meaning, its form in the reader, and what Spark does with it."""

    sql: str
    exactness: str
    meaning: str
    pushed_as: str
    in_spark: str


@dataclass(frozen=True)
class UnitCount:
    """The outcome of some units of one kind, their number, and their fraction of all units."""

    outcome: str
    count: int
    share: float


def source_funnel(source: SourceReport, rows_written: int | None) -> tuple[Step, ...]:
    """Return the steps of one source. `rows_written` is None if the job has other sources or no output.

    Bytes and rows have their own scales, because rows have no share of bytes. An unknown step has no bar.
    """
    size = source.bytes_total if source.has_size else None
    rows: list[tuple[str, int | None]] = [
        ("rows decoded", source.rows_decoded),
        ("rows after pushdown", source.rows_after_pushdown),
        ("rows returned", source.rows_returned),
    ]
    if rows_written is not None:
        rows.append(("rows written", rows_written))
    return (
        *_byte_steps([("bytes stored", size), ("bytes read", source.bytes_read)]),
        *_searched_steps(source),
        *_row_steps(rows),
    )


def job_funnel(result: JobResult) -> tuple[Step, ...]:
    """Return the steps of all sources together. A sum is unknown if a source does not know its part."""
    sources = list(result.sources.values())
    rows: list[tuple[str, int | None]] = [
        ("rows decoded", known_sum(source.rows_decoded for source in sources)),
        ("rows after pushdown", known_sum(source.rows_after_pushdown for source in sources)),
        ("rows written" if result.output else "rows returned", result.rows),
    ]
    return (*_byte_steps([("bytes stored", result.bytes_total), ("bytes read", result.bytes_read)]), *_row_steps(rows))


def rows_meaning(result: JobResult) -> str:
    """Return what the number of rows of a job means, or why there is none."""
    noun = "row" if result.rows == 1 else "rows"
    if result.scans:
        return f"{noun} in {human_count(len(result.scans), 'scan')}"
    if result.rows is None:
        return "rows, because the job failed" if result.error else "rows written, because the output already exists"
    return f"{noun} {'written' if result.output else 'returned'}"


def rows_written(result: JobResult, name: str) -> int | None:
    """Return the rows of a source that the job wrote, or None without an output and for one of several sources."""
    if result.scans:
        scan = result.scans.get(name)
        return scan.rows if scan is not None and scan.output else None
    return result.rows if result.output and len(result.sources) == 1 else None


def conjunct_rows(source: SourceReport) -> tuple[ConjunctRow, ...]:
    """Return the conjuncts of the predicate, in its order."""
    return tuple(
        ConjunctRow(
            sql=conjunct.sql,
            exactness=conjunct.exactness.value,
            meaning=EXACTNESS_MEANINGS[conjunct.exactness],
            pushed_as=conjunct.pushed_as or "",
            in_spark=_in_spark(conjunct),
        )
        for conjunct in source.conjuncts
    )


def _in_spark(conjunct: ConjunctReport) -> str:
    """Return what Spark does with a conjunct, with the words of the log."""
    if conjunct.exactness is Exactness.EXACT:
        return "not evaluated by Spark"
    reason = residual_reason(conjunct)
    if conjunct.exactness is Exactness.UNSUPPORTED:
        return f"evaluated by Spark: {reason}"
    return reason if reason.startswith("re-evaluated") else f"re-evaluated by Spark: {reason}"


def scan_outcome(scan: ScanReport) -> str:
    """Return what one of several scans did: its error, or what it wrote and how many checks passed."""
    if scan.error is not None:
        failures = [check_line(check) for check in scan.checks if not check.passed]
        return "; ".join([f"failed ({scan.error.code.value}): {scan.error.message}", *failures])
    if scan.rows is None:
        return "nothing written, the output already exists"
    if scan.output is None:
        return "counted"
    earlier = " by an earlier try" if scan.is_from_earlier_try else ""
    checks = f", {len(scan.checks)} checks passed" if scan.checks else ""
    return f"written{earlier}{checks}"


def unit_outcomes(outcomes: dict[str, int]) -> tuple[UnitCount, ...]:
    """Return the outcomes of units of one kind, without outcomes of no unit. Shares are of the `total` if it is known.

    A unit may have several outcomes: its filter columns are read, and then its select columns.
    """
    total = outcomes.get("total") or sum(outcomes.values())
    return tuple(UnitCount(outcome, count, count / total) for outcome, count in outcomes.items() if count)


def units_in_words(file: FileReport) -> tuple[str, ...]:
    """Return the outcomes of a file's units, one line for each kind."""
    return tuple(
        f"{kind}: {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes.items() if count)}"
        for kind, outcomes in file.units.items()
        if any(outcomes.values())
    )


def skipped_amounts(source: SourceReport) -> tuple[str, ...]:
    """Return the amounts that were never read or parsed, formatted."""
    return tuple(skipped_amount(kind, count) for kind, count in source.skipped.items() if count)


def progress_fraction(progress: Progress) -> float | None:
    """Return the part of the scan that is done, by bytes or else by tasks, or None if it is unknown."""
    if progress.bytes_done is not None and progress.bytes_total:
        return min(progress.bytes_done / progress.bytes_total, 1.0)
    if progress.tasks_done is not None and progress.tasks_total:
        return min(progress.tasks_done / progress.tasks_total, 1.0)
    return None


def bytes_or_unknown(count: int | None) -> str:
    """Return a formatted number of bytes, or that it is unknown."""
    return UNKNOWN if count is None else human_bytes(count)


def at_least(count: int, unknown: int) -> str:
    """Return a formatted sum of bytes, given the number of reports whose bytes are unknown.

    >>> at_least(2048, 0), at_least(2048, 1), at_least(0, 2)
    ('2.0 KiB', 'at least 2.0 KiB (unknown for 1 report)', 'unknown for 2 reports')
    """
    if not unknown:
        return human_bytes(count)
    missing = f"{UNKNOWN} for {human_count(unknown, 'report')}"
    return f"at least {human_bytes(count)} ({missing})" if count else missing


def _byte_steps(counts: Sequence[tuple[str, int | None]]) -> Iterator[Step]:
    """Yield steps whose bars are shares of the first one."""
    first = counts[0][1]
    for number, (label, count) in enumerate(counts):
        if count is None or first is None:
            yield Step(label, bytes_or_unknown(count), None, "")
        else:
            share = min(count / first, 1.0) if first else 0.0
            yield Step(label, human_bytes(count), share, human_percent(count, first) if number else "")


def _searched_steps(source: SourceReport) -> Iterator[Step]:
    """Yield the decompressed bytes that were searched and parsed. Their bars have a separate scale."""
    if source.bytes_searched is None:
        return
    never = source.skipped.get(Skipped.BYTES_NEVER_PARSED)
    counts: list[tuple[str, int | None]] = [("bytes searched, decompressed", source.bytes_searched)]
    if never is not None:
        counts.append(("bytes parsed", max(source.bytes_searched - never, 0)))
    yield from _byte_steps(counts)


def _row_steps(counts: Sequence[tuple[str, int | None]]) -> Iterator[Step]:
    """Yield steps with bars relative to the largest number of rows, or without bars if the first one is unknown."""
    first = counts[0][1]
    largest = max((count for _, count in counts if count is not None), default=0)
    for number, (label, count) in enumerate(counts):
        if count is None:
            yield Step(label, UNKNOWN, None, "")
        elif first is None:
            yield Step(label, f"{count:,}", None, "")
        else:
            part = human_percent(count, first) if number and first else ""
            yield Step(label, f"{count:,}", count / largest if largest else 0.0, part)
