"""Statistics of the tables, views and DataFrames of a session: sampled from files, or guessed by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.local_paths import local_path
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics, StatisticsRequest
from pushdown_spark.optimizer.statistics.source_statistics import FileTable, SourceStatistics
from pushdown_spark.runtime.jvm_gateway import class_name, string_map
from pushdown_spark.runtime.spark_internals import optimized_plan
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import Listing, decode_uri

_FORMATS_BY_NAME = {
    "Parquet": SourceFormat.PARQUET,
    "ORC": SourceFormat.ORC,
    "CSV": SourceFormat.CSV,
    "JSON": SourceFormat.JSON,
}
_FORMATS_BY_SUFFIX = {".parquet": SourceFormat.PARQUET, ".orc": SourceFormat.ORC}
_UNKNOWN_BYTES = 1 << 60
"""Sizes from here on mean that Spark does not know the size."""
_ROW_OVERHEAD_BYTES = 8


class SessionTableStatistics:
    """Statistics of DataFrames by name. With Spark Connect, only local Parquet and ORC files have statistics."""

    def __init__(self, spark: SparkSession, sources: SourceStatistics) -> None:
        self._spark = spark
        self._sources = sources

    def statistics_of(self, name: str, frame: DataFrame, request: StatisticsRequest) -> RelationStatistics | None:
        """Return the statistics of a DataFrame, or None if there are none."""
        if not isinstance(self._spark, SparkSession):
            source = _source_of_files(name, frame)
            statistics = None if source is None else self._sources.statistics_of(FileTable(source, frame), request)
            if statistics is None:
                return None
            # The bounds are dropped, because the relation may be a view that multiplies the rows of its files.
            return RelationStatistics(statistics.rows, statistics.filtered_rows, statistics.columns)
        plan = optimized_plan(frame)
        source = _source_of_plan(name, plan)
        if source is not None:
            return self._sources.statistics_of(FileTable(source, frame), request)
        return _statistics_of_plan(plan)


def _source_of_plan(name: str, plan: JavaObject) -> Source | None:
    """Return the files that a plan reads as a source, or None if the plan does more than read files."""
    if plan.nodeName() != "LogicalRelation" or class_name(plan.relation()) != "HadoopFsRelation":
        return None
    relation = plan.relation()
    source_format = _FORMATS_BY_NAME.get(str(relation.fileFormat().toString()))
    if source_format is None:
        return None
    options = {key.lower(): value for key, value in string_map(relation.options()).items()}
    return _source(name, source_format, options)


def _source_of_files(name: str, frame: DataFrame) -> Source | None:
    """Return the local files of a DataFrame as a source, or None if they have no common format."""
    uris = Listing(frame).uris
    paths = [Path(local) for uri in uris if (local := local_path(decode_uri(uri))) is not None]
    formats = {_FORMATS_BY_SUFFIX.get(path.suffix) for path in paths}
    source_format = formats.pop() if len(formats) == 1 else None
    if source_format is None or len(paths) < len(uris) or not all(path.exists() for path in paths):
        return None
    return _source(name, source_format, {})


def _source(name: str, source_format: SourceFormat, options: Mapping[str, str]) -> Source:
    return Source(name=name, format=source_format, options=options, reader=ReaderChoice.SPARK)


def _statistics_of_plan(plan: JavaObject) -> RelationStatistics | None:
    """Return the rows that Spark counted, or guesses from its estimate of the size."""
    stats = plan.stats()
    if stats.rowCount().isDefined():
        rows = float(str(stats.rowCount().get()))
        return RelationStatistics(rows, rows)
    size = int(str(stats.sizeInBytes()))
    if size >= _UNKNOWN_BYTES:
        return None
    rows = max(size / (plan.schema().defaultSize() + _ROW_OVERHEAD_BYTES), 1.0)
    return RelationStatistics(rows, rows)
