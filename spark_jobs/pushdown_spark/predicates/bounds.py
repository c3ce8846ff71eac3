"""Turns a comparison in a wider type into one in the column's own type, exactly.

Spark casts the column: `bigint_column < 1e18` compares doubles, and several integers round to the same double. A cast
never reverses the order, so the values that pass are an interval of the column's own, which needs no cast.
Columns are seen as grids: multiples of 10^-scale, of which integers, dates and timestamps have scale 0.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from pushdown_spark.predicates.vector import Op


@dataclass(frozen=True)
class Grid:
    """The values that an exact type has: n * 10^-scale for low <= n <= high."""

    low: int
    high: int
    scale: int = 0

    def decimal(self, number: int) -> Decimal:
        """The value of a grid point."""
        return Decimal(f"{number}E-{self.scale}")


@dataclass(frozen=True)
class Interval:
    """Grid points from `low` to `high`, both included; None is open, and low > high is empty."""

    low: int | None
    high: int | None


_BEYOND_GRIDS = 1e300
"""No grid reaches so far; the doubles there have no neighbours that are finite."""
EVERYTHING = Interval(None, None)
NOTHING = Interval(1, 0)


def exact(grid: Grid, op: Op, value: Fraction | int | Decimal) -> Interval:
    """The grid points that compare with a number as `op` says."""
    place = Fraction(value) * 10**grid.scale
    if op is Op.EQ:
        return Interval(place.numerator, place.numerator) if place.denominator == 1 else NOTHING
    if op in (Op.LT, Op.LE):
        return Interval(None, math.ceil(place) - 1 if op is Op.LT else math.floor(place))
    return Interval(math.floor(place) + 1 if op is Op.GT else math.ceil(place), None)


def rounded(grid: Grid, op: Op, value: float) -> Interval:
    """The grid points that, rounded to the nearest double, compare with a double as `op` says."""
    if math.isnan(value) or math.isinf(value):
        is_low = value < 0
        fits = op in (Op.GT, Op.GE) if is_low else op in (Op.LT, Op.LE)
        return EVERYTHING if fits else NOTHING
    below, upto = _last_below(grid, value), _last_below(grid, math.nextafter(value, math.inf))
    return {
        Op.LT: Interval(None, below),
        Op.LE: Interval(None, upto),
        Op.EQ: Interval(below + 1, upto),
        Op.GT: Interval(upto + 1, None),
        Op.GE: Interval(below + 1, None),
    }[op]


def _last_below(grid: Grid, value: float) -> int:
    """The largest grid point that rounds to less than a double: to the even one of two doubles from half-way."""
    if abs(value) > _BEYOND_GRIDS:
        return grid.high if value > 0 else grid.low - 1
    half_way = (Fraction(math.nextafter(value, -math.inf)) + Fraction(value)) / 2 * 10**grid.scale
    is_even = struct.pack("<d", value)[0] % 2 == 0
    return int(math.ceil(half_way) - 1 if is_even else math.floor(half_way))


def single_precision(op: Op, value: float) -> tuple[Op, float] | None:
    """A comparison of floats with a double as one with a float; None where no float can pass (EQ only)."""
    with np.errstate(over="ignore"):
        nearest = np.float32(value)
    if float(nearest) == value or math.isnan(value):
        return op, float(nearest)
    if op is Op.EQ:
        return None
    under = nearest if float(nearest) < value else np.nextafter(nearest, np.float32(-np.inf))
    return (Op.LE if op in (Op.LT, Op.LE) else Op.GT), float(under)


def is_single(value: float) -> bool:
    """Whether a number is a single-precision float, NaN included."""
    return math.isnan(value) or single_precision(Op.EQ, value) is not None
