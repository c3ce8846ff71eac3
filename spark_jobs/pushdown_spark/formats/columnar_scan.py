"""Scans by a columnar reader, and the part of their planning that the formats share.

Spark's filter pushdown in ORC and Parquet loses rows for some comparisons of floating-point numbers. Spark compares 0.0
and -0.0 as equal, and NaN as the largest number. The statistics of files distinguish the zeros, and those of Arrow and
other writers of Parquet omit NaN. If the planner leaves such a scan to Spark, it turns Spark's filter pushdown off.
`native/unknown_filters.py` hides columns from filters that the planner does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsafeFilterError, UnsupportedError
from pushdown_spark.expressions.bound import Node, Not, Op, floating_comparisons, walk
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.bound_predicate import bound_conjuncts, first_reason
from pushdown_spark.formats.readable_types import check_columns
from pushdown_spark.formats.scan_task import FileScanTask, Metrics, Query
from pushdown_spark.formats.worker_scan import WorkerScan
from pushdown_spark.relations.packing import Task
from pushdown_spark.relations.partition_directories import listed_files
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.stores.listing import InputFile
from pushdown_spark.relations.stores.storage import storage_for
from pushdown_spark.scan.plan import ScanPlan


@dataclass(frozen=True)
class ColumnarPlan(ScanPlan, Generic[Query]):
    """A planned scan. If it is `exact`, all its rows satisfy the predicate.

    With `is_trusted`, Spark does not evaluate the predicate of an exact scan again.
    """

    query: Query
    exact: bool
    is_trusted: bool = False


class ColumnarScan(WorkerScan[ColumnarPlan[Query], Metrics], Generic[Query, Metrics]):
    """A scan of one source by a columnar reader."""

    task_class: type[FileScanTask[Query, Metrics]]
    """The function that the workers run."""
    is_columnar: ClassVar[bool] = True
    """Whether the format stores each column separately, so that only the required ones are read."""

    def __init__(self, spark: SparkSession, request: ScanRequest, plan: ColumnarPlan[Query]) -> None:
        share = len(request.read_schema) / max(len(request.schema), 1) if self.is_columnar else 1.0
        super().__init__(spark, request, plan, share=share)

    @property
    def is_exact(self) -> bool:
        """Whether the filter is the whole predicate, and the user wants no re-evaluation by Spark."""
        return self._plan.exact and self._plan.is_trusted

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None, skip: tuple[int, ...]) -> DataFrame:
        """Return the rows of some tasks. Tasks stop after `cap` rows if all their rows satisfy the predicate."""
        plan = self._plan
        task = self.task_class(tasks, plan.query, self._counter(batch), cap if plan.exact else None)
        return self._with_constants(self._map(task, self._request.read_schema), tasks)


def check_columnar_request(request: ScanRequest, *, needs_predicate: bool = True) -> None:
    """Raise UnsupportedError if no columnar pushdown reader can run a scan.

    With `needs_predicate`, a scan without a predicate needs Spark's reader, unless the user set reader='pushdown'.
    """
    request.check_allowed()
    if needs_predicate and request.predicate is None and request.source.reader is ReaderChoice.AUTO:
        raise UnsupportedError("no predicate to push")
    request.check_any_reader()
    check_columns(request)


def prepare_files(spark: SparkSession, request: ScanRequest) -> tuple[list[Pushdown[Node]], tuple[InputFile, ...]]:
    """Bind the conjuncts and list the files of a scan. Raises UnsupportedError if Spark's reader must read them."""
    conjuncts = bound_conjuncts(spark, request)
    if request.predicate is not None and not any(conjunct.artifact is not None for conjunct in conjuncts):
        raise UnsupportedError(f"no conjunct can be evaluated over columns: {first_reason(conjuncts)}")
    storage = storage_for(spark, request.uris, request.source.options)
    return conjuncts, listed_files(request, storage)


@contextmanager
def unsafe_filters_off(spark: SparkSession, request: ScanRequest, *, omits_nan: bool) -> Iterator[None]:
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
