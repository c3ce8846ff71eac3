"""Functions of dates and timestamps whose comparisons with constants are ranges of the argument.

`DATE(at) = '2026-01-01'` is true from the first to the last moment of the day, and `TRUNC(day, 'MONTH')` changes on the
first days of months. These functions never decrease when their argument grows, except where clocks go back over
midnight. Such days are left to Spark, which also computes the moments, because it knows the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from functools import partial

import pyarrow as pa
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Column, Comparison, InList, Node, Op, conjunction, replace_leaves
from pushdown_spark.expressions.operand import Operand, any_value_test, argument_of, string_operand
from pushdown_spark.expressions.parser import argument_as_written
from pushdown_spark.expressions.scope import Fold, Scope
from pushdown_spark.expressions.types import EPOCH_ORDINAL, MICROSECONDS_PER_DAY, LogicalType

FirstValues = Callable[[Sequence[int]], Sequence[int]]
"""Returns the least values of an argument for which a function reaches given results."""


@dataclass(frozen=True)
class _Period:
    """A period of the calendar: some months, or else some days. Seven days begin on a Monday."""

    months: int = 0
    days: int = 0

    def start(self, day: date) -> date:
        """Return the first day of the period that a day is in."""
        if not self.months:
            return day - timedelta(day.weekday() % self.days)
        return _first_of_month(_months(day) // self.months * self.months)

    def next_start(self, start: date) -> date:
        """Return the first day of the period after the one that begins on `start`."""
        return _first_of_month(_months(start) + self.months) if self.months else start + timedelta(self.days)


def _months(day: date) -> int:
    return 12 * day.year + day.month - 1


def _first_of_month(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)


_DAY, _MONTH, _YEAR = _Period(days=1), _Period(months=1), _Period(months=12)
_UNITS = {
    "WEEK": _Period(days=7),
    "QUARTER": _Period(months=3),
    **dict.fromkeys(("MONTH", "MM", "MON"), _MONTH),
    **dict.fromkeys(("YEAR", "YYYY", "YY"), _YEAR),
}
"""The periods of TRUNC by unit. DATE_TRUNC has days, too."""
_UNITS_WITH_DAYS = {**_UNITS, "DAY": _DAY, "DD": _DAY}
_PATTERNS = {
    "yyyy-MM-dd": ("%Y-%m-%d", _DAY),
    "yyyyMMdd": ("%Y%m%d", _DAY),
    "yyyy-MM": ("%Y-%m", _MONTH),
    "yyyyMM": ("%Y%m", _MONTH),
    "yyyy": ("%Y", _YEAR),
}
"""Patterns of DATE_FORMAT: the pattern in Python's notation, and the period whose moments have the same text."""
_HAS_SIGNED_YEARS = "date_format(timestamp_micros(-65000000000000000), 'yyyy') LIKE '-%'"
"""Whether Spark writes years before 1 with a sign. The formatter of Spark 2 writes 90 BC as 90."""


def date_operand(node: exp.Expr, scope: Scope) -> Operand | None:
    """Return a function of a date or a timestamp as an operand, or None for other functions.

    Raises UnsupportedError for an argument that is not supported.
    """
    match node:
        case exp.Cast(this=argument, to=kind) if kind.this is exp.DType.DATE:
            return _day(argument, scope)
        case exp.TsOrDsToDate(this=argument) if not node.args.get("format"):
            return _day(argument, scope)
        case exp.Year(this=argument):
            return _year(argument, scope)
        case exp.Extract(this=unit, expression=argument) if unit.name.upper() == "YEAR":
            return _year(argument, scope)
        case exp.DateTrunc(this=argument):
            return _first_day_of_period(argument, argument_as_written(node, 1), scope)
        case exp.TimestampTrunc(this=argument):
            return _first_moment_of_period(argument, argument_as_written(node, 0), scope)
        case exp.TimeToStr(this=argument):
            return _text_of_period(argument, argument_as_written(node, 1), scope)
    return None


