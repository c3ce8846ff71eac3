"""Rows as comparable strings, independent of their order and of the order of map entries."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame


def rows_of(frame: DataFrame) -> list[str]:
    return sorted_rows(tuple(row) for row in frame.collect())


def sorted_rows(rows: Iterable[object]) -> list[str]:
    return sorted(map(str, map(_plain, rows)))


def _plain(value: object) -> object:
    """Return the value with map entries ordered by key, and structs without names."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return list(map(_plain, value)) if isinstance(value, list) else value
