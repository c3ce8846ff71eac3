"""Byte patterns for lines of text: what JSON and CSV share.

A byte pattern is a set of regular expressions. A line that matches none of them provably fails the predicate. This
module defines the patterns, combines them along AND and OR, and lists how numbers and dates can be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from pushdown_spark.expressions.byte_patterns.facts import (
    AllOf,
    AnyOf,
    EqualsAny,
    Fact,
    InRange,
    NotNull,
    Scalar,
)
from pushdown_spark.expressions.byte_patterns.ranges import (
    MAX_DIGITS,
    YEAR_ZERO,
    Period,
    magnitude_regex,
    periods,
    widened,
)
from pushdown_spark.expressions.types import LogicalType

MAX_PERIODS = 5_000
"""A fact that covers more months and days than this has no pattern."""
ZONE_DAYS = 2
"""Days by which the date of a timestamp as written can differ from its date in UTC. One is enough; two are safe."""
TIMESTAMPS = frozenset({LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ})

_TENTH = Decimal("0.1")
_MAX_STRING = 500
_MAX_STRINGS = 40_000
_NOTHING = "[0-9]x\\x00"
"""Matches no number, for an empty interval."""


@dataclass(frozen=True)
class Fields:
    """The fields of a line of separated values in which a match counts, by their positions from 0.

    The field of a match is found by counting `sep` (one byte) before it. This works unless a byte of `guards` (quote
    and escape, which can hide a separator) occurs before the match.
    """

    sep: bytes
    guards: bytes
    numbers: frozenset[int]

    def __or__(self, other: Fields) -> Fields:
        return Fields(self.sep, self.guards, self.numbers | other.numbers)


@dataclass(frozen=True)
class BytePattern:
    """Regular expressions of which a line must match at least one to satisfy the predicate.

    The expressions are in Hyperscan's syntax, over bytes. A match may end with the line's terminator, never after it.
    `on_backslash` are searched only in text with a backslash, and `on_non_ascii` only in text that is not ASCII. With
    `fields`, only matches that end in one of these fields or its terminator count. `general` is an equivalent pattern
    with a slower search, which matches fewer lines if unusual spellings are common.
    """

    always: tuple[str, ...]
    on_backslash: tuple[str, ...] = ()
    on_non_ascii: tuple[str, ...] = ()
    label: str = ""
    fields: Fields | None = None
    general: BytePattern | None = None

    def __or__(self, other: BytePattern) -> BytePattern:
        general = None
        if self.general or other.general:
            general = (self.general or self) | (other.general or other)
        return BytePattern(
            _distinct(self.always, other.always),
            _distinct(self.on_backslash, other.on_backslash),
            _distinct(self.on_non_ascii, other.on_non_ascii),
            f"{self.label} | {other.label}",
            self.fields | other.fields if self.fields and other.fields else None,
            general,
        )

    @property
    def size(self) -> int:
        """The length of all expressions together, in characters."""
        return sum(map(len, self.always + self.on_backslash + self.on_non_ascii))


def _distinct(one: Iterable[str], two: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def patterns(facts: AllOf, of_fact: Callable[[Fact], BytePattern | None]) -> list[BytePattern]:
    """Return one pattern per usable part. Each pattern alone is a sound filter. `of_fact` returns a fact's pattern."""
    candidates = (_part(part, of_fact) for part in facts.parts)
    return [pattern for pattern in candidates if pattern is not None]


def _part(part: Fact | AnyOf, of_fact: Callable[[Fact], BytePattern | None]) -> BytePattern | None:
    """Return a pattern for a part. OR needs a pattern from every branch, and takes the smallest of each."""
    if not isinstance(part, AnyOf):
        return of_fact(part)
    whole: BytePattern | None = None
    for branch in part.branches:
        strict = AllOf(tuple(fact for fact in branch.parts if not isinstance(fact, NotNull)))
        choices = patterns(strict, of_fact) or patterns(branch, of_fact)
        if not choices:
            return None
        best = min(choices, key=lambda pattern: pattern.size)
        whole = best if whole is None else whole | best
    return whole


