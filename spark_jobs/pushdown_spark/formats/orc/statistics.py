"""The bounds of a column from ORC's statistics, in the form that the statistics evaluator needs."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from pushdown_spark.expressions.statistics_evaluator import ColumnBounds
from pushdown_spark.expressions.types import GREGORIAN_DAY, MICROSECONDS_PER_DAY, Value
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind
from pushdown_spark.formats.orc.orc_proto_pb2 import ColumnStatistics, DateStatistics, IntegerStatistics
from pushdown_spark.formats.orc.time_zones import Zone

_Ends = tuple[Value | None, Value | None]
_UNKNOWN: _Ends = (None, None)
_JAVA = 0
_CORRECT_MERGES, _CORRECT_SHORT_DECIMALS = 1, 7
"""First versions of Java's writer with correct statistics, and with correct ones of decimals of 64 bits (ORC-517)."""
_MAX_SHORT_PRECISION = 18
"""Digits of a decimal that fits 64 bits."""

ALL_NULL = ColumnBounds(None, None, True, 0)
"""The bounds of a column that a file lacks."""


def are_consistent(statistics: ColumnStatistics, rows: int) -> bool:
    """Return whether statistics may be those of `rows` rows, or for a member, of `rows` structs that are not null.

    Writers without row indexes leave some of a file's statistics at zero values and no nulls.
    """
    if not statistics.HasField("number_of_values"):
        return False
    values = statistics.number_of_values
    if not statistics.HasField("has_null"):
        return values <= rows
    return values < rows if statistics.has_null else values == rows


def has_correct_merges(tail: FileTail) -> bool:
    """Return whether the statistics of stripes and of the file are correct. The first writer had a bug (HIVE-8732)."""
    return tail.footer.writer != _JAVA or tail.post_script.writer_version >= _CORRECT_MERGES


def column_bounds(
    tail: FileTail, column: int, statistics: ColumnStatistics, zone: Zone, *, is_nested: bool
) -> ColumnBounds:
    """Return the bounds of a column in a file, a stripe or a row group.

    The statistics of a member do not count rows whose parent is null, so the nulls of nested columns are unknown.
    """
    node = tail.types[column]
    kind = OrcTypeKind(node.kind)
    is_short = kind is OrcTypeKind.DECIMAL and node.precision <= _MAX_SHORT_PRECISION
    is_old = tail.footer.writer == _JAVA and tail.post_script.writer_version < _CORRECT_SHORT_DECIMALS
    low, high = _UNKNOWN if is_short and is_old else _bounds_of(statistics, kind)
    if kind is OrcTypeKind.TIMESTAMP and not zone.is_utc:
        low, high = _widen_by_day(low, high)
    has_null = None if is_nested or not statistics.HasField("has_null") else statistics.has_null
    return ColumnBounds(low, high, has_null, statistics.number_of_values)


def _bounds_of(statistics: ColumnStatistics, kind: OrcTypeKind) -> _Ends:
    if statistics.HasField("int_statistics"):
        return _both_or_unknown(
            statistics.int_statistics.minimum, statistics.int_statistics.maximum, statistics.int_statistics
        )
    if statistics.HasField("double_statistics"):
        return _doubles(statistics)
    if statistics.HasField("string_statistics") and kind is not OrcTypeKind.CHAR:
        return _strings(statistics)
    if statistics.HasField("decimal_statistics"):
        decimals = statistics.decimal_statistics
        return _decimal(decimals.minimum), _decimal(decimals.maximum)
    if statistics.HasField("date_statistics"):
        days = statistics.date_statistics
        return _UNKNOWN if days.minimum < GREGORIAN_DAY else _both_or_unknown(days.minimum, days.maximum, days)
    if statistics.HasField("timestamp_statistics"):
        return _times(statistics)
    if kind is OrcTypeKind.BOOLEAN and statistics.HasField("bucket_statistics"):
        return _booleans(statistics)
    return _UNKNOWN


def _both_or_unknown(low: int, high: int, ends: IntegerStatistics | DateStatistics) -> _Ends:
    return (low, high) if ends.HasField("minimum") and ends.HasField("maximum") else _UNKNOWN


def _doubles(statistics: ColumnStatistics) -> _Ends:
    """Return the bounds of doubles. Bounds may be wrong if there is a NaN, which shows in the sum."""
    ends = statistics.double_statistics
    if not (ends.HasField("minimum") and ends.HasField("maximum")) or math.isnan(ends.sum):
        return _UNKNOWN
    return ends.minimum, ends.maximum


def _strings(statistics: ColumnStatistics) -> _Ends:
    """Return the bounds of strings. Bounds of long strings are truncated: lower ones are cut, upper ones rounded up."""
    ends = statistics.string_statistics
    low = ends.minimum if ends.HasField("minimum") else ends.lower_bound if ends.HasField("lower_bound") else None
    high = ends.maximum if ends.HasField("maximum") else ends.upper_bound if ends.HasField("upper_bound") else None
    return _string(low), _string(high)


def _string(end: bytes | None) -> str | None:
    """Return a bound as a string, or None for invalid UTF-8, for which Java's writer writes U+FFFD."""
    if end is None:
        return None
    try:
        text = end.decode()
    except UnicodeDecodeError:
        return None
    return None if "\ufffd" in text else text


def _decimal(end: bytes) -> Decimal | None:
    try:
        return Decimal(end.decode()) if end else None
    except (InvalidOperation, UnicodeDecodeError):
        return None


def _times(statistics: ColumnStatistics) -> _Ends:
    """Return the bounds of times, widened by a millisecond: some writers round down, others towards 1970."""
    ends = statistics.timestamp_statistics
    if not (ends.HasField("minimum_utc") and ends.HasField("maximum_utc")):
        return _UNKNOWN
    low, high = (ends.minimum_utc - 1) * 1000, (ends.maximum_utc + 2) * 1000
    return _UNKNOWN if low < GREGORIAN_DAY * MICROSECONDS_PER_DAY else (low, high)


def _widen_by_day(low: Value | None, high: Value | None) -> _Ends:
    """Convert bounds of local times to bounds of instants in any time zone, by widening them by a day."""
    if not (isinstance(low, int) and isinstance(high, int)):
        return _UNKNOWN
    return low - MICROSECONDS_PER_DAY, high + MICROSECONDS_PER_DAY


def _booleans(statistics: ColumnStatistics) -> _Ends:
    counts = list(statistics.bucket_statistics.count)
    if len(counts) != 1 or not statistics.HasField("number_of_values"):
        return _UNKNOWN
    return counts[0] == statistics.number_of_values, counts[0] > 0