def _day(node: exp.Expr, scope: Scope) -> Operand:
    """Return the day of a date or a timestamp."""
    argument = argument_of(node, scope)
    if argument.type is LogicalType.DATE:
        return Operand(argument)
    day = Column(argument.path, LogicalType.DATE, pa.int32())
    return _step(argument, day, _first_moments(argument, scope.fold))


def _year(node: exp.Expr, scope: Scope) -> Operand:
    """Return the year of a date or a timestamp."""
    argument = argument_of(node.this if isinstance(node, exp.TsOrDsToDate) else node, scope)
    year = Column(argument.path, LogicalType.INTEGER, pa.int32())
    return _step_of_days(argument, year, _first_days_of_years, scope)


def _first_day_of_period(node: exp.Expr, unit: str, scope: Scope) -> Operand:
    """Return TRUNC of a date or a timestamp: the first day of the period that it is in."""
    argument = argument_of(node, scope)
    first_day = Column(argument.path, LogicalType.DATE, pa.int32())
    return _step_of_days(argument, first_day, partial(_first_days_of_periods, _UNITS.get(unit.upper())), scope)


def _first_moment_of_period(node: exp.Expr, unit: str, scope: Scope) -> Operand:
    """Return DATE_TRUNC of a date or a timestamp: the first moment of the period that it is in."""
    argument = argument_of(node, scope)
    period = _UNITS_WITH_DAYS.get(unit.upper())
    fold, first_values = _as_timestamps(argument, scope.fold)

    def first_values_of_moments(moments: Sequence[int]) -> Sequence[int]:
        return first_values(_first_days_of_periods(period, _evaluate(fold, map(_first_day_from, moments))))

    return _step(argument, Column(argument.path, LogicalType.TIMESTAMP, pa.int64()), first_values_of_moments)


def _text_of_period(node: exp.Expr, pattern: str, scope: Scope) -> Operand:
    """Return DATE_FORMAT of a date or a timestamp with a pattern for a day, a month or a year."""
    argument = argument_of(node.this if isinstance(node, exp.TimeStrToTime) else node, scope)
    fold, first_values = _as_timestamps(argument, scope.fold)
    syntax, period = _PATTERNS.get(pattern, ("", _DAY))
    if not syntax or fold(_HAS_SIGNED_YEARS) is not True:
        raise UnsupportedError("only years, months and days in digits are pushed down")

    def equals(text: str) -> Node:
        try:
            start = datetime.strptime(text, syntax).date()
            days = _day_number(start), _day_number(period.next_start(start))
        except (ValueError, OverflowError) as problem:
            raise UnsupportedError(f"{text!r} does not have the pattern {pattern}") from problem
        if start.strftime(syntax) != text:
            raise UnsupportedError(f"{text!r} does not have the pattern {pattern}")
        return _between(argument, *first_values(days))

    return string_operand(argument, Column(argument.path, LogicalType.STRING, pa.string()), equals)


def _step_of_days(argument: Column, result: Column, first_days: FirstValues, scope: Scope) -> Operand:
    """Return a function of a date, or of the day of a timestamp."""
    if argument.type is LogicalType.DATE:
        return _step(argument, result, first_days)
    first_moments = _first_moments(argument, scope.fold)
    return _step(argument, result, lambda values: first_moments(first_days(values)))


def _first_days_of_years(years: Sequence[int]) -> list[int]:
    if not all(MINYEAR <= year <= MAXYEAR for year in years):
        raise UnsupportedError(f"only years from {MINYEAR} to {MAXYEAR} are pushed down")
    return [_day_number(date(year, 1, 1)) for year in years]


def _first_days_of_periods(period: _Period | None, days: Sequence[int]) -> list[int]:
    """Return the first days of the first periods that begin on or after some days."""
    if period is None:
        raise UnsupportedError("only days, weeks, months, quarters and years are pushed down")
    try:
        dates = [date.fromordinal(day + EPOCH_ORDINAL) for day in days]
        return [_day_number(day if period.start(day) == day else period.next_start(period.start(day))) for day in dates]
    except (ValueError, OverflowError) as problem:
        raise UnsupportedError(f"only years from {MINYEAR} to {MAXYEAR} are pushed down") from problem


