"""The statistics that a source has of its own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ColumnStatistics:
    """The number of distinct values of a column, or None if it is unknown, and the fraction of nulls."""

    distinct: float | None
    null_fraction: float = 0.0


@dataclass(frozen=True)
class TableStatistics:
    """The statistics of a relation: all rows, the expected rows of a predicate, and columns by name.

    `has_selectivity` is whether the source has estimated the selectivity of the predicate. Otherwise `expected_rows`
    are the rows that it would examine. If `is_fetched` is set, the driver fetches the rows, so that Spark knows their
    number.
    """

    rows: float
    expected_rows: float
    is_fetched: bool
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    has_selectivity: bool = False
