"""The rows of a DataFrame in an order that two readers share."""

from __future__ import annotations

from pyspark.sql import DataFrame


def sorted_rows(frame: DataFrame) -> list[str]:
    """Return the rows as sorted strings, which show the names of columns and the difference between null and NaN."""
    return sorted(map(str, frame.collect()))
