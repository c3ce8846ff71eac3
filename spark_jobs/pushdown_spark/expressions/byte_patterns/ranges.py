"""Regular expressions for intervals of integers in decimal digits, and date intervals as years, months and days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

MAX_DIGITS = 19
"""Digits of the longest 64-bit integer."""


def magnitude_regex(low: int, high: int) -> str:
    """Return a regular expression for the integers low..high (0 <= low <= high) without sign or leading zeros.

    >>> magnitude_regex(7, 123)
    '(?:[7-9]|[1-9][0-9]|10[0-9]|11[0-9]|12[0-3])'
    """
    parts: list[str] = []
    start = low
    for digits in range(len(str(low)), len(str(high)) + 1):
        stop = min(high, 10**digits - 1)
        parts.extend(_same_length(str(start), str(stop)))
        start = stop + 1
    return "(?:" + "|".join(parts) + ")"


def fixed_width_regex(low: int, high: int, width: int) -> str:
    """Return a regular expression for the integers low..high with `width` digits and leading zeros.

    >>> fixed_width_regex(998, 1234, 4)
    '(?:099[8-9]|10[0-9][0-9]|11[0-9][0-9]|120[0-9]|12[1-2][0-9]|123[0-4])'
    """
    return "(?:" + "|".join(_same_length(f"{low:0{width}d}", f"{high:0{width}d}")) + ")"


def _same_length(low: str, high: str) -> Iterator[str]:
    """Yield regular expressions that together cover low..high, two numbers of the same length."""
    if not low:
        yield ""
        return
    rest = len(low) - 1
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        yield _digit(low[0], high[0]) + "[0-9]" * rest
    elif low[0] == high[0]:
        yield from (low[0] + tail for tail in _same_length(low[1:], high[1:]))
    else:
        yield from (low[0] + tail for tail in _same_length(low[1:], "9" * rest))
        if int(low[0]) + 1 <= int(high[0]) - 1:
            yield _digit(str(int(low[0]) + 1), str(int(high[0]) - 1)) + "[0-9]" * rest
        yield from (high[0] + tail for tail in _same_length("0" * rest, high[1:]))


def _digit(low: str, high: str) -> str:
    return low if low == high else f"[{low}-{high}]"


@dataclass(frozen=True)
class Period:
    """A year (month and day are None), a month (day is None) or a day."""

    year: int
    month: int | None = None
    day: int | None = None


YEAR_ZERO = Period(0)
"""Spark's calendar has a year 0. Python's calendar does not."""


def periods(low: date, high: date) -> tuple[Period, ...]:
    """Cover the days low..high (both included) exactly, with as few years, months and days as possible.

    >>> periods(date(1999, 12, 31), date(2000, 1, 31))
    (Period(year=1999, month=12, day=31), Period(year=2000, month=1, day=None))
    """
    result: list[Period] = []
    day = low
    while day <= high:
        year_end, month_end = date(day.year, 12, 31), _month_end(day)
        if day.day == 1 and day.month == 1 and year_end <= high:
            result.append(Period(day.year))
            end = year_end
        elif day.day == 1 and month_end <= high:
            result.append(Period(day.year, day.month))
            end = month_end
        else:
            result.append(Period(day.year, day.month, day.day))
            end = day
        if end == date.max:
            break
        day = end + timedelta(days=1)
    return tuple(result)


def _month_end(day: date) -> date:
    if day.month == 12:
        return date(day.year, 12, 31)
    return date(day.year, day.month + 1, 1) - timedelta(days=1)


def widen(low: date | None, high: date | None, days: int) -> tuple[date, date]:
    """Extend an interval by `days` on both sides. None becomes the calendar's first or last day."""
    margin = timedelta(days=days)
    lower = date.min if low is None or low - date.min <= margin else low - margin
    upper = date.max if high is None or date.max - high <= margin else high + margin
    return lower, upper