def _day_number(day: date) -> int:
    return day.toordinal() - EPOCH_ORDINAL


def _first_moments(argument: Column, fold: Fold | None) -> FirstValues:
    """Return the function that returns the first moments of days, for a timestamp column."""
    if argument.type is LogicalType.TIMESTAMP_NTZ:
        return lambda days: [day * MICROSECONDS_PER_DAY for day in days]
    if argument.type is not LogicalType.TIMESTAMP or fold is None:
        raise UnsupportedError(f"{'.'.join(argument.path)} is not a date or a timestamp")
    return lambda days: _evaluate(fold, map(_first_moment, days))


def _as_timestamps(argument: Column, fold: Fold | None) -> tuple[Fold, FirstValues]:
    """Return how to evaluate constants, and the function that returns the least values that days begin with.

    Spark converts a date to the first moment of the day, or of the next day if the time zone skips it.
    """
    if argument.type not in (LogicalType.DATE, LogicalType.TIMESTAMP) or fold is None:
        raise UnsupportedError(f"{'.'.join(argument.path)} is not a date or a timestamp with time zone")
    value_of_day = _own_day if argument.type is LogicalType.DATE else _first_moment
    return fold, lambda days: _evaluate(fold, map(value_of_day, days))


def _evaluate(fold: Fold, expressions: Iterable[str]) -> list[int]:
    """Evaluate integers. Raises UnsupportedError if one of them is NULL."""
    values = fold(f"array({', '.join(expressions)})")
    if not isinstance(values, list):
        raise UnsupportedError("Spark does not know when a day begins")
    if None in values:
        raise UnsupportedError("the session time zone sets clocks back over midnight, or skips a day")
    return [int(str(value)) for value in values]


def _first_moment(day: int) -> str:
    """Return SQL for the first moment of a day in microseconds, or NULL if some later minute is of an earlier day."""
    date_sql = f"DATE_FROM_UNIX_DATE({day})"
    start = f"CAST({date_sql} AS TIMESTAMP_LTZ)"
    minutes = f"sequence({start} - INTERVAL '1' DAY, {start} + INTERVAL '1' DAY, INTERVAL '1' MINUTE)"
    return f"IF(forall({minutes}, m -> (m >= {start}) = (CAST(m AS DATE) >= {date_sql})), unix_micros({start}), NULL)"


def _own_day(day: int) -> str:
    """Return SQL for the number of a day, or NULL if the day before begins at the same moment."""
    before, start = (f"CAST(DATE_FROM_UNIX_DATE({each}) AS TIMESTAMP_LTZ)" for each in (day - 1, day))
    return f"IF({before} < {start}, {day}, NULL)"


def _first_day_from(moment: int) -> str:
    """Return SQL for the number of the first day that begins at a moment or later."""
    day = f"CAST(timestamp_micros({moment}) AS DATE)"
    return f"unix_date({day}) + IF(CAST({day} AS TIMESTAMP_LTZ) < timestamp_micros({moment}), 1, 0)"


def _step(argument: Column, result: Column, first_values: FirstValues) -> Operand:
    """Return a function with whole results that never decreases when its argument grows."""

    def compare(op: Op, value: int) -> Node:
        match op:
            case Op.EQ:
                return _between(argument, *first_values([value, value + 1]))
            case Op.GE | Op.GT:
                [low] = first_values([value + (op is Op.GT)])
                return Comparison(argument, Op.GE, low)
        [low] = first_values([value + (op is Op.LE)])
        return Comparison(argument, Op.LE, low - 1)

    def test(leaf: Node) -> Node:
        match leaf:
            case Comparison(op=op, value=int(value)):
                return compare(op, value)
            case InList():
                return any_value_test(argument, leaf, lambda value: compare(Op.EQ, int(str(value))))
        raise UnsupportedError("only comparisons of the function with constants are pushed down")

    return Operand(result, lambda tree: replace_leaves(tree, test))


def _between(argument: Column, low: int, next_low: int) -> Node:
    return conjunction([Comparison(argument, Op.GE, low), Comparison(argument, Op.LE, next_low - 1)])
