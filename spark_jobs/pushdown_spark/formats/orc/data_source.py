"""`spark.read.format("pushdown_orc")`: the lazy ORC reader as a data source. See `formats.columnar_source`."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.errors import BadSpecError, MissingPathError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.formats.columnar_source import (
    ColumnarSource,
    ColumnarSourceReader,
    FilterableReader,
    ScanCall,
    no_report,
)
from pushdown_spark.formats.data_source_base import list_local_files
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask, open_orc
from pushdown_spark.formats.orc.file_tail import spark_schema
from pushdown_spark.formats.orc.metrics import OrcMetrics
from pushdown_spark.formats.orc.planner import arrow_schema, has_times
from pushdown_spark.formats.orc.time_zones import UTC_ZONES
from pushdown_spark.relations.listing import InputFile, Task
from pushdown_spark.relations.storage import LOCAL

FORMAT = "pushdown_orc"
_MIN_SEEK_SIZE = 16 << 10


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(PushdownOrcSource)


class PushdownOrcReader(ColumnarSourceReader):
    """Reads the files of one scan."""

    def __init__(self, schema: t.StructType, options: Mapping[str, str]) -> None:
        super().__init__(schema, options)
        _check_zone(schema)
        self._partial_reads = _integer(options, "partial_reads")
        self._min_seek = _integer(options, "min_seek_size") or _MIN_SEEK_SIZE

    def _list_files(self, options: Mapping[str, str]) -> tuple[InputFile, ...]:
        return list_local_files(FORMAT, options)

    def _scan_task(self, tasks: tuple[Task, ...], combined: ArrowFilter | None) -> ScanCall:
        query = OrcQuery(
            arrow_schema(self._schema.fields),
            tuple(range(len(self._schema.fields))),
            combined,
            self._partial_reads,
            self._min_seek,
            self._case_sensitive,
        )
        return OrcScanTask(tasks, query, no_report)


class FilterablePushdownOrcReader(PushdownOrcReader, FilterableReader):
    """Reads the files of one query, with its pushed filters."""


class PushdownOrcSource(ColumnarSource):
    """Local ORC files, read lazily.

    Options: `path` (a file, a directory or a glob); `where`, a predicate that all rows pass; `partial_reads` and
    `min_seek_size` as in `OrcOptions`; `push_filters` (true or false), which needs
    `spark.sql.python.filterPushdown.enabled`, too; `case_sensitive` (true or false), because Spark does not pass its
    setting of that name to such a source. Give a schema with the columns that are needed: other columns are not read.
    """

    format_name = FORMAT
    known_options = ("path", "where", "partial_reads", "min_seek_size", "push_filters", "case_sensitive")
    readers = (PushdownOrcReader, FilterablePushdownOrcReader)

    def schema(self) -> t.StructType:
        """Return the schema of the first file that has rows, as Spark infers it."""
        files = list_local_files(FORMAT, self.options)
        query = OrcQuery(pa.schema([]), (), None, None, 0, False)
        for file in files:
            with open_orc(file.path, LOCAL, query, OrcMetrics()) as source:
                schema = spark_schema(source.tail.types)
                if source.tail.footer.number_of_rows or file is files[-1]:
                    return schema
        raise MissingPathError(f"path {self.options.get('path')!r} has no ORC files to take a schema from")


def _check_zone(schema: t.StructType) -> None:
    """Raise UnsafeInputError for timestamps in a worker whose time zone is not UTC."""
    if any(has_times(field.dataType) for field in schema.fields) and time.tzname[0] not in UTC_ZONES:
        raise UnsafeInputError(
            f"timestamps are read lazily only in UTC, here it is {time.tzname[0]}; use format('orc')"
        )


def _integer(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name, "auto")
    if value == "auto":
        return None
    if not value.isdecimal():
        raise BadSpecError(f"option {name}: {value!r} is neither 'auto' nor a number")
    return int(value)
