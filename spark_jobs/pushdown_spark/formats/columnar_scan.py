"""Scans by a columnar reader, and the part of their planning that the formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.bound_predicate import bound_conjuncts, first_reason
from pushdown_spark.formats.readable_types import check_columns
from pushdown_spark.formats.scan_task import FileScanTask, Query
from pushdown_spark.formats.worker_scan import WorkerScan
from pushdown_spark.scan.packing import Task
from pushdown_spark.scan.partition_directories import listed_files
from pushdown_spark.scan.plan import ScanPlan
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import InputFile
from pushdown_spark.sources.stores.storage import storage_for


@dataclass(frozen=True)
class ColumnarPlan(ScanPlan, Generic[Query]):
    """A planned scan. If it `is_exact`, all its rows satisfy the predicate.

    With `skips_recheck`, Spark does not evaluate the predicate of an exact scan again.
    """

    task_class: ClassVar[type[FileScanTask[Any, Any]]]
    """The function that the workers run."""
    reads_columns_separately: ClassVar[bool] = True
    """Whether the format stores each column separately, so that only the required ones are read."""

    query: Query
    is_exact: bool
    skips_recheck: bool = False


class ColumnarScan(WorkerScan[ColumnarPlan[Any], Any]):
    """A scan of one source by a columnar reader."""

    def __init__(self, spark: SparkSession, request: ScanRequest, plan: ColumnarPlan[Any]) -> None:
        read_fraction = len(request.read_schema) / max(len(request.schema), 1) if plan.reads_columns_separately else 1.0
        super().__init__(spark, request, plan, read_fraction=read_fraction)

    @property
    def needs_recheck(self) -> bool:
        """Whether Spark has to evaluate the predicate, although the filter may be the whole predicate."""
        return not (self._plan.is_exact and self._plan.skips_recheck)

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None, skip: tuple[int, ...]) -> DataFrame:
        """Return the rows of some tasks. Tasks stop after `cap` rows if all their rows satisfy the predicate."""
        plan = self._plan
        task = plan.task_class(tasks, plan.query, self._counter(batch), cap if plan.is_exact else None)
        return self._with_constants(self._map(task, self._request.read_schema), tasks)


def check_columnar_request(request: ScanRequest, *, needs_predicate: bool = True) -> None:
    """Raise UnsupportedError if no columnar pushdown reader can run a scan.

    With `needs_predicate`, a scan without a predicate needs Spark's reader, unless the user set reader='pushdown'.
    """
    request.check_pushdown()
    if needs_predicate and request.predicate is None and request.source.reader is ReaderChoice.AUTO:
        raise UnsupportedError("no predicate to push")
    check_columns(request)


def prepare_files(spark: SparkSession, request: ScanRequest) -> tuple[list[Pushdown[Node]], tuple[InputFile, ...]]:
    """Bind the conjuncts and list the files of a scan. Raises UnsupportedError if Spark's reader must read them."""
    conjuncts = bound_conjuncts(spark, request)
    if request.predicate is not None and not any(conjunct.artifact is not None for conjunct in conjuncts):
        raise UnsupportedError(f"no conjunct can be evaluated over columns: {first_reason(conjuncts)}")
    storage = storage_for(spark, request.uris, request.source.options)
    return conjuncts, listed_files(request, storage)
