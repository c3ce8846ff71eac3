"""Data sources that Spark loads by name, such as `spark.read.format("pushdown_avro")`, over the columnar readers.

Spark does not pass the columns that a query needs, its LIMIT or most predicates to such a source. So the columns are
those of the given schema, and the predicate is an option. PushdownSession passes all of them.

With the option `push_filters=true`, the conjuncts of `.where(...)` reach the source, too. It is off by default because
of a bug in Spark 4.3: Spark keeps the filters of one query with the loaded DataFrame. Another query over the same
DataFrame that has no filter to push then runs with the filters of the first, so rows are missing. With the option, load
a new DataFrame for each query.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, all_of
from pushdown_spark.formats.columnar import unknown_type
from pushdown_spark.formats.data_source_base import (
    TaskPartition,
    boolean_option,
    check_options,
    exact_filter,
    split_filters,
)
from pushdown_spark.relations.listing import InputFile, Packing, Task, pack

Metrics = TypeVar("Metrics")

ScanCall = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Reads the tasks whose numbers are in the first column of some batches."""

_PACKING = Packing(128 << 20, 4 << 20, 2)


class ColumnarSource(DataSource):
    """A data source over local files. Subclasses define the format's name, its options and its two readers.

    `readers` are the classes without and with `push_filters`, because Spark checks whether the class has `pushFilters`.
    """

    format_name: str
    known_options: tuple[str, ...]
    readers: tuple[type[ColumnarSourceReader], type[ColumnarSourceReader]]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.format_name

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Return a reader of all columns of a schema. Raises BadSpecError for invalid options."""
        check_options(self.format_name, self.options, self.known_options)
        return self.readers[boolean_option(self.options, "push_filters")](schema, self.options)


class ColumnarSourceReader(DataSourceReader):
    """A reader of one scan's files. Raises BadSpecError for invalid options and for types that only Spark reads."""

    def __init__(self, schema: t.StructType, options: Mapping[str, str]) -> None:
        for field in schema.fields:
            if unknown := unknown_type(field.dataType):
                raise BadSpecError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        self._schema = schema
        self._files = self._list_files(options)
        self._case_sensitive = boolean_option(options, "case_sensitive")
        where = options.get("where")
        self._filters = [] if where is None else [exact_filter(where, schema, case_sensitive=self._case_sensitive)]

    @abstractmethod
    def _list_files(self, options: Mapping[str, str]) -> tuple[InputFile, ...]:
        """Return the files to read."""

    @abstractmethod
    def _scan_task(self, tasks: tuple[Task, ...], combined: ArrowFilter | None) -> ScanCall:
        """Return a function that reads the tasks."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task."""
        return [TaskPartition(number) for number in range(len(self._tasks()))]

    def _tasks(self) -> tuple[Task, ...]:
        return pack(self._files, _PACKING)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, TaskPartition)
        scan = self._scan_task(self._tasks(), all_of(self._filters) if self._filters else None)
        yield from scan(iter([pa.RecordBatch.from_pydict({"task": [partition.number]})]))


class FilterableReader(ColumnarSourceReader):
    """A reader that receives the conjuncts of one query through `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- the name is Spark's
        """Take the filters that can be evaluated over columns. Return those that Spark must evaluate or re-evaluate."""
        supported, residual = split_filters(filters, self._schema)
        self._filters += supported
        return residual


def no_report(number: int, metrics: dict[str, Metrics]) -> None:
    """Drop the counts of a task: Spark cannot collect those of a data source."""
