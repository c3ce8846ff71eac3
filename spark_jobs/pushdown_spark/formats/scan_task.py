"""The part of a scan that runs in Python workers."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import pyarrow as pa

from pushdown_spark.runtime.worker import freeze_imports, unexpected_errors_as_unsafe_input
from pushdown_spark.scan.packing import Task
from pushdown_spark.sources.stores.listing import Split

if TYPE_CHECKING:
    from pushdown_spark.contract import Skipped

Query = TypeVar("Query")
"""The part of a plan that the reader of a format needs."""


@dataclass
class FileMetrics(ABC):
    """The counts of one file in one task. Subclasses are dataclasses of numbers and counters."""

    def __add__(self, other: Self) -> Self:
        """Return the sum of two counts."""
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    @abstractmethod
    def bytes_read(self) -> int:
        """Number of stored bytes read."""

    @property
    @abstractmethod
    def rows_decoded(self) -> int:
        """Number of rows whose filter columns were decoded."""

    @property
    @abstractmethod
    def rows_returned(self) -> int:
        """Number of rows that were passed to Spark."""

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """The units of the format by kind and outcome. Text has none."""
        return {}

    def count_skipped(self, bytes_total: int) -> dict[Skipped, int]:
        """Return the skipped amounts by kind, except whole files. `bytes_total` are the bytes of all files."""
        # Imported here, because workers do not need it.
        from pushdown_spark.contract import Skipped

        # Footers and the bytes between two reads can be read more than once.
        return {Skipped.BYTES_NEVER_READ: max(bytes_total - self.bytes_read, 0)}

    @property
    def details(self) -> dict[str, object]:
        """Fields of the report that only this format has."""
        return {}


Metrics = TypeVar("Metrics", bound=FileMetrics)
Item = TypeVar("Item")


def spread(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Return all items, or `limit` of them that are evenly spread from the first to the last.

    >>> spread("abcdefgh", 3)
    ['a', 'e', 'h']
    """
    if len(items) <= limit:
        return items
    step = (len(items) - 1) / max(1, limit - 1)
    return [items[round(number * step)] for number in range(limit)]


def null_rows(fields: Sequence[pa.Field], rows: int) -> pa.RecordBatch:
    """Return rows of NULLs. Arrow keeps their number even without a field."""
    columns = [pa.nulls(rows, field.type) for field in fields]
    return pa.RecordBatch.from_struct_array(
        pa.StructArray.from_buffers(pa.struct(fields), rows, [None], children=columns)
    )


def sum_metrics(metrics: Iterable[Metrics]) -> Metrics:
    """Return the sum of one or more counts."""
    return reduce(operator.add, metrics)


AddCounts = Callable[[int, dict[str, Metrics]], None]
"""Called when a task has ended, with its number and its counts by file."""


@dataclass(frozen=True)
class ScanTask(ABC, Generic[Query, Metrics]):
    """The tasks of a scan. Spark calls it with the numbers of the tasks to run.

    A task stops after `cap` rows, unless `cap` is None.
    """

    tasks: tuple[Task, ...]
    query: Query
    add_counts: AddCounts[Metrics]
    cap: int | None = None

    @abstractmethod
    def run(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task, and report its counts."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tasks whose numbers are in the first column."""
        # Spark runs as many tasks as there are cores, so threads in a task do not help.
        pa.set_cpu_count(1)
        freeze_imports()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with unexpected_errors_as_unsafe_input():
                    yield from self.run(number)


@dataclass(frozen=True)
class FileScanTask(ScanTask[Query, Metrics]):
    """The tasks of a columnar scan. Each split yields the rows that pass the filter."""

    @abstractmethod
    def new_metrics(self) -> Metrics:
        """Return counts of zero."""

    @abstractmethod
    def read(self, split: Split, metrics: Metrics) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of a split, and add to its counts."""

    def run(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of one task."""
        metrics: dict[str, Metrics] = {}
        rows_left = self.cap
        for split in self.tasks[number].splits:
            for batch in self.read(split, metrics.setdefault(split.path, self.new_metrics())):
                if rows_left is not None:
                    batch = batch.slice(0, rows_left)
                    rows_left -= batch.num_rows
                yield batch
                if rows_left == 0:
                    break
            if rows_left == 0:
                break
        self.add_counts(number, metrics)
