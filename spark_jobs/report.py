"""The readable report of a job: what was pushed, to where, as what; what was read, skipped and left to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from spark_jobs.contract import CheckReport, ConjunctReport, Exactness, JobResult, SourceReport
from spark_jobs.joins.picture import joins_svg, joins_text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_INDENT = "  "
_WIDTH = 640
_ROW_HEIGHT = 44
_DETAIL_HEIGHT = 14
_READ = "#e25a1c"
_SHADES = ("#7a2e0c", "#b3440f", _READ, "#f3a683")
"""Colours of the purposes that bytes were read for, in their order; the last serves all that come after."""


def render_text(result: JobResult) -> str:
    """The report as plain text, one fact per line, for logs and terminals."""
    lines = [*_outcome(result)]
    for name, source in result.sources.items():
        lines += ["", f"Source {name}: reader {source.reader}, {source.reason}"]
        lines += [_INDENT + line for line in _source(source)]
    if result.joins:
        lines += ["", "Joins", *(_INDENT + line for join in result.joins for line in joins_text(join))]
    return "\n".join(lines)


def render_svg(result: JobResult) -> str:
    """The report as a small stand-alone SVG: per source a bar of all bytes, filled as far as they were read.

    Where it is known what bytes were read for, the bar shows that in shades, and the lines below it what became of the
    format's units. Below, the trees of joins: as written, and as run where the order is another.
    """
    bars, height = "", 0
    for name, source in result.sources.items():
        bars += _bar(height, name, source)
        height += _ROW_HEIGHT + _DETAIL_HEIGHT * len(_details(source))
    for join in result.joins:
        drawing, taken = joins_svg(join, _WIDTH)
        bars += f'<g transform="translate(0,{height})">{drawing}</g>'
        height += taken
    height = height or _ROW_HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">{bars}</svg>'
    )


def human_bytes(count: int) -> str:
    """A number of bytes in the largest binary unit that leaves at least one of it."""
    size = float(count)
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def human_share(part: int, whole: int) -> str:
    """What share of the whole a part is, in percent; never rounded to 0 or 100 unless it is exactly that."""
    if whole <= 0 or part <= 0:
        return "0 %"
    percent = 100 * part / whole
    if percent >= 100:
        return "100 %"
    return f"{min(max(percent, 0.01), 99.99):.2f}".rstrip("0").rstrip(".") + " %"


def _bar(top: int, name: str, source: SourceReport) -> str:
    """One source: its name and figures above, the bar and details below; an unknown amount is drawn as everything."""
    known = source.bytes_read is not None and source.bytes_total > 0
    share = min((source.bytes_read or 0) / source.bytes_total, 1.0) if known else 1.0
    figures = next(_bytes_lines(source))
    label = escape(f"{name} ({source.reader} reader): {figures}")
    details = "".join(
        f'<text x="0" y="{top + _ROW_HEIGHT + _DETAIL_HEIGHT * number}" font-size="10">{line}</text>'
        for number, line in enumerate(_details(source))
    )
    return (
        f'<text x="0" y="{top + 14}">{label}</text>'
        f'<rect x="0" y="{top + 20}" width="{_WIDTH}" height="12" fill="#dddddd"/>'
        f"{_filling(top + 20, _WIDTH * share, source)}{details}"
    )


def _filling(top: int, width: float, source: SourceReport) -> str:
    """The filled part of a bar: one piece, or one for each purpose that bytes were read for."""
    counts = list(_purposes(source).values())
    pieces = [(_shade(place), count) for place, count in enumerate(counts)] or [(_READ, 1)]
    scale = width / sum(count for _, count in pieces)
    drawn, left = "", 0.0
    for shade, count in pieces:
        drawn += f'<rect x="{left:.1f}" y="{top}" width="{count * scale:.1f}" height="12" fill="{shade}"/>'
        left += count * scale
    return drawn


def _details(source: SourceReport) -> list[str]:
    """Lines below a bar, as content of SVG text: the units, and the purposes in the shades of their pieces."""
    lines = [escape(line) for line in _units_lines(source)]
    purposes = [
        f'<tspan fill="{_shade(place)}">\N{BLACK SQUARE}</tspan> {escape(_purpose(*entry))}'
        for place, entry in enumerate(_purposes(source).items())
    ]
    return [*lines, f"Bytes read: {', '.join(purposes)}"] if purposes else lines


def _shade(place: int) -> str:
    """The colour of the purpose at this place."""
    return _SHADES[min(place, len(_SHADES) - 1)]


def _outcome(result: JobResult) -> Iterator[str]:
    if result.error is not None:
        again = "may succeed when tried again" if result.error.retryable else "will fail again unless changed"
        yield f"FAILED ({result.error.code.value}, {again}): {result.error.message}"
    if result.rows is not None:
        target = f" written to {result.output}" if result.output else " returned, no output asked for"
        yield f"{_count(result.rows, 'row')}{target}"
    elif result.error is None:
        yield f"nothing written: {result.output} exists already" if result.output else "nothing written"
    yield from _summary_lines(result)
    yield from _section("Checks", (check_line(check) for check in result.checks))
    place = f" as {result.application_id}" if result.application_id else ""
    yield f"ran for {result.seconds:.1f} s{place}"


def check_line(check: CheckReport) -> str:
    """One check in words."""
    return f"{check.check}: {'passed' if check.passed else 'FAILED'}, required {check.required}, found {check.found}"


def _summary_lines(result: JobResult) -> Iterator[str]:
    summary = result.output_summary
    if summary is None:
        return
    size = f"{_count(summary.files, 'file')} of {summary.format}, {human_bytes(summary.bytes)}"
    yield f"Output: {size}, mode {summary.mode}"
    yield f"Output columns: {', '.join(f'{name} {kind}' for name, kind in summary.columns.items())}"
    if summary.partitions_total:
        more = summary.partitions_total - len(summary.partitions)
        rest = f" and {more:,} more" if more else ""
        yield f"Output partitions: {', '.join(summary.partitions)}{rest}"


def _source(source: SourceReport) -> Iterator[str]:
    pushed = [c for c in source.conjuncts if c.exactness is not Exactness.UNSUPPORTED]
    left = [c for c in source.conjuncts if c.exactness is not Exactness.EXACT]
    yield from _section(f"Pushed down to the {source.reader} reader", (_pushed_line(conjunct) for conjunct in pushed))
    yield from _section("Left to Spark", (_residual_line(conjunct) for conjunct in left))
    if not source.conjuncts:
        yield "No predicate"
    if source.columns:
        yield f"Columns: {', '.join(source.columns)}"
    yield from _section("SQL sent", source.statements)
    if not source.statements:
        yield _files_line(source)
    yield from _bytes_lines(source)
    yield from _purpose_lines(source)
    yield from _units_lines(source)
    yield from _rows_lines(source)
    yield from _skipped_lines(source)
    yield from _section("Notes", source.notes)


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = list(lines)
    if items:
        yield title
        yield from (_INDENT + item for item in items)


def _pushed_line(conjunct: ConjunctReport) -> str:
    form = f" as {conjunct.pushed_as}" if conjunct.pushed_as else ""
    return f"{conjunct.sql}{form} ({conjunct.exactness.value})"


def _residual_line(conjunct: ConjunctReport) -> str:
    default = "checked again" if conjunct.exactness is Exactness.INEXACT else "cannot be pushed down"
    return f"{conjunct.sql}: {conjunct.reason or default}"


def _files_line(source: SourceReport) -> str:
    if source.files_read is None:
        return f"Files: {source.files_total:,} in all, how many were read is not known"
    return f"Files: {source.files_read:,} of {source.files_total:,} read"


def _bytes_lines(source: SourceReport) -> Iterator[str]:
    total = human_bytes(source.bytes_total)
    if source.bytes_read is not None and source.bytes_total == 0:
        yield f"Bytes: {human_bytes(source.bytes_read)} read, how many there are is not known"
    elif source.bytes_read is None:
        yield f"Bytes: {total} in all, how many were read is not known"
    else:
        skipped = human_share(source.bytes_total - source.bytes_read, source.bytes_total)
        yield f"Bytes: {human_bytes(source.bytes_read)} of {total} read, {skipped} skipped"
    if source.bytes_searched is not None:
        yield f"Searched for byte patterns: {human_bytes(source.bytes_searched)} (decompressed)"


def _purposes(source: SourceReport) -> dict[str, int]:
    """Bytes by what they were read for, without purposes that none were read for."""
    return {purpose: count for purpose, count in source.bytes_by_purpose.items() if count}


def _purpose(purpose: str, count: int) -> str:
    return f"{purpose} {human_bytes(count)}"


def _purpose_lines(source: SourceReport) -> Iterator[str]:
    purposes = _purposes(source)
    if purposes:
        yield f"Bytes read: {', '.join(_purpose(*entry) for entry in purposes.items())}"


def _units_lines(source: SourceReport) -> Iterator[str]:
    """What became of the format's own units, a line for each kind that there was any of."""
    for kind, fates in source.units.items():
        facts = [f"{fate} {count:,}" for fate, count in fates.items() if count]
        if facts:
            yield f"{kind.capitalize()}: {', '.join(facts)}"


def _rows_lines(source: SourceReport) -> Iterator[str]:
    facts = []
    if source.rows_decoded is not None:
        facts.append(f"{source.rows_decoded:,} decoded")
    if source.rows_returned is not None:
        facts.append(f"{source.rows_returned:,} returned")
    if source.malformed_lines is not None:
        facts.append(f"{source.malformed_lines:,} malformed lines")
    if facts:
        yield f"Rows: {', '.join(facts)}"


def _skipped_lines(source: SourceReport) -> Iterator[str]:
    """Units never read or parsed, by kind; for bytes also the share of those searched."""
    facts = []
    for kind, count in source.skipped.items():
        unit, _, what = kind.partition(" ")
        if unit != "bytes":
            facts.append(f"{count:,} {kind}")
            continue
        share = f" ({human_share(count, source.bytes_searched)})" if source.bytes_searched else ""
        facts.append(f"{human_bytes(count)} {what}".rstrip() + share)
    if facts:
        yield f"Skipped: {', '.join(facts)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
