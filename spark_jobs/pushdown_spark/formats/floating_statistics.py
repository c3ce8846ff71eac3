"""Comparisons of floating-point numbers for which Spark's filter pushdown in ORC and Parquet loses rows.

Spark compares 0.0 and -0.0 as equal, and NaN as the largest number. The statistics of files distinguish the zeros, and
those of Arrow and other writers of Parquet omit NaN.
"""

from __future__ import annotations

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Node, Not, Op, floating_comparisons, walk


class UnsafeFilterError(UnsupportedError):
    """Spark's reader must scan without its filter pushdown, because it would lose rows."""


def may_lose_zeros(root: Node) -> bool:
    """Return whether a filter compares with a zero so that the other zero has to match, too.

    >>> from pushdown_spark.expressions.bound import Column, Comparison
    >>> from pushdown_spark.expressions.types import LogicalType
    >>> import pyarrow as pa
    >>> x = Column(("x",), LogicalType.DOUBLE, pa.float64())
    >>> [may_lose_zeros(Comparison(x, op, value)) for op, value in ((Op.GE, 0.0), (Op.GT, 0.0), (Op.GE, 1.0))]
    [True, False, False]
    """
    ops = set(Op) if _has_negation(root) else {Op.EQ, Op.LE, Op.GE}
    return any(op in ops and value == 0.0 for op, value in floating_comparisons(root))


def may_lose_nan(root: Node) -> bool:
    """Return whether a filter may be true for NaN."""
    ops = set(Op) if _has_negation(root) else {Op.GT, Op.GE}
    # NaN is the only number that differs from itself.
    return any(op in ops or value != value for op, value in floating_comparisons(root))


def _has_negation(root: Node) -> bool:
    return any(isinstance(node, Not) for node in walk(root))
