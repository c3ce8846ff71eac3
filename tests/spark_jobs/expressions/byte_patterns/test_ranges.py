"""Expressions for integer intervals and periods for date intervals, compared with enumeration."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta

from pushdown_spark.expressions.byte_patterns.ranges import fixed_width_regex, magnitude_regex, periods, widen


def test_digits_match_exactly_the_interval() -> None:
    rng = random.Random(5)
    for _ in range(300):
        low, high = sorted((rng.randrange(3000), rng.randrange(3000)))
        pattern = re.compile(magnitude_regex(low, high))
        assert [n for n in range(3200) if pattern.fullmatch(str(n))] == list(range(low, high + 1))


def test_digits_of_a_fixed_width_match_exactly_the_interval() -> None:
    rng = random.Random(6)
    for _ in range(300):
        low, high = sorted((rng.randrange(3000), rng.randrange(3000)))
        pattern = re.compile(fixed_width_regex(low, high, 4))
        assert [n for n in range(3200) if pattern.fullmatch(f"{n:04d}")] == list(range(low, high + 1))
        assert not pattern.fullmatch(str(low)) or low > 999


def test_the_whole_range_of_bigint_is_short() -> None:
    pattern = magnitude_regex(0, 2**63 - 1)
    assert len(pattern) < 3000
    assert re.fullmatch(pattern, str(2**63 - 1))
    assert not re.fullmatch(pattern, str(2**63))


def _days(low: date, high: date) -> set[date]:
    days = set()
    for span in periods(low, high):
        start = date(span.year, span.month or 1, span.day or 1)
        day = start
        while (day.year, span.month or day.month, span.day or day.day) == (span.year, day.month, day.day):
            days.add(day)
            day += timedelta(days=1)
    return days


def test_periods_cover_exactly_their_days() -> None:
    rng = random.Random(9)
    for _ in range(50):
        low = date(1990, 1, 1) + timedelta(days=rng.randrange(3000))
        high = low + timedelta(days=rng.randrange(1500))
        assert _days(low, high) == {low + timedelta(days=n) for n in range((high - low).days + 1)}


def test_open_intervals_reach_the_ends_of_the_calendar() -> None:
    assert widen(None, None, 2) == (date.min, date.max)
    assert widen(date.min, date.max, 2) == (date.min, date.max)
    assert len(periods(date.min, date.max)) == 9999
