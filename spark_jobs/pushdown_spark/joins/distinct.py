"""Estimates how many distinct values a column has from rows seen at several places of its files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_CLUSTERED = 2.0
"""A column whose places together show this many times the values that each of them promises is clustered."""
_SHARED = 10
"""Values that places must share for these to tell how many there are in all."""


def distinct_values(groups: Sequence[pa.ChunkedArray], rows: float) -> tuple[float, float]:
    """Distinct values of a column of so many rows, and the share of nulls, from groups of rows of several places.

    Where rows are in no order, Chao's estimator (1984) tells from the values seen once and twice how many were not
    seen at all. Where equal values lie together, his second one (1987) tells it from the values seen at one place and
    at two; where places share none, the number grows with the rows instead.
    """
    whole = pa.chunked_array([chunk for group in groups for chunk in group.chunks]) if groups else None
    if whole is None or len(whole) == 0:
        return max(rows * 0.1, 1.0), 0.0
    seen, nulls = len(whole), whole.null_count
    present = rows * (seen - nulls) / seen
    count, estimate = _chao(whole)
    if seen >= rows:
        return max(float(count), 1.0), nulls / seen
    places = [group for group in groups if len(group) > group.null_count]
    if len(places) > 1 and count > _CLUSTERED * sum(_chao(group)[1] for group in places) / len(places):
        estimate = count * rows / seen
        shown = pa.chunked_array([pc.unique(group.drop_null()) for group in places])
        if len(shown) - count >= _SHARED:
            estimate = min(_chao(shown)[1], estimate)
    return max(min(estimate, present), 1.0), nulls / seen


def _chao(values: pa.ChunkedArray) -> tuple[int, float]:
    """Distinct values seen, and how many there may be in all."""
    counts = pc.struct_field(pc.value_counts(values.drop_null()), "counts")
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    once = pc.sum(pc.equal(counts, 1)).as_py() or 0
    twice = pc.sum(pc.equal(counts, 2)).as_py() or 0
    return len(counts), len(counts) + once * (once - 1) / (2 * (twice + 1))
