"""`spark.read.format("pushdown_orc")`: the lazy ORC reader as a data source of Spark's.

Spark tells such a source neither the columns that a query needs nor its LIMIT nor most predicates, so the columns are
those of the schema that is given, and the predicate is an option. PushdownSession knows all of them by itself.

Conjuncts of an ordinary `.where(...)` reach the source with the option `push_filters=true`, which is off because of
Spark 4.3: it keeps the filters of one query with the frame that was loaded, and another query over the same frame that
has no filter to push is answered with those of the first, so that rows are missing. With the option on, load a frame
anew for each query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from pushdown_spark.errors import BadSpecError, MissingPathError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import all_of
from pushdown_spark.readers.columnar import unknown_type
from pushdown_spark.readers.data_source import (
    TaskPartition,
    exact_filter,
    flag,
    known_options,
    local_listing,
    take_filters,
)
from pushdown_spark.readers.files import Packing, Task, pack
from pushdown_spark.readers.orc.counts import OrcCount
from pushdown_spark.readers.orc.plan import has_times, wanted_schema
from pushdown_spark.readers.orc.scan import OrcQuery, OrcScan, opened
from pushdown_spark.readers.orc.types import spark_schema
from pushdown_spark.readers.orc.zones import UTC_ZONES
from pushdown_spark.readers.storage import LOCAL

FORMAT = "pushdown_orc"
_OPTIONS = ("path", "where", "partial_reads", "min_seek_size", "push_filters", "case_sensitive")


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(PushdownOrcSource)


class PushdownOrcSource(DataSource):
    """Local ORC files, read lazily.

    Options: `path` (a file, a directory or a glob); `where`, a predicate that all rows pass; `partial_reads` and
    `min_seek_size` as in `OrcOptions`; `push_filters` (true or false), for which
    `spark.sql.python.filterPushdown.enabled` must be on as well; `case_sensitive` (true or false), since Spark does not
    tell such a source its setting of that name. Give a schema with the columns that are needed: others are not read.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> t.StructType:
        """The schema of the first file that has rows, as Spark would infer it."""
        files = local_listing(FORMAT, self.options)
        query = OrcQuery(pa.schema([]), (), None, None, 0, False)
        for file in files:
            with opened(file.path, LOCAL, query, OrcCount()) as source:
                found = spark_schema(source.tail.types)
                if source.tail.footer.number_of_rows or file is files[-1]:
                    return found
        raise MissingPathError(f"path {self.options.get('path')!r} has no ORC files to take a schema from")

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """A reader of all columns of a schema. Raises BadSpecError for options that are not possible."""
        known_options(FORMAT, self.options, _OPTIONS)
        pushes = flag(self.options, "push_filters")
        return (FilterablePushdownOrcReader if pushes else PushdownOrcReader)(schema, self.options)


class PushdownOrcReader(DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, schema: t.StructType, options: Mapping[str, str]) -> None:
        for field in schema.fields:
            if unknown := unknown_type(field.dataType):
                raise BadSpecError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        _check_zone(schema)
        self._schema = schema
        self._files = local_listing(FORMAT, options)
        self._partial_reads = _number(options, "partial_reads")
        self._min_seek = _number(options, "min_seek_size") or 16 << 10
        self._case_sensitive = flag(options, "case_sensitive")
        where = options.get("where")
        self._filters = [] if where is None else [exact_filter(where, schema, case_sensitive=self._case_sensitive)]

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [TaskPartition(number) for number in range(len(self._tasks()))]

    def _tasks(self) -> tuple[Task, ...]:
        return pack(self._files, Packing(128 << 20, 4 << 20, 2))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, TaskPartition)
        query = OrcQuery(
            wanted_schema(self._schema.fields),
            tuple(range(len(self._schema.fields))),
            all_of(self._filters) if self._filters else None,
            self._partial_reads,
            self._min_seek,
            self._case_sensitive,
        )
        scan = OrcScan(self._tasks(), query, _unreported)
        yield from scan(iter([pa.RecordBatch.from_pydict({"task": [partition.number]})]))


class FilterablePushdownOrcReader(PushdownOrcReader):
    """Reads the files of one query, whose conjuncts come through `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- the name is Spark's
        """Take what can be evaluated over columns; give back what Spark must evaluate (again)."""
        taken, left = take_filters(filters, self._schema)
        self._filters += taken
        return left


def _unreported(number: int, counts: dict[str, OrcCount]) -> None:
    """Spark has no place for the figures of such a source's tasks."""


def _check_zone(schema: t.StructType) -> None:
    """Raises UnsafeInputError for timestamps in a worker whose time zone is not UTC."""
    if any(has_times(field.dataType) for field in schema.fields) and time.tzname[0] not in UTC_ZONES:
        raise UnsafeInputError(
            f"timestamps are read lazily only in UTC, here it is {time.tzname[0]}; use format('orc')"
        )


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "auto")
    if text == "auto":
        return None
    if not text.isdecimal():
        raise BadSpecError(f"option {name}: {text!r} is neither 'auto' nor a number")
    return int(text)
