"""Data sources that Spark loads by name, such as `spark.read.format("pushdown_avro")`, over the columnar readers.

Spark does not pass the columns that a query needs, its LIMIT or most predicates to such a source. So the source reads
the columns of the given schema, and the predicate is an option. PushdownSession passes all of them.

The conjuncts of `.where(...)` do not reach these sources, because of a bug in Spark 4.3: Spark keeps the filters of one
query with the loaded DataFrame. Another query over the same DataFrame that has no filter to push then runs with the
filters of the first, so rows are missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pushdown_spark.errors import BadSpecError, MissingPathError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.formats.data_source_options import (
    TaskPartition,
    boolean_option,
    check_options,
    exact_filter,
    list_local_files,
)
from pushdown_spark.formats.readable_types import unknown_type
from pushdown_spark.scan.packing import Packing, Task, pack
from pushdown_spark.sources.stores.listing import InputFile, files_with_content

_SPLIT_SETTINGS = Packing(128 << 20, 4 << 20, 2)
ReadTasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that yields the rows of the tasks whose numbers are in its argument."""


class ColumnarSource(DataSource):
    """A data source over local files. Subclasses define the format's name, its options, and how its files are read."""

    format_name: ClassVar[str]
    known_options: ClassVar[tuple[str, ...]]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.format_name

    @property
    def name_rule(self) -> NameRule:
        """How names are compared."""
        return NameRule(boolean_option(self.options, "case_sensitive"))

    def files(self) -> tuple[InputFile, ...]:
        """Return the files to read."""
        return list_local_files(self.format_name, self.options)

    def files_with_schema(self) -> list[InputFile]:
        """Return the files that are not empty. Raises MissingPathError if there is none."""
        files = files_with_content(self.files())
        if not files:
            raise MissingPathError(f"path {self.options['path']!r} has only empty files; declare the schema")
        return files

    def check_schema(self, schema: t.StructType) -> None:
        """Raise BadSpecError for invalid options and for types that only Spark reads."""
        check_options(self.format_name, self.options, self.known_options)
        for field in schema.fields:
            if unknown := unknown_type(field.dataType):
                raise BadSpecError(
                    f"column {field.name} has type {unknown.simpleString()}, which only Spark reads; leave it out"
                )

    @abstractmethod
    def scan_task(self, schema: t.StructType, tasks: tuple[Task, ...], row_filter: ArrowFilter | None) -> ReadTasks:
        """Return a function that reads the columns of a schema. It runs in Python workers."""

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Return a reader of all columns of a schema. Raises BadSpecError for invalid options."""
        self.check_schema(schema)
        tasks = pack(self.files(), _SPLIT_SETTINGS)
        where = self.options.get("where")
        row_filter = None if where is None else exact_filter(where, schema, name_rule=self.name_rule)
        return _Reader(self.scan_task(schema, tasks, row_filter), len(tasks))


class _Reader(DataSourceReader):
    """A reader of one scan's files."""

    def __init__(self, scan: ReadTasks, tasks: int) -> None:
        self._scan = scan
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task."""
        return [TaskPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, TaskPartition)
        yield from self._scan(iter([pa.RecordBatch.from_pydict({"task": [partition.number]})]))


def drop_counts(number: int, metrics: object) -> None:
    """Drop the counts of a task, because Spark cannot collect those of a data source."""
