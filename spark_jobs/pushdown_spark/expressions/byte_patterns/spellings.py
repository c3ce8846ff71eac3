"""How numbers and dates can be written in lines of JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from pushdown_spark.expressions.byte_patterns.facts import EqualsAny, InRange, Scalar, intervals_of
from pushdown_spark.expressions.byte_patterns.ranges import (
    MAX_DIGITS,
    YEAR_ZERO,
    Period,
    magnitude_regex,
    periods,
    widen,
)
from pushdown_spark.expressions.types import LogicalType

MAX_PERIODS = 5_000
"""A fact that covers more months and days than this has no pattern."""
ZONE_DAYS = 2
"""Maximum days between the written date of a timestamp and its date in UTC, with a safety margin of one."""
TIMESTAMPS = frozenset({LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ})

Offsets = Callable[[int, int], Sequence[int]]
"""Returns the offsets from UTC of a timestamp without a zone, in seconds, between two times in seconds since 1970.

It includes the offsets of a day before and after, between which Spark may choose at a transition.
"""
_TENTH = Decimal("0.1")
_NO_NUMBER = "[0-9]x\\x00"
"""Matches no number, for an empty interval."""


@dataclass(frozen=True)
class CalendarSyntax:
    """How dates and timestamps are written.

    No format option decides the spelling of values of `types`. `offsets` returns the offsets of timestamps without a
    zone.
    """

    types: frozenset[LogicalType]
    offsets: Offsets


def form_regex(form: str) -> str:
    """Return an expression for strings of a form, whose n are digits.

    >>> form_regex("nn:nn")
    '[0-9][0-9]:[0-9][0-9]'
    """
    return form.replace("n", "[0-9]")


def form_differences(prefix: str, form: str) -> Iterator[str]:
    """Yield an expression for each position at which a string after a prefix can differ from a form."""
    for character in form:
        characters = "0-9" if character == "n" else f"\\{character}"
        yield f"{prefix}[^{characters}]"
        prefix += f"[{characters}]"


def integer_spellings(fact: EqualsAny | InRange) -> tuple[list[str], list[str]]:
    """Return expressions for the digits of the integers that a fact allows: of values >= 0, and of values <= 0.

    Bounds that are not integers are widened, which includes every integer that Spark could keep.
    """
    positive: list[str] = []
    negative: list[str] = []
    for low, high in _intervals(fact):
        first, last = _floor(low, -(10**MAX_DIGITS) + 1), _ceil(high, 10**MAX_DIGITS - 1)
        if last >= 0:
            positive.append(_magnitudes(max(first, 0), last))
        if first <= 0:
            negative.append(_magnitudes(max(-last, 0), -first))
    return positive, negative


def fraction_spellings(fact: EqualsAny | InRange) -> tuple[list[str], list[str]] | None:
    """Return expressions for the integer parts of the decimals or floats that a fact allows, without exponents.

    Spark rounds a number when it parses it, so every bound is widened by the largest rounding error of the type.
    Returns None for numbers that are too large. An open interval can include infinities and NaN, whose spellings are
    not among the expressions.
    """
    positive: list[str] = []
    negative: list[str] = []
    for low, high in _intervals(fact):
        margin = max((_rounding_error(end, fact) for end in (low, high) if end is not None), default=Decimal(0))
        if margin > 1:
            return None
        if high is None or high + margin >= 0:
            positive.extend(_integer_parts(low, high, margin))
        if low is None or low - margin <= 0:
            negative.extend(_integer_parts(_negate(high), _negate(low), margin))
    return positive, negative


def calendar_periods(fact: EqualsAny | InRange) -> tuple[Period, ...]:
    """Return the years, months and days of the dates that a fact allows. Timestamps have a margin for time zones."""
    margin = ZONE_DAYS if fact.column.type in TIMESTAMPS else 0
    spans: list[Period] = []
    for low, high in intervals_of(fact):
        first, last = widen(day_of(low), day_of(high), margin)
        spans.extend(([YEAR_ZERO] if first == date.min else []) + list(periods(first, last)))
    return tuple(dict.fromkeys(spans))


def single_days(spans: Sequence[Period]) -> list[date] | None:
    """Return periods as days, or None if one of them is longer or outside Python's calendar."""
    days = [date(span.year, span.month, span.day) for span in spans if span.month and span.day]
    return days if len(days) == len(spans) else None


def whole_years(spans: Sequence[Period]) -> tuple[list[tuple[int, int]], list[Period]]:
    """Split periods into runs of whole years (first and last year of each), and periods shorter than a year."""
    runs: list[tuple[int, int]] = []
    for year in sorted({span.year for span in spans if span.month is None}):
        if runs and runs[-1][1] == year - 1:
            runs[-1] = (runs[-1][0], year)
        else:
            runs.append((year, year))
    return runs, [span for span in spans if span.month is not None]


def day_of(value: Scalar | None) -> date | None:
    """Return a date, or the date of a timestamp in UTC, or None for other values."""
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else None


def _negate(end: Decimal | None) -> Decimal | None:
    return None if end is None else -end


def _integer_parts(low: Decimal | None, high: Decimal | None, margin: Decimal) -> list[str]:
    """Return expressions for the integer parts of the numbers of an interval that are not negative."""
    low = Decimal(0) if low is None else max(low, Decimal(0))
    first = math.floor(low)
    parts = _at_least(first) if high is None else [_magnitudes(first, math.floor(max(high, Decimal(0)) + margin))]
    below = math.floor(low - margin)
    if 0 <= below < first:
        parts.append(f"{below}\\.9[0-9]*" if margin <= _TENTH else str(below))
    return parts


def _at_least(first: int) -> list[str]:
    """Return expressions for all integers from this one on."""
    largest = 10**MAX_DIGITS - 1
    return [*([magnitude_regex(first, largest)] if first <= largest else []), f"[1-9][0-9]{{{MAX_DIGITS},}}"]


def _rounding_error(number: Decimal, fact: EqualsAny | InRange) -> Decimal:
    """Return the largest error of parsing a number near a bound."""
    column = fact.column
    if column.type is LogicalType.DECIMAL:
        assert pa.types.is_decimal(column.storage)
        return Decimal(1).scaleb(-column.storage.scale)
    return max(abs(number), Decimal(1)) * Decimal(2) ** (-22 if column.type is LogicalType.FLOAT else -51)


def _intervals(fact: EqualsAny | InRange) -> list[tuple[Decimal | None, Decimal | None]]:
    return [(_decimal(low), _decimal(high)) for low, high in intervals_of(fact)]


def _decimal(value: Scalar | None) -> Decimal | None:
    return value if isinstance(value, Decimal) else None


def _floor(value: Decimal | None, default: int) -> int:
    return default if value is None else max(math.floor(value), default)


def _ceil(value: Decimal | None, default: int) -> int:
    return default if value is None else min(math.ceil(value), default)


def _magnitudes(low: int, high: int) -> str:
    if low > high:
        return _NO_NUMBER
    return str(low) if low == high else magnitude_regex(low, high)
