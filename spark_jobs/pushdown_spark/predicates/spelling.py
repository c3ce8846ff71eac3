"""How numbers and dates that satisfy a fact may be written; shared by JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from pushdown_spark.predicates.facts import Between, Fact, Family, OneOf, Scalar
from pushdown_spark.predicates.ranges import MAX_DIGITS, YEAR_ZERO, Period, magnitude_regex, periods, widened

MAX_PERIODS = 5_000
"""More months and days than this in one fact are not worth a pattern."""
ZONE_DAYS = 2
"""Calendar days by which a timestamp's written date and its instant's date can differ: both sides may have a zone."""

_TENTH = Decimal("0.1")


def integer_spellings(fact: OneOf | Between) -> tuple[list[str], list[str]]:
    """Digits of the integers a fact allows: those of non-negative values and those of negative ones.

    Bounds that are no integers are widened outwards, which keeps every integer that Spark could keep.
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


def fraction_spellings(fact: OneOf | Between) -> tuple[list[str], list[str]] | None:
    """Whole parts of the decimals or floats a fact allows, for plain spellings (no exponent).

    A spelling is rounded when it is parsed, so every bound is widened by the largest rounding error that the type
    allows. None where the interval is open (infinities and NaN would have to match) or too large to be told apart.
    """
    positive: list[str] = []
    negative: list[str] = []
    for low, high in _intervals(fact):
        if low is None or high is None:
            return None
        margin = max(_rounding(low, fact), _rounding(high, fact))
        if margin > 1:
            return None
        if high + margin >= 0:
            positive.extend(_whole_parts(max(low, Decimal(0)), max(high, Decimal(0)), margin))
        if low - margin <= 0:
            negative.extend(_whole_parts(max(-high, Decimal(0)), max(-low, Decimal(0)), margin))
    return positive, negative


def calendar_periods(fact: OneOf | Between) -> tuple[Period, ...]:
    """Years, months and days in which the dates a fact allows are written; timestamps with a margin for time zones."""
    margin = ZONE_DAYS if fact.target.family is Family.TIMESTAMP else 0
    spans: list[Period] = []
    for low, high in [(fact.low, fact.high)] if isinstance(fact, Between) else [(v, v) for v in fact.values]:
        first, last = widened(_date(low), _date(high), margin)
        spans.extend(([YEAR_ZERO] if first == date.min else []) + list(periods(first, last)))
    return tuple(dict.fromkeys(spans))


def whole_years(spans: Sequence[Period]) -> tuple[list[tuple[int, int]], list[Period]]:
    """Runs of whole years, each by its first and last year, and the periods that are shorter than a year."""
    runs: list[tuple[int, int]] = []
    for year in sorted({span.year for span in spans if span.month is None}):
        if runs and runs[-1][1] == year - 1:
            runs[-1] = (runs[-1][0], year)
        else:
            runs.append((year, year))
    return runs, [span for span in spans if span.month is not None]


def describe(fact: Fact) -> str:
    """The values a fact allows, short enough for a report."""
    if isinstance(fact, Between):
        return f"{'' if fact.low is None else fact.low}..{'' if fact.high is None else fact.high}"
    return some([str(v) for v in fact.values]) if isinstance(fact, OneOf) else ""


def some(texts: list[str]) -> str:
    """The only text, or how many there are."""
    return texts[0] if len(texts) == 1 else f"one of {len(texts)} values"


def _date(value: Scalar | None) -> date | None:
    return value if isinstance(value, date) else None


def _whole_parts(low: Decimal, high: Decimal, margin: Decimal) -> list[str]:
    first, last = math.floor(low), math.floor(high + margin)
    parts = [_magnitudes(first, last)]
    below = math.floor(low - margin)
    if 0 <= below < first:
        parts.append(f"{below}\\.9[0-9]*" if margin <= _TENTH else str(below))
    return parts


def _rounding(bound: Decimal, fact: OneOf | Between) -> Decimal:
    family = fact.target.family
    if family is Family.DECIMAL:
        return Decimal(1).scaleb(-fact.target.scale)
    return max(abs(bound), Decimal(1)) * Decimal(2) ** (-22 if family is Family.FLOAT else -51)


def _intervals(fact: OneOf | Between) -> list[tuple[Decimal | None, Decimal | None]]:
    if isinstance(fact, Between):
        return [(_decimal(fact.low), _decimal(fact.high))]
    return [(_decimal(value), _decimal(value)) for value in fact.values]


def _decimal(value: Scalar | None) -> Decimal | None:
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _floor(value: Decimal | None, default: int) -> int:
    return default if value is None else max(math.floor(value), default)


def _ceil(value: Decimal | None, default: int) -> int:
    return default if value is None else min(math.ceil(value), default)


def _magnitudes(low: int, high: int) -> str:
    return str(low) if low == high else magnitude_regex(low, high) if low <= high else _NOTHING


_NOTHING = "[0-9]x\\x00"
"""Matches no number: the interval is empty."""
