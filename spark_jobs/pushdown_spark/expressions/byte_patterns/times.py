"""Spellings of timestamps in a short interval, to the minute.

A timestamp as text is a day, a time and perhaps a zone: `2015-01-01T01:00:00Z`. The same moment has another day, hour
and minute in each zone. These are known for the usual endings of the text:

- no zone: the offsets of the zone that the reader assumes. Around a transition of daylight saving time, it has two;
- `Z`;
- the offsets of the reader's zone and of UTC in the form `+01:00`.

All other spellings of the days around the interval may be any time: each position at which a text can differ from the
usual form gives its own expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from pushdown_spark.expressions.byte_patterns.facts import EqualsAny, InRange, intervals_of
from pushdown_spark.expressions.byte_patterns.ranges import Period, fixed_width_regex
from pushdown_spark.expressions.byte_patterns.spellings import (
    TIMESTAMPS,
    Offsets,
    form_differences,
    form_regex,
    single_days,
)
from pushdown_spark.expressions.types import LogicalType

_MAX_SPAN = timedelta(days=3)
"""Longer intervals are searched for by their days."""
_MAX_INTERVALS = 8
_FIRST_YEAR, _LAST_YEAR = 1901, 2200
_SEPARATOR = "[T ]"
_TIME = "nn:nn:nn"
_FRACTION = "(?:\\.[0-9]*)?"
_HOUR_MINUTES = 60
_DAY_MINUTES = 24 * _HOUR_MINUTES
_UTC_OFFSETS = ("+00:00", "-00:00")

_Interval = tuple[datetime, datetime]


def minute_spellings(
    fact: EqualsAny | InRange, periods: Sequence[Period], offsets: Offsets, ends: str
) -> list[str] | None:
    """Return expressions for timestamps from their year on, or None if an interval is too long or too long ago.

    `periods` are the days that a spelling of a matching timestamp can have. `ends` are the members of a character
    class: the bytes of which one follows the text of a value. Dates and longer periods have no such expressions.
    """
    days, intervals = single_days(periods), _intervals(fact)
    if fact.column.type not in TIMESTAMPS or days is None or intervals is None:
        return None
    window = "(?:" + "|".join(_day(day) for day in days) + ")"
    patterns = [f"{window}[^0-9T ]", *form_differences(window + _SEPARATOR, _TIME)]
    if fact.column.type is LogicalType.TIMESTAMP_NTZ:
        # Spark ignores the zone of the text, or reads a text with a zone as NULL.
        return patterns + [f"{minute}:" for minute in _minutes(intervals, [0])]
    time = window + _SEPARATOR + form_regex(_TIME)
    reader_offsets = sorted({offset for low, high in intervals for offset in offsets(_seconds(low), _seconds(high))})
    offset_by_text = dict.fromkeys(_UTC_OFFSETS, 0) | {
        _iso_offset(offset): offset for offset in reader_offsets if not offset % 60
    }
    patterns += [f"{time}[^.Z+\\-{ends}]", f"{time}\\.[0-9]*[^0-9Z+\\-{ends}]", f"{time}{_FRACTION}Z[^{ends}]"]
    patterns += [f"{time}{_FRACTION}{other}" for other in _other_strings(list(offset_by_text), ends)]
    rest = f":[0-5][0-9]{_FRACTION}"
    patterns += [f"{minute}{rest}[{ends}]" for minute in _minutes(intervals, reader_offsets)]
    patterns += [f"{minute}{rest}Z[{ends}]" for minute in _minutes(intervals, [0])]
    for text, offset in offset_by_text.items():
        patterns += [f"{minute}{rest}{_literal(text)}[{ends}]" for minute in _minutes(intervals, [offset])]
    return patterns


def _intervals(fact: EqualsAny | InRange) -> list[_Interval] | None:
    """Return the intervals of a fact, or None if one of them is open, too long or too long ago."""
    intervals: list[_Interval] = []
    for low, high in intervals_of(fact):
        if (
            not isinstance(low, datetime)
            or not isinstance(high, datetime)
            or not timedelta(0) <= high - low <= _MAX_SPAN
        ):
            return None
        if low.year < _FIRST_YEAR or high.year > _LAST_YEAR:
            return None
        intervals.append((low, high))
    return intervals if len(intervals) <= _MAX_INTERVALS else None


def _seconds(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp())


def _day(day: date) -> str:
    return day.isoformat().replace("-", "\\-")


def _other_strings(offset_texts: Sequence[str], ends: str) -> Iterator[str]:
    """Yield expressions for what can follow a time from a sign on and is not one of the known offsets."""
    signs = {text[0] for text in offset_texts}
    yield from (_literal(sign) for sign in "+-" if sign not in signs)
    starts = sorted({text[:length] for text in offset_texts for length in range(1, len(text))})
    for start in starts:
        next_characters = sorted({text[len(start)] for text in offset_texts if text.startswith(start)})
        yield f"{_literal(start)}[^{''.join(next_characters)}]"
    yield from (f"{_literal(text)}[^{ends}]" for text in offset_texts)


def _minutes(intervals: Sequence[_Interval], offsets: Sequence[int]) -> list[str]:
    """Return expressions for the days, hours and minutes of the intervals as clocks with these offsets show them."""
    patterns: list[str] = []
    for low, high in intervals:
        for offset in offsets:
            shift = timedelta(seconds=offset)
            patterns += _clock(low + shift, high + shift)
    return list(dict.fromkeys(patterns))


def _clock(low: datetime, high: datetime) -> Iterator[str]:
    day = low.date()
    while day <= high.date():
        first = low.hour * _HOUR_MINUTES + low.minute if day == low.date() else 0
        last = high.hour * _HOUR_MINUTES + high.minute if day == high.date() else _DAY_MINUTES - 1
        yield f"{_day(day)}{_SEPARATOR}(?:{'|'.join(_hours(first, last))})"
        day += timedelta(days=1)


def _hours(first: int, last: int) -> Iterator[str]:
    """Yield expressions for the hours and minutes of an interval of minutes since midnight, both included."""
    (hour, start), (last_hour, end) = divmod(first, _HOUR_MINUTES), divmod(last, _HOUR_MINUTES)
    if hour == last_hour:
        yield f"{hour:02d}:{fixed_width_regex(start, end, 2)}"
        return
    yield f"{hour:02d}:{fixed_width_regex(start, _HOUR_MINUTES - 1, 2)}"
    if last_hour > hour + 1:
        yield f"{fixed_width_regex(hour + 1, last_hour - 1, 2)}:[0-5][0-9]"
    yield f"{last_hour:02d}:{fixed_width_regex(0, end, 2)}"


def _iso_offset(offset: int) -> str:
    """Return an offset as ISO 8601 writes it."""
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def _literal(text: str) -> str:
    return text.replace("+", "\\+").replace("-", "\\-")
