"""What all our readers share about tasks: how files are packed into them, and columns that are constant in a file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.projection.paths import quote_name
from pushdown_spark.readers.directories import constant_columns, place_of
from pushdown_spark.readers.files import InputFile, Packing, Task, decoded, pack
from pushdown_spark.relations.request import ScanRequest

_LEAST_SHARE = 1 / 16
"""Columns differ in width: however few are read, splits are no larger than this allows."""


def packing(spark: SparkSession) -> Packing:
    """Spark's own settings for cutting files into tasks."""
    # Spark's own getters: looking up one of its classes by name makes the JVM go through all its jars.
    conf = spark._jsparkSession.sessionState().conf()
    return Packing(
        int(conf.filesMaxPartitionBytes()), int(conf.filesOpenCostInBytes()), spark.sparkContext.defaultParallelism
    )


def tasks_of(
    spark: SparkSession, request: ScanRequest, files: Sequence[InputFile], *, share: float = 1.0
) -> tuple[Task, ...]:
    """The tasks of a scan: of one file each, or of one directory each, where columns tell of these.

    Where only a `share` of every file is read, its splits may be as much larger: a task's start costs what it costs.
    """
    groups: Sequence[Hashable] | None = None
    if request.implicit:
        groups = range(len(files))
    elif request.directories is not None and not set(request.columns).isdisjoint(
        request.directories.fields.fieldNames()
    ):
        groups = [request.directories.values[place_of(file.uri)] for file in files]
    usual = packing(spark)
    limit = int(usual.max_partition_bytes / max(share, _LEAST_SHARE))
    return pack(files, replace(usual, max_partition_bytes=limit), groups=groups)


def with_constants(frame: DataFrame, request: ScanRequest, uris: Sequence[str]) -> DataFrame:
    """Add the columns that are one value for a file to a frame whose partition number k is of the file `uris[k]`.

    These are the implicit columns asked for, and those that directories `key=value` tell. The latter take their places
    in the table: a column that the files have too stands where the files have it.
    """
    constants = constant_columns(request, uris)
    values = request.implicit_values
    added = [] if values is None else values.by_partition(request.implicit, list(map(decoded, uris)))
    if not constants and not added:
        return frame
    names = dict.fromkeys([*request.columns, *frame.columns])
    return frame.selectExpr(*(constants.get(name, quote_name(name)) for name in names), *added)
