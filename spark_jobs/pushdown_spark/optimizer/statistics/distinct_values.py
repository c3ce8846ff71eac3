"""Estimates of the number of distinct values (NDV) of a column from a sample."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_CLUSTERING_FACTOR = 2.0
"""A column is clustered if it has this many times the distinct values that its groups suggest."""
_MIN_SHARED_VALUES = 10
"""Values that several groups must share before these shared values are used for an estimate."""


def estimate_distinct(groups: Sequence[pa.ChunkedArray], rows: float) -> tuple[float, float]:
    """Return the estimated distinct values of a column with this many rows, and its fraction of nulls.

    Each group holds values from one position of the files. If the rows are in no order, Chao's estimator (1984) derives
    the number of unseen values from the values that occur once and twice. If equal values are clustered, Chao's second
    estimator (1987) derives it from the values that occur in one group and in two. If the groups share too few values,
    the number grows in proportion to the rows.
    """
    values = pa.chunked_array([chunk for group in groups for chunk in group.chunks]) if groups else None
    if values is None or len(values) == 0:
        return max(rows * 0.1, 1.0), 0.0
    sample_size, nulls = len(values), values.null_count
    null_fraction = nulls / sample_size
    count, estimate = _chao(values)
    if sample_size >= rows:
        return max(float(count), 1.0), null_fraction
    nonempty = [group for group in groups if len(group) > group.null_count]
    if len(nonempty) > 1 and count > _CLUSTERING_FACTOR * sum(_chao(group)[1] for group in nonempty) / len(nonempty):
        estimate = count * rows / sample_size
        values_by_group = pa.chunked_array([pc.unique(group.drop_null()) for group in nonempty])
        if len(values_by_group) - count >= _MIN_SHARED_VALUES:
            estimate = min(_chao(values_by_group)[1], estimate)
    max_distinct = rows * (sample_size - nulls) / sample_size
    return max(min(estimate, max_distinct), 1.0), null_fraction


def _chao(values: pa.ChunkedArray) -> tuple[int, float]:
    """Return the number of distinct sampled values, and the estimated number of all distinct values."""
    counts = pc.struct_field(pc.value_counts(values.drop_null()), "counts")
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    once = pc.sum(pc.equal(counts, 1)).as_py() or 0
    twice = pc.sum(pc.equal(counts, 2)).as_py() or 0
    return len(counts), len(counts) + once * (once - 1) / (2 * (twice + 1))
