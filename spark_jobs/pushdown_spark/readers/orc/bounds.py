"""What ORC's statistics say about a column, in the terms that predicates are judged in."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from pushdown_spark.expressions.statistics_evaluator import ColumnBounds
from pushdown_spark.expressions.types import Value
from pushdown_spark.readers.orc.columns import GREGORIAN_START
from pushdown_spark.readers.orc.messages import ColumnStatistics, Presence
from pushdown_spark.readers.orc.tail import FileTail, Kind
from pushdown_spark.readers.orc.zones import Zone

_MICROS_PER_DAY = 86_400_000_000
_Ends = tuple[Value | None, Value | None]
_UNKNOWN: _Ends = (None, None)
_JAVA = 0
_RIGHT_MAXIMA, _RIGHT_SHORT_DECIMALS = 1, 7
"""Versions of Java's writer since which statistics are right; the latter of decimals that fit 64 bits (ORC-517)."""
_SHORT_DECIMALS = 18

ALL_NULL = ColumnBounds(None, None, True, 0)
"""A column that a file lacks."""


def are_consistent(statistics: ColumnStatistics, rows: int) -> bool:
    """Whether statistics are about a column of so many rows (of a member: of so many structs that are not null).

    Writers that keep no row index leave some or all of a file's statistics at zero values and no null.
    """
    if not statistics.HasField("number_of_values"):
        return False
    values = statistics.number_of_values
    if not statistics.HasField("has_null"):
        return values <= rows
    return values < rows if statistics.has_null else values == rows


def are_merged_rightly(tail: FileTail) -> bool:
    """Whether the statistics of stripes and of the file are right: the first writer got maxima wrong (HIVE-8732)."""
    return tail.footer.writer != _JAVA or tail.post_script.writer_version >= _RIGHT_MAXIMA


def column_bounds(
    tail: FileTail, column: int, statistics: ColumnStatistics, zone: Zone, *, nested: bool
) -> ColumnBounds:
    """The bounds of one column in one unit.

    A member's own statistics do not count rows whose parent is null, so nothing is known of a nested column's nulls.
    """
    node = tail.types[column]
    kind = Kind(node.kind)
    is_short = kind is Kind.DECIMAL and node.precision <= _SHORT_DECIMALS
    old = tail.footer.writer == _JAVA and tail.post_script.writer_version < _RIGHT_SHORT_DECIMALS
    low, high = _UNKNOWN if is_short and old else _ends(statistics, kind)
    if kind is Kind.TIMESTAMP and not zone.is_utc:
        low, high = _in_zone(low, high)
    has_null = None if nested or not statistics.HasField("has_null") else statistics.has_null
    return ColumnBounds(low, high, has_null, statistics.number_of_values)


def _ends(statistics: ColumnStatistics, kind: Kind) -> _Ends:
    if statistics.HasField("int_statistics"):
        return _pair(statistics.int_statistics.minimum, statistics.int_statistics.maximum, statistics.int_statistics)
    if statistics.HasField("double_statistics"):
        return _doubles(statistics)
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


def _doubles(statistics: ColumnStatistics) -> _Ends:
    """Writers compare with NaN as it comes, so bounds may miss what follows one; the sum tells that there is one."""
    ends = statistics.double_statistics
    if not (ends.HasField("minimum") and ends.HasField("maximum")) or math.isnan(ends.sum):
        return _UNKNOWN
    return ends.minimum, ends.maximum


def _texts(statistics: ColumnStatistics) -> _Ends:
    """Long texts have bounds that are cut short: a lower one by leaving off its end, an upper one by rounding up."""
    ends = statistics.string_statistics
    low = ends.minimum if ends.HasField("minimum") else ends.lower_bound if ends.HasField("lower_bound") else None
    high = ends.maximum if ends.HasField("maximum") else ends.upper_bound if ends.HasField("upper_bound") else None
    return _text(low), _text(high)


def _text(end: bytes | None) -> str | None:
    """A bound as text; None where the values are not all UTF-8: Java's writer puts U+FFFD for what is not."""
    try:
        text = "" if end is None else end.decode()
    except UnicodeDecodeError:
        return None
    return None if end is None or "\ufffd" in text else text


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


def _in_zone(low: Value | None, high: Value | None) -> _Ends:
    """Ends of instants in any zone, of ends of what clocks showed, which statistics have: a day more on each side."""
    if not (isinstance(low, int) and isinstance(high, int)):
        return _UNKNOWN
    return low - _MICROS_PER_DAY, high + _MICROS_PER_DAY


def _booleans(statistics: ColumnStatistics) -> _Ends:
    counts = list(statistics.bucket_statistics.count)
    if len(counts) != 1 or not statistics.HasField("number_of_values"):
        return _UNKNOWN
    return counts[0] == statistics.number_of_values, counts[0] > 0
