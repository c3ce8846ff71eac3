"""Statistics of relations and of their join keys."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from numpy import count_nonzero, int64
from numpy.typing import NDArray
from sqlglot import exp

from pushdown_spark.optimizer.join_order.equalities import ColumnKey

_DEFAULT_DISTINCT_FRACTION = 0.1
"""Distinct values per row of a column without statistics."""


@dataclass(frozen=True)
class StatisticsRequest:
    """The statistics that a query needs of a relation.

    `conditions` refer to columns without the relation's `name`. `keys` are the columns whose distinct values matter.
    `read_columns` are all columns that the query reads, or None for every column.
    """

    name: str
    conditions: tuple[exp.Expr, ...]
    keys: frozenset[str]
    read_columns: frozenset[str] | None = None


@dataclass(frozen=True)
class KeyValues:
    """All values of an integer key, and the values in rows that satisfy the conditions on the relation.

    `is_certain` means that Spark reads exactly these values, and that `filtered` has every value that satisfies the
    conditions. `conditions` refer to columns without the name of the relation.
    """

    every: NDArray[int64]
    filtered: NDArray[int64]
    is_certain: bool = False
    conditions: tuple[exp.Expr, ...] = ()

    def count_between(self, low: int, high: int) -> tuple[int, int]:
        """Return how many of all values, and of the filtered values, lie in a closed interval."""
        every, filtered = (
            int(count_nonzero((values >= low) & (values <= high))) for values in (self.every, self.filtered)
        )
        return every, filtered


@dataclass(frozen=True)
class JoinColumnStatistics:
    """Statistics of a column over its whole relation.

    `is_unique` means that no value occurs twice. `selectivity` is the fraction of its values that satisfy the
    conditions on this column alone. `bounds` are its least and greatest value. `values` are all values of a unique
    integer column.
    """

    distinct: float
    null_fraction: float = 0.0
    is_unique: bool = False
    selectivity: float = 1.0
    bounds: tuple[int, int] | None = None
    values: KeyValues | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RelationStatistics:
    """Statistics of a relation: rows, rows that satisfy the conditions on it, and columns.

    `max_bytes` is a proven upper bound on the bytes of its rows in memory. `file_bytes` is the size of its files, by
    which Spark decides whether to broadcast it. `row_bytes` is the size of a row in memory, an upper bound where all
    strings were measured, else an average; it is None if `rows` is an estimate. `column_bytes` holds the maximum bytes
    of the columns whose values were measured, by lower-case name.
    """

    rows: float
    filtered_rows: float
    columns: Mapping[ColumnKey, JoinColumnStatistics] = field(default_factory=dict)
    max_bytes: float | None = None
    file_bytes: float | None = None
    row_bytes: float | None = None
    column_bytes: Mapping[str, float] = field(default_factory=dict)

    def bytes_per_row(self, columns: Collection[str] | None) -> float | None:
        """Return the bytes of a row with these columns (None for all columns), or None if `rows` is an estimate."""
        if self.row_bytes is None or columns is None or any(name not in self.column_bytes for name in columns):
            return self.row_bytes
        return min(sum(self.column_bytes[name] for name in columns), self.row_bytes)

    def distinct(self, key: ColumnKey) -> float:
        """Return the number of distinct values (NDV) of a column that satisfy the conditions on this column.

        Conditions on other columns do not count: each remaining value still joins with as many rows elsewhere.
        """
        column = self.columns.get(key)
        if column is None:
            return self._default_distinct
        return max(min(column.distinct, self.rows) * column.selectivity, 1.0)

    def filtered_distinct(self, key: ColumnKey) -> float:
        """Return the number of distinct values of a column in the rows that satisfy all conditions."""
        column = self.columns.get(key)
        distinct = self._default_distinct if column is None else column.distinct
        if self.rows <= 0 or self.filtered_rows >= self.rows:
            return max(min(distinct, self.rows), 1.0)
        rows_per_value = max(self.rows / max(distinct, 1.0), 1.0)
        expected = distinct * (1.0 - math.pow(1.0 - self.filtered_rows / self.rows, rows_per_value))
        return max(min(expected, self.filtered_rows), 1.0)

    def non_null_fraction(self, key: ColumnKey) -> float:
        """Return the fraction of rows with a value of a column that is not null."""
        column = self.columns.get(key)
        return 1.0 if column is None else 1.0 - column.null_fraction

    @property
    def _default_distinct(self) -> float:
        return max(self.rows * _DEFAULT_DISTINCT_FRACTION, 1.0)
