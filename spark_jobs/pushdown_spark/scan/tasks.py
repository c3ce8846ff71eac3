"""Tasks of the pushdown readers: the files of each, their progress, and the columns that are constant in a file."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.spark_internals import session_state
from pushdown_spark.scan.packing import Packing, Task, pack
from pushdown_spark.scan.partition_directories import constants_by_line, constants_by_task, directory_of
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import InputFile, decode_uri

_MIN_FRACTION = 1 / 16
"""Lower bound for the fraction of columns that enlarges splits, because columns differ in width."""


def packing(spark: SparkSession) -> Packing:
    """Return Spark's settings for splits."""
    # Spark's getters, because a lookup of one of its classes by name searches all jars.
    conf = session_state(spark).conf()
    return Packing(
        int(conf.filesMaxPartitionBytes()), int(conf.filesOpenCostInBytes()), spark.sparkContext.defaultParallelism
    )


def tasks_of(
    spark: SparkSession, request: ScanRequest, files: Sequence[InputFile], *, read_fraction: float
) -> tuple[Task, ...]:
    """Return the tasks of a scan.

    A task reads one file if implicit columns are requested, and one partition if partition columns are requested. If
    only a `read_fraction` of every file is read, splits are larger, because the start of a task has a fixed cost.
    """
    groups: Sequence[Hashable] | None = None
    if request.implicit_columns:
        groups = range(len(files))
    elif request.directories is not None and not set(request.columns).isdisjoint(
        request.directories.fields.fieldNames()
    ):
        groups = [request.directories.values[directory_of(file.uri)] for file in files]
    settings = packing(spark)
    limit = int(settings.max_partition_bytes / max(read_fraction, _MIN_FRACTION))
    return pack(files, replace(settings, max_partition_bytes=limit), groups=groups)


def progress_of(tasks: Sequence[Task], finished_tasks: Collection[int], rows_found: int) -> SourceProgress:
    """Return the progress of a scan, given the numbers of its finished tasks and the rows that they returned."""
    sizes = [sum(split.end - split.start for split in task.splits) for task in tasks]
    files = {split.path for task in tasks for split in task.splits}
    open_paths = {
        split.path for number, task in enumerate(tasks) if number not in finished_tasks for split in task.splits
    }
    return SourceProgress(
        files_done=len(files) - len(open_paths),
        files_total=len(files),
        bytes_done=sum(sizes[number] for number in finished_tasks),
        bytes_total=sum(sizes),
        rows_found=rows_found,
    )


def with_constants_by_task(frame: DataFrame, request: ScanRequest, uris: Sequence[str]) -> DataFrame:
    """Add the columns that are constant in a file. Partition k of the DataFrame has the rows of the file `uris[k]`.

    They are the requested implicit columns and partition columns. A partition column has its position in the table,
    which is that of the data column if the files have one with its name.
    """
    values = request.implicit_values
    implicit_items = [] if values is None else values.by_task(request.implicit_columns, list(map(decode_uri, uris)))
    return _with_columns(frame, request, constants_by_task(request, uris), implicit_items)


def with_constants_by_line(frame: DataFrame, request: ScanRequest, uris: Sequence[str]) -> DataFrame:
    """Add the columns of `with_constants_by_task` to rows that Spark has just parsed from lines of the files `uris`."""
    values = request.implicit_values
    implicit_items = [] if values is None else values.by_line(request.implicit_columns, list(map(decode_uri, uris)))
    return _with_columns(frame, request, constants_by_line(request), implicit_items)


def _with_columns(
    frame: DataFrame, request: ScanRequest, constants: Mapping[str, str], implicit_items: Sequence[str]
) -> DataFrame:
    if not constants and not implicit_items:
        return frame
    names = dict.fromkeys([*request.columns, *frame.columns])
    return frame.selectExpr(*(constants.get(name, quote_name(name)) for name in names), *implicit_items)
