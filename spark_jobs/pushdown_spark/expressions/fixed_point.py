"""Comparisons of integers and decimals with wider types, rewritten as intervals of the column's own values.

Spark casts the column: `bigint_column < 1e18` compares doubles, and several integers round to the same double. A cast
never reverses the order, so the values that pass are an interval, which can be tested without a cast. The domain of a
column is a set of multiples of 10^-scale. Integers, dates and timestamps have scale 0.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from pushdown_spark.expressions.bound import Op


@dataclass(frozen=True)
class FixedPointDomain:
    """The values of an exact type: n * 10^-scale for low <= n <= high."""

    low: int
    high: int
    scale: int = 0

    def decimal(self, number: int) -> Decimal:
        """Return the value for a multiple."""
        return Decimal(f"{number}E-{self.scale}")


@dataclass(frozen=True)
class Interval:
    """Multiples from `low` to `high`, both included. None is unbounded; low > high is empty."""

    low: int | None
    high: int | None


_MAX_MAGNITUDE = 1e300
"""No domain has larger values. Doubles beyond it may have an infinite neighbor."""
_UNBOUNDED = Interval(None, None)
EMPTY_INTERVAL = Interval(1, 0)


def exact_interval(domain: FixedPointDomain, op: Op, value: Fraction | int | Decimal) -> Interval:
    """Return the multiples that satisfy `multiple op value`."""
    multiple = Fraction(value) * 10**domain.scale
    if op is Op.EQ:
        return Interval(multiple.numerator, multiple.numerator) if multiple.denominator == 1 else EMPTY_INTERVAL
    if op in (Op.LT, Op.LE):
        return Interval(None, math.ceil(multiple) - 1 if op is Op.LT else math.floor(multiple))
    return Interval(math.floor(multiple) + 1 if op is Op.GT else math.ceil(multiple), None)


def rounded_interval(domain: FixedPointDomain, op: Op, value: float) -> Interval:
    """Return the multiples that satisfy `op` after they are rounded to the nearest double."""
    if math.isnan(value) or math.isinf(value):
        is_low = value < 0
        is_everything = op in (Op.GT, Op.GE) if is_low else op in (Op.LT, Op.LE)
        return _UNBOUNDED if is_everything else EMPTY_INTERVAL
    below, upto = _last_below(domain, value), _last_below(domain, math.nextafter(value, math.inf))
    return {
        Op.LT: Interval(None, below),
        Op.LE: Interval(None, upto),
        Op.EQ: Interval(below + 1, upto),
        Op.GT: Interval(upto + 1, None),
        Op.GE: Interval(below + 1, None),
    }[op]


def _last_below(domain: FixedPointDomain, value: float) -> int:
    """Return the largest multiple that rounds to less than a double. Half-way values round to the even double."""
    if abs(value) > _MAX_MAGNITUDE:
        return domain.high if value > 0 else domain.low - 1
    half_way = (Fraction(math.nextafter(value, -math.inf)) + Fraction(value)) / 2 * 10**domain.scale
    is_even = struct.pack("<d", value)[0] % 2 == 0
    return int(math.ceil(half_way) - 1 if is_even else math.floor(half_way))


def single_precision(op: Op, value: float) -> tuple[Op, float] | None:
    """Rewrite a comparison of floats with a double as one with a float, or None if no float passes (EQ only)."""
    with np.errstate(over="ignore"):
        nearest = np.float32(value)
    if float(nearest) == value or math.isnan(value):
        return op, float(nearest)
    if op is Op.EQ:
        return None
    under = nearest if float(nearest) < value else np.nextafter(nearest, np.float32(-np.inf))
    return (Op.LE if op in (Op.LT, Op.LE) else Op.GT), float(under)


def is_single(value: float) -> bool:
    """Return whether a number is a single-precision float. NaN is one."""
    return math.isnan(value) or single_precision(Op.EQ, value) is not None
