"""Distinct values are estimated within a factor of 1.5 from rows at six positions, in any row order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from pushdown_spark.optimizer.statistics.distinct_values import estimate_distinct

ROWS = 3_000_000
PLACES, ROWS_OF_A_PLACE = 6, 6_000
Values = Callable[[np.random.Generator, int], np.ndarray]


def in_orders(values: Values) -> Values:
    """Repeat each value for one to seven rows, as the lines of an order share its date and its customer."""

    def draw(random: np.random.Generator, rows: int) -> np.ndarray:
        lengths = random.integers(1, 8, rows)
        return np.repeat(values(random, rows), lengths)[:rows]

    return draw


def even(count: int) -> Values:
    """Return uniformly distributed values in random order."""
    return lambda random, rows: random.integers(0, count, rows)


def sorted_by(rows_of_a_value: int) -> Values:
    return lambda _, rows: np.arange(rows) // rows_of_a_value


@pytest.mark.parametrize(
    ("values", "truth"),
    [
        (even(40), 40),
        (even(2_400), 2_400),
        (even(20_000), 20_000),
        (in_orders(even(40)), 40),
        (in_orders(even(2_400)), 2_400),
        (in_orders(even(20_000)), 20_000),
        (in_orders(even(100_000)), 100_000),
        (sorted_by(1), ROWS),
        (sorted_by(4), ROWS / 4),
        (sorted_by(1_250), 2_400),
    ],
)
def test_distinct_values_are_estimated_for_any_row_order(values: Values, truth: float) -> None:
    column = values(np.random.default_rng(7), ROWS)
    starts = np.linspace(0, ROWS - ROWS_OF_A_PLACE, PLACES).astype(int)
    groups = [pa.chunked_array([column[start : start + ROWS_OF_A_PLACE]]) for start in starts]
    actual, nulls = estimate_distinct(groups, float(ROWS))
    assert truth / 1.5 < actual < truth * 1.5
    assert nulls == 0.0


def test_nulls_do_not_count_and_rows_limit_distinct_values() -> None:
    groups = [pa.chunked_array([[1, None, 2, None]]), pa.chunked_array([[3, None, 4, None]])]
    assert estimate_distinct(groups, 8.0) == (4.0, 0.5)
    assert estimate_distinct(groups, 16.0)[0] <= 8.0
    assert estimate_distinct([], 500.0) == (50.0, 0.0)
