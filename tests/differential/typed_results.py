"""Rows as texts that can be compared: whatever their order, and that of a map's entries."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame


def rows_of(frame: DataFrame) -> list[str]:
    """The rows of a frame."""
    return shown(tuple(row) for row in frame.collect())


def shown(rows: Iterable[object]) -> list[str]:
    """Rows as texts, sorted."""
    return sorted(map(str, map(_plain, rows)))


def _plain(value: object) -> object:
    """The value with maps in the order of their keys, and structs without their names."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return list(map(_plain, value)) if isinstance(value, list) else value
