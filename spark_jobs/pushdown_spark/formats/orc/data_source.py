"""`spark.read.format("pushdown_orc")`: ORC files by the lazy reader. See `formats.columnar_data_source`."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import OrcOptions
from pushdown_spark.errors import BadSpecError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.formats.columnar_data_source import ColumnarSource, drop_counts
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.file_schema import read_schema
from pushdown_spark.formats.orc.planner import orc_arrow_schema
from pushdown_spark.formats.orc.time_zones import UTC_ZONES
from pushdown_spark.projection.nested_types import has_timestamp
from pushdown_spark.scan.packing import Task

_NUMBERS = ("partial_reads", "min_seek_size")


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(PushdownOrcSource)


class PushdownOrcSource(ColumnarSource):
    """Local ORC files, read lazily.

    Options:

    - `path`: a file, a directory or a glob.
    - `where`: a predicate that all rows pass.
    - `partial_reads`, `min_seek_size`: as in `OrcOptions`.
    - `case_sensitive`: true or false. Spark does not pass its setting of that name to such a source.

    Only the columns of the given schema are read.
    """

    format_name = "pushdown_orc"
    known_options = ("path", "where", "partial_reads", "min_seek_size", "case_sensitive")

    def check_schema(self, schema: t.StructType) -> None:
        """Raise BadSpecError for invalid options, and UnsafeInputError for timestamps outside of UTC."""
        super().check_schema(schema)
        self._orc_options()
        # A zone with summer time, such as Europe/London, may be called GMT in winter.
        is_utc = time.tzname[0] in UTC_ZONES and not time.daylight
        if not is_utc and any(has_timestamp(field.dataType) for field in schema.fields):
            raise UnsafeInputError(
                f"timestamps are read lazily only in UTC, here it is {'/'.join(time.tzname)}; use format('orc')"
            )

    def scan_task(self, schema: t.StructType, tasks: tuple[Task, ...], row_filter: ArrowFilter | None) -> OrcScanTask:
        """Return a function that reads the columns of a schema."""
        orc = self._orc_options()
        query = OrcQuery(
            schema=orc_arrow_schema(schema.fields),
            positions=tuple(range(len(schema.fields))),
            filter=row_filter,
            partial_reads=orc.partial_reads,
            min_seek=orc.min_seek_size,
            name_rule=self.name_rule,
        )
        return OrcScanTask(tasks, query, drop_counts)

    def schema(self) -> t.StructType:
        """Return the schema of the first file that has rows, or else of the last file, as Spark infers it."""
        for file in self.files_with_schema():
            schema, rows = read_schema(file.path, file.storage)
            if rows:
                break
        return schema

    def _orc_options(self) -> OrcOptions:
        numbers = {name: value for name in _NUMBERS if (value := self.options.get(name, "auto")) != "auto"}
        for name, value in numbers.items():
            if not value.isdecimal():
                raise BadSpecError(f"option {name}: {value!r} is neither 'auto' nor a number")
        return OrcOptions.model_validate({name: int(value) for name, value in numbers.items()})