def literal(text: str) -> str:
    """Return an expression that matches exactly the UTF-8 bytes of a string."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\x{b:02x}" for b in text.encode("utf-8"))


def searched_length(strings: int) -> int:
    """Return how many characters of each string to search for, given the number of strings.

    Longer patterns take more time to compile. Hyperscan allows 16,000 characters in one expression, and a character of
    a string can become 16 of them.
    """
    return max(12, min(_MAX_STRING, _MAX_STRINGS // max(strings, 1)))


def character_class(characters: str) -> str:
    """Return the members of a character class for single-byte characters."""
    return "".join(f"\\x{ord(c):02x}" for c in characters)


def alternation(items: Iterable[str], limit: int = 12_000) -> list[str]:
    """Return alternations of at most `limit` characters each (Hyperscan allows 16,000 in one expression)."""
    groups: list[str] = []
    current: list[str] = []
    length = 0
    for item in items:
        if current and length + len(item) > limit:
            groups.append("(?:" + "|".join(current) + ")")
            current, length = [], 0
        current.append(item)
        length += len(item) + 1
    if current:
        groups.append("(?:" + "|".join(current) + ")")
    return groups


def describe(fact: Fact) -> str:
    """Return the values that a fact allows, for the report."""
    if isinstance(fact, InRange):
        return f"{'' if fact.low is None else fact.low}..{'' if fact.high is None else fact.high}"
    return value_summary([str(value) for value in fact.values]) if isinstance(fact, EqualsAny) else ""


def value_summary(values: list[str]) -> str:
    """Return the only value, or the number of values."""
    return values[0] if len(values) == 1 else f"one of {len(values)} values"


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
        margin = max((_rounding(bound, fact) for bound in (low, high) if bound is not None), default=Decimal(0))
        if margin > 1:
            return None
        if high is None or high + margin >= 0:
            positive.extend(_integer_parts(low, high, margin))
        if low is None or low - margin <= 0:
            negative.extend(_integer_parts(_negated(high), _negated(low), margin))
    return positive, negative


def calendar_periods(fact: EqualsAny | InRange) -> tuple[Period, ...]:
    """Return the years, months and days of the dates that a fact allows. Timestamps have a margin for time zones."""
    margin = ZONE_DAYS if fact.column.type in TIMESTAMPS else 0
    spans: list[Period] = []
    for low, high in [(fact.low, fact.high)] if isinstance(fact, InRange) else [(v, v) for v in fact.values]:
        first, last = widened(day_of(low), day_of(high), margin)
        spans.extend(([YEAR_ZERO] if first == date.min else []) + list(periods(first, last)))
    return tuple(dict.fromkeys(spans))


def single_days(spans: Sequence[Period]) -> list[date] | None:
    """Return periods as days, None if one of them is longer or outside Python's calendar."""
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
    """Return a date, or the date of a timestamp in UTC. None for other values."""
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else None


def _negated(bound: Decimal | None) -> Decimal | None:
    return None if bound is None else -bound


def _integer_parts(low: Decimal | None, high: Decimal | None, margin: Decimal) -> list[str]:
    """Return expressions for the integer parts of the numbers of an interval that are not negative."""
    low = Decimal(0) if low is None else max(low, Decimal(0))
    first = math.floor(low)
    parts = _from(first) if high is None else [_magnitudes(first, math.floor(max(high, Decimal(0)) + margin))]
    below = math.floor(low - margin)
    if 0 <= below < first:
        parts.append(f"{below}\\.9[0-9]*" if margin <= _TENTH else str(below))
    return parts


def _from(first: int) -> list[str]:
    """Return expressions for all integers from this one on."""
    largest = 10**MAX_DIGITS - 1
    return [*([magnitude_regex(first, largest)] if first <= largest else []), f"[1-9][0-9]{{{MAX_DIGITS},}}"]


def _rounding(bound: Decimal, fact: EqualsAny | InRange) -> Decimal:
    """Return the largest error of parsing a number near a bound."""
    column = fact.column
    if column.type is LogicalType.DECIMAL:
        assert pa.types.is_decimal(column.storage)
        return Decimal(1).scaleb(-column.storage.scale)
    return max(abs(bound), Decimal(1)) * Decimal(2) ** (-22 if column.type is LogicalType.FLOAT else -51)


def _intervals(fact: EqualsAny | InRange) -> list[tuple[Decimal | None, Decimal | None]]:
    if isinstance(fact, InRange):
        return [(_decimal(fact.low), _decimal(fact.high))]
    return [(_decimal(value), _decimal(value)) for value in fact.values]


def _decimal(value: Scalar | None) -> Decimal | None:
    return value if isinstance(value, Decimal) else None


def _floor(value: Decimal | None, default: int) -> int:
    return default if value is None else max(math.floor(value), default)


def _ceil(value: Decimal | None, default: int) -> int:
    return default if value is None else min(math.ceil(value), default)


def _magnitudes(low: int, high: int) -> str:
    return str(low) if low == high else magnitude_regex(low, high) if low <= high else _NOTHING
