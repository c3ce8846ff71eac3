"""Turns a report into what the page shows: the stages of a funnel, and amounts in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pushdown_spark.contract import ConjunctReport, Exactness, FileReport, SourceReport
from pushdown_spark.contract.report_text import human_bytes, human_share

_BYTES = "bytes "


@dataclass(frozen=True)
class Stage:
    """One step on the way from files to rows: `share` is how much of the first step's amount is left, 0 to 1."""

    label: str
    amount: str
    share: float


@dataclass(frozen=True)
class UnitFate:
    """What became of some units of one kind, and of how large a share of them."""

    fate: str
    count: int
    share: float


def funnel(source: SourceReport) -> tuple[Stage, ...]:
    """From bytes in the files to rows returned, as far as it is known; no step is wider than the one before.

    Rows have no share of bytes: those decoded are drawn as wide as the bytes they came from, those returned as their
    share of the decoded ones.
    """
    stages: list[Stage] = []
    share = 1.0
    for label, amount, part in _steps(source):
        share *= min(max(part, 0.0), 1.0)
        stages.append(Stage(label, amount, share))
    return tuple(stages)


def unit_fates(fates: dict[str, int]) -> tuple[UnitFate, ...]:
    """What became of units of one kind, without fates that none had."""
    whole = sum(fates.values())
    return tuple(UnitFate(fate, count, count / whole) for fate, count in fates.items() if count)


def units_in_words(file: FileReport) -> tuple[str, ...]:
    """What became of a file's units, a text for each kind."""
    return tuple(
        f"{kind}: {', '.join(f'{count:,} {fate}' for fate, count in fates.items() if count)}"
        for kind, fates in file.units.items()
        if any(fates.values())
    )


def pushed(source: SourceReport) -> tuple[ConjunctReport, ...]:
    """Conjuncts that the source takes over, wholly or in part."""
    return tuple(one for one in source.conjuncts if one.exactness is not Exactness.UNSUPPORTED)


def left_to_spark(source: SourceReport) -> tuple[ConjunctReport, ...]:
    """Conjuncts that Spark evaluates, alone or again."""
    return tuple(one for one in source.conjuncts if one.exactness is not Exactness.EXACT)


def skipped(source: SourceReport) -> tuple[str, ...]:
    """What was never read or parsed, in words."""
    return tuple(
        f"{human_bytes(count)} {kind.removeprefix(_BYTES)}" if kind.startswith(_BYTES) else f"{count:,} {kind}"
        for kind, count in source.skipped.items()
        if count
    )


def _steps(source: SourceReport) -> Iterator[tuple[str, str, float]]:
    """Label and amount of each step, and which share of the step before it is."""
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
    """Which share of the whole a count is; all of it where the whole is not known."""
    if whole is None:
        return 1.0
    return count / whole if whole else 0.0
