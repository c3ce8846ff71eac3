"""The text report of a job: what was pushed down, read, skipped and evaluated by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pushdown_spark.contract.job_result import (
    CheckReport,
    ConjunctReport,
    CostReport,
    Exactness,
    JobResult,
    Outcome,
    ScanReport,
    Skipped,
    SourceReport,
)
from pushdown_spark.contract.join_report_text import joins_text
from pushdown_spark.contract.sources import ONLY_SOURCE

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_INDENT = "  "

EXACTNESS_MEANINGS = {
    Exactness.EXACT: "The reader returns exactly the rows that satisfy the conjunct, and Spark does not evaluate it.",
    Exactness.INEXACT: "The reader drops some rows that do not match, and Spark re-evaluates the conjunct on the rest.",
    Exactness.UNSUPPORTED: "The reader ignores the conjunct, and Spark evaluates it on the rows from the reader.",
}
"""What the report's words for the exactness of a conjunct mean, one sentence each."""


def render_text(result: JobResult) -> str:
    """Return the report as plain text for logs and terminals, one fact per line."""
    lines = [*_outcome_lines(result)]
    for name, scan in result.scans.items():
        details = [*_summary_lines(scan), *_section("Checks", map(check_line, scan.checks))]
        lines += ["", f"Scan {name}", *(_INDENT + line for line in details)] if details else []
    for name, source in result.sources.items():
        lines += ["", f"{source_title(name)}: reader {reader_name(source)}, {source.reason}"]
        lines += [_INDENT + line for line in _source_lines(source)]
    if result.joins:
        lines += ["", "Joins", *(_INDENT + line for join in result.joins for line in joins_text(join))]
    return "\n".join(lines)


def source_title(name: str) -> str:
    """Return the heading of a source. The source of an operator with one source has no name of its own.

    >>> source_title("events"), source_title(ONLY_SOURCE)
    ('Source events', 'Source')
    """
    return "Source" if name == ONLY_SOURCE else f"Source {name}"


def reader_name(source: SourceReport) -> str:
    """Return the reader, and where it searched lines if not in Python workers."""
    return f"{source.reader} (inside the JVM)" if source.carrier == "jvm" else source.reader


def human_bytes(count: int) -> str:
    """Return a number of bytes in the binary unit that fits its size.

    >>> human_bytes(1_000), human_bytes(1_048_570)
    ('1000 B', '1.0 MiB')
    """
    size = float(count)
    for unit in _BYTE_UNITS[:-1]:
        if round(size, 1) < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_BYTE_UNITS[-1]}"


