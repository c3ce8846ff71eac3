"""Comparisons of floating-point numbers for which Spark's filter pushdown in ORC and Parquet loses rows.

Spark compares 0.0 and -0.0 as equal, and NaN as the largest number. The statistics of files distinguish the zeros, and
those of Arrow and other writers of Parquet omit NaN. If the planner leaves such a scan to Spark, it turns the filter
pushdown of Spark's reader off. `unknown_filters.py` hides columns from filters that the planner does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsafeFilterError, UnsupportedError
from pushdown_spark.expressions.bound import Node, Not, Op, floating_comparisons, walk
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.bound_predicate import bound_conjuncts
from pushdown_spark.sources.request import ScanRequest


@contextmanager
def unsupported_as_unsafe_filter(spark: SparkSession, request: ScanRequest, *, omits_nan: bool) -> Iterator[None]:
    """Raise UnsafeFilterError instead of UnsupportedError if Spark's filter pushdown may lose rows of the scan.

    `omits_nan` is whether statistics of files of the format may omit NaN.
    """
    try:
        yield
    except UnsupportedError as problem:
        is_asked = request.source.reader is ReaderChoice.SPARK
        if is_asked or not may_lose_rows(bound_conjuncts(spark, request), omits_nan=omits_nan):
            raise
        raise UnsafeFilterError(str(problem), problem.predicted) from problem


def may_lose_rows(conjuncts: Iterable[Pushdown[Node]], *, omits_nan: bool) -> bool:
    """Return whether Spark's filter pushdown of some conjuncts may lose rows.

    `omits_nan` is whether statistics of the files may omit NaN.
    """
    roots = [conjunct.artifact for conjunct in conjuncts if conjunct.artifact is not None]
    return any(_may_lose_zeros(root) or (omits_nan and _may_lose_nan(root)) for root in roots)


def _may_lose_zeros(root: Node) -> bool:
    """Return whether a filter compares with a zero so that the other zero has to match, too.

    >>> from pushdown_spark.expressions.bound import Column, Comparison
    >>> from pushdown_spark.expressions.types import LogicalType
    >>> import pyarrow as pa
    >>> x = Column(("x",), LogicalType.DOUBLE, pa.float64())
    >>> [_may_lose_zeros(Comparison(x, op, value)) for op, value in ((Op.GE, 0.0), (Op.GT, 0.0), (Op.GE, 1.0))]
    [True, False, False]
    """
    ops = set(Op) if _has_negation(root) else {Op.EQ, Op.LE, Op.GE}
    return any(op in ops and value == 0.0 for op, value in floating_comparisons(root))


def _may_lose_nan(root: Node) -> bool:
    """Return whether a filter may be true for NaN."""
    ops = set(Op) if _has_negation(root) else {Op.GT, Op.GE}
    # NaN is the only number that differs from itself.
    return any(op in ops or value != value for op, value in floating_comparisons(root))


def _has_negation(root: Node) -> bool:
    return any(isinstance(node, Not) for node in walk(root))
