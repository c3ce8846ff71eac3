"""What ORC's statistics say about a column, in the terms that predicates are judged in."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from spark_jobs.predicates.statistics import ColumnBounds
from spark_jobs.predicates.vector import Value
from spark_jobs.readers.orc.columns import GREGORIAN_START
from spark_jobs.readers.orc.messages import ColumnStatistics, Presence
from spark_jobs.readers.orc.tail import Kind

_MICROS_PER_DAY = 86_400_000_000
_Ends = tuple[Value | None, Value | None]
_UNKNOWN: _Ends = (None, None)

ALL_NULL = ColumnBounds(None, None, True, 0)
"""A column that a file lacks."""


def column_bounds(statistics: ColumnStatistics, kind: Kind, *, nested: bool) -> ColumnBounds:
    """The bounds of one column in one unit.

    A member's own statistics do not count rows whose parent is null, so nothing is known of a nested column's nulls.
    """
    low, high = _ends(statistics, kind)
    has_null = None if nested or not statistics.HasField("has_null") else statistics.has_null
    values = statistics.number_of_values if statistics.HasField("number_of_values") else None
    return ColumnBounds(low, high, has_null, values)


def _ends(statistics: ColumnStatistics, kind: Kind) -> _Ends:
    if statistics.HasField("int_statistics"):
        return _pair(statistics.int_statistics.minimum, statistics.int_statistics.maximum, statistics.int_statistics)
    if statistics.HasField("double_statistics"):
        ends = statistics.double_statistics
        return (ends.minimum, ends.maximum) if ends.HasField("minimum") and ends.HasField("maximum") else _UNKNOWN
    if statistics.HasField("string_statistics") and kind is not Kind.CHAR:
        return _texts(statistics)
    if statistics.HasField("decimal_statistics"):
        decimals = statistics.decimal_statistics
        return _decimal(decimals.minimum), _decimal(decimals.maximum)
    if statistics.HasField("date_statistics"):
        days = statistics.date_statistics
        return _UNKNOWN if days.minimum < GREGORIAN_START else _pair(days.minimum, days.maximum, days)
    if statistics.HasField("timestamp_statistics"):
        return _times(statistics)
    if kind is Kind.BOOLEAN and statistics.HasField("bucket_statistics"):
        return _booleans(statistics)
    return _UNKNOWN


def _pair(low: int, high: int, ends: Presence) -> _Ends:
    return (low, high) if ends.HasField("minimum") and ends.HasField("maximum") else _UNKNOWN


def _texts(statistics: ColumnStatistics) -> _Ends:
    """Long texts have bounds that are cut short: a lower one by leaving off its end, an upper one by rounding up."""
    ends = statistics.string_statistics
    low = ends.minimum if ends.HasField("minimum") else ends.lower_bound if ends.HasField("lower_bound") else None
    high = ends.maximum if ends.HasField("maximum") else ends.upper_bound if ends.HasField("upper_bound") else None
    return _text(low), _text(high)


def _text(end: bytes | None) -> str | None:
    try:
        return None if end is None else end.decode()
    except UnicodeDecodeError:
        return None


def _decimal(end: bytes) -> Decimal | None:
    try:
        return Decimal(end.decode()) if end else None
    except (InvalidOperation, UnicodeDecodeError):
        return None


def _times(statistics: ColumnStatistics) -> _Ends:
    """Milliseconds, of which writers have rounded some down and some towards 1970: a millisecond more on each side."""
    ends = statistics.timestamp_statistics
    if not (ends.HasField("minimum_utc") and ends.HasField("maximum_utc")):
        return _UNKNOWN
    low, high = (ends.minimum_utc - 1) * 1000, (ends.maximum_utc + 2) * 1000
    return _UNKNOWN if low < GREGORIAN_START * _MICROS_PER_DAY else (low, high)


def _booleans(statistics: ColumnStatistics) -> _Ends:
    counts = list(statistics.bucket_statistics.count)
    if len(counts) != 1 or not statistics.HasField("number_of_values"):
        return _UNKNOWN
    return counts[0] == statistics.number_of_values, counts[0] > 0