def human_count(number: int, noun: str) -> str:
    """Return a number of things.

    >>> human_count(1, "row"), human_count(1_200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def human_percent(part: float, whole: float) -> str:
    """Return a part of a whole in percent. Only an exact 0 or 100 percent is shown as such.

    >>> human_percent(1, 3), human_percent(1, 10**9)
    ('33.33 %', '< 0.01 %')
    """
    if whole <= 0 or part <= 0:
        return "0 %"
    percent = 100 * part / whole
    if percent >= 100:
        return "100 %"
    if percent < 0.01:
        return "< 0.01 %"
    if percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"


def human_seconds(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> human_seconds(0.0042), human_seconds(8.04), human_seconds(75), human_seconds(7_260)
    ('4 ms', '8.0 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _outcome_lines(result: JobResult) -> Iterator[str]:
    if result.error is not None:
        advice = "a retry may succeed" if result.error.retryable else "a retry fails again unless the task is changed"
        yield f"FAILED ({result.error.code.value}; {advice}): {result.error.message}"
    if result.scans:
        yield from _section("Scans", (f"{name}: {scan_line(scan)}" for name, scan in result.scans.items()))
    elif result.rows is not None:
        target = f" written to {result.output}" if result.output else " returned; the job has no output"
        yield f"{human_count(result.rows, 'row')}{target}"
    elif result.error is None:
        yield f"Nothing written: {result.output} already exists" if result.output else "Nothing written"
    yield from _summary_lines(result)
    yield from _section("Checks", map(check_line, result.checks))
    application = f" as {result.application_id}" if result.application_id else ""
    yield f"Ran for {human_seconds(result.seconds)}{application}"


def scan_line(scan: ScanReport) -> str:
    """Return one line about the outcome of one of several scans."""
    seconds = f"in {human_seconds(scan.seconds)}"
    if scan.error is not None:
        return f"FAILED {seconds} ({scan.error.code.value}): {scan.error.message}"
    if scan.rows is None:
        return f"nothing written, {scan.output} already exists"
    if scan.output is None:
        return f"{human_count(scan.rows, 'row')} counted {seconds}; the scan has no output"
    earlier = " by an earlier try" if scan.is_from_earlier_try else ""
    return f"{human_count(scan.rows, 'row')} written to {scan.output}{earlier} {seconds}"


def check_line(check: CheckReport) -> str:
    """Return one line about a check of the output."""
    return f"{check.check}: {'passed' if check.passed else 'FAILED'}, required {check.required}, found {check.found}"


def _summary_lines(result: Outcome) -> Iterator[str]:
    summary = result.output_summary
    if summary is None:
        return
    if summary.table is not None:
        yield f"Output: table {summary.table}, mode {summary.mode}"
    else:
        size = f"{human_count(summary.files, 'file')} of {summary.format}, {human_bytes(summary.bytes)}"
        yield f"Output: {size}, mode {summary.mode}"
    if summary.is_from_earlier_try:
        yield "An earlier try of the run had committed these rows. This try wrote nothing"
    yield f"Output columns: {', '.join(f'{name} {kind}' for name, kind in summary.columns.items())}"
    if summary.partitions_total:
        more = summary.partitions_total - len(summary.partitions)
        rest = f" and {more:,} more" if more else ""
        yield f"Output partitions: {', '.join(summary.partitions)}{rest}"


def _source_lines(source: SourceReport) -> Iterator[str]:
    pushed_conjuncts = [c for c in source.conjuncts if c.exactness is not Exactness.UNSUPPORTED]
    residual = [c for c in source.conjuncts if c.exactness is not Exactness.EXACT]
    yield from _section(f"Pushed down to the {source.reader} reader", map(_pushed_line, pushed_conjuncts))
    yield from _section("Evaluated by Spark", (f"{c.sql}: {residual_reason(c)}" for c in residual))
    if not source.conjuncts:
        yield "No predicate"
    if source.columns:
        yield f"Columns: {', '.join(source.columns)}"
    yield from cost_lines(source.cost)
    yield from _section("SQL sent", source.statements)
    if source.files_total or source.files_read is not None:
        yield _files_line(source)
    yield from _bytes_lines(source)
    purposes = [f"{purpose} {human_bytes(count)}" for purpose, count in source.bytes_by_purpose.items() if count]
    if purposes:
        yield f"Bytes read: {', '.join(purposes)}"
    yield from _units_lines(source)
    yield from _rows_lines(source)
    yield from _skipped_lines(source)
    yield from _section("Notes", source.notes)
    yield from _section("What would help", source.advice)


def cost_lines(cost: CostReport | None) -> Iterator[str]:
    """Yield the estimates that chose a reader and, after a run, the measured time. Yield nothing without estimates."""
    if cost is None:
        return
    readers = ", ".join(f"{name} {human_seconds(seconds)}" for name, seconds in cost.predicted.items())
    run_time = "" if cost.measured is None else f"; tasks of {cost.reader} ran for {human_seconds(cost.measured)}"
    yield f"Estimated CPU: {readers}{run_time}"
    if cost.is_off:
        yield "The estimate was off by more than half"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = list(lines)
    if items:
        yield title
        yield from (_INDENT + item for item in items)


def _pushed_line(conjunct: ConjunctReport) -> str:
    form = f" as {conjunct.pushed_as}" if conjunct.pushed_as else ""
    return f"{conjunct.sql}{form} ({conjunct.exactness.value})"


def residual_reason(conjunct: ConjunctReport) -> str:
    """Return why Spark evaluates a conjunct."""
    default = "re-evaluated by Spark" if conjunct.exactness is Exactness.INEXACT else "cannot be pushed down"
    return conjunct.reason or default


def _files_line(source: SourceReport) -> str:
    if source.files_read is None:
        return f"Files: {source.files_total:,} in total, number read unknown"
    return f"Files: {source.files_read:,} of {source.files_total:,} read"


def _bytes_lines(source: SourceReport) -> Iterator[str]:
    total = human_bytes(source.bytes_total)
    if not source.has_size:
        read = "number read and" if source.bytes_read is None else f"{human_bytes(source.bytes_read)} read,"
        yield f"Bytes: {read} total unknown"
    elif source.bytes_read is None:
        yield f"Bytes: {total} in total, number read unknown"
    else:
        percent = human_percent(source.bytes_total - source.bytes_read, source.bytes_total)
        yield f"Bytes: {human_bytes(source.bytes_read)} of {total} read, {percent} skipped"
    if source.bytes_searched is not None:
        yield f"Searched for byte patterns: {human_bytes(source.bytes_searched)} (decompressed)"


def _units_lines(source: SourceReport) -> Iterator[str]:
    """Yield one line for each kind of unit (stripe, row group, block) with a count for each outcome."""
    for kind, outcomes in source.units.items():
        parts = [f"{outcome} {count:,}" for outcome, count in outcomes.items() if count]
        if parts:
            yield f"{kind.capitalize()}: {', '.join(parts)}"


def _rows_lines(source: SourceReport) -> Iterator[str]:
    parts = []
    if source.rows_decoded is not None:
        parts.append(f"{source.rows_decoded:,} decoded")
    if source.rows_after_pushdown is not None:
        parts.append(f"{source.rows_after_pushdown:,} after pushdown")
    if source.rows_returned is not None:
        parts.append(f"{source.rows_returned:,} returned")
    if source.malformed_lines is not None:
        parts.append(f"{source.malformed_lines:,} malformed lines")
    if parts:
        yield f"Rows: {', '.join(parts)}"


def skipped_amount(kind: Skipped, count: int) -> str:
    """Return a formatted amount of what was skipped.

    >>> skipped_amount(Skipped.FILES, 3), skipped_amount(Skipped.BYTES_NEVER_READ, 2048)
    ('3 files', '2.0 KiB never read')
    """
    amount, what = f"{count:,}", str(kind)
    if kind in (Skipped.BYTES_NEVER_READ, Skipped.BYTES_NEVER_PARSED):
        amount, what = human_bytes(count), what.removeprefix("bytes ")
    return f"{amount} {what}"


def _skipped_lines(source: SourceReport) -> Iterator[str]:
    """Yield the units that were neither read nor parsed, by kind; bytes with their share of the bytes searched."""
    parts = []
    for kind, count in source.skipped.items():
        amount = skipped_amount(kind, count)
        if kind is Skipped.BYTES_NEVER_PARSED and source.bytes_searched:
            amount += f" ({human_percent(count, source.bytes_searched)})"
        parts.append(amount)
    if parts:
        yield f"Skipped: {', '.join(parts)}"
