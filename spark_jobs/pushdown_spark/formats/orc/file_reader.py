"""The reader of ORC files. It runs in Python workers, and on the driver over samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql.types import StructType

from pushdown_spark.errors import PushdownError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.formats.orc.coalesced_reads import CoalescedReader
from pushdown_spark.formats.orc.column_mapping import ReadOptions, match_columns
from pushdown_spark.formats.orc.file_tail import FileTail, ReadRange, read_tail
from pushdown_spark.formats.orc.lazy_reader import LazyStripeReader, OrcColumns, RowWidth
from pushdown_spark.formats.orc.metrics import OrcMetrics, ReadPurpose
from pushdown_spark.formats.orc.pruning import RowGroupPruner
from pushdown_spark.formats.orc.stripe import Stripe
from pushdown_spark.formats.orc.time_zones import UTC, Zone
from pushdown_spark.formats.scan_task import FileScanTask, spread
from pushdown_spark.sources.stores.listing import Split
from pushdown_spark.sources.stores.storage import REMEDY, Storage, name_storage_errors


@dataclass(frozen=True, kw_only=True)
class OrcQuery:
    """The columns and the filter of a scan, for all of its files. `positions` are those of the columns in the table.

    `filter` is the filter that all rows must pass, or None for all rows. `partial_reads` is the parameter of
    `plan_reads`, `min_seek` a number of bytes, `zone` the JVM's time zone, and `table` has all columns of the table.
    """

    schema: pa.Schema
    positions: tuple[int, ...]
    filter: ArrowFilter | None
    partial_reads: int | None
    min_seek: int
    name_rule: NameRule
    zone: Zone = UTC
    table: StructType | None = None

    def columns_of(self, tail: FileTail) -> OrcColumns:
        """Return the requested columns of one file."""
        options = ReadOptions(self.name_rule, self.zone)
        columns = match_columns(tail, list(self.schema), self.positions, options, table=self.table)
        return OrcColumns(tail, columns, self.filter, self.partial_reads, options)


@dataclass(frozen=True)
class StripeSample:
    """A sampled stripe: its row groups, those not pruned, those sampled, and those of them with a matching row.

    `rows` are the rows of the sampled row groups, `matching_rows` those that pass the filter.
    """

    groups: int
    alive_groups: int
    sampled_groups: int
    matching_groups: int
    rows: int
    matching_rows: int


class OrcFile:
    """An open file. Its errors name the file and, where possible, the stripe."""

    def __init__(
        self, path: str, metrics: OrcMetrics, reader: CoalescedReader, tail: FileTail, columns: OrcColumns
    ) -> None:
        self._path = path
        self._metrics = metrics
        self._reader = reader
        self.tail = tail
        self._columns = columns
        self._pruner = RowGroupPruner(tail, columns, reader.range_reader(ReadPurpose.METADATA))

    @classmethod
    def open(cls, path: str, query: OrcQuery, metrics: OrcMetrics, read: ReadRange, size: int) -> Self:
        """Read the tail of a file of `size` bytes, and find the columns of the query in it."""
        reader = CoalescedReader(read, size, query.min_seek)
        try:
            tail = read_tail(reader.range_reader(ReadPurpose.METADATA), size)
            columns = query.columns_of(tail)
        except PushdownError as problem:
            raise type(problem)(f"{path}: {problem}") from problem
        except (ValueError, OSError) as problem:
            raise UnreadableFileError(f"cannot read {path}: {problem}; {REMEDY}") from problem
        return cls(path, metrics, reader, tail, columns)

    @property
    def row(self) -> RowWidth:
        """The width of a row in the requested columns."""
        return self._columns.all.row

    @property
    def filter_row(self) -> RowWidth:
        """The width of a row in the filter's columns."""
        return self._columns.search.row

    def close(self) -> None:
        """Add the bytes and reads to the counts."""
        self._metrics.bytes += self._reader.bytes
        self._metrics.reads += self._reader.reads

    def stripes(self, start: int, end: int) -> list[int]:
        """Return the numbers of the stripes that begin in a byte range."""
        return [number for number, stripe in enumerate(self.tail.stripes) if start <= stripe.offset < end]

    def batches(self, stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of some stripes."""
        for number in stripes:
            with self._locate_errors(number):
                if not self._pruner.may_match(number, self._metrics):
                    continue
                yield from self._lazy_stripe(number, self._metrics).batches(self._pruner.row_groups)

    def samples(self, stripes: int, groups: int) -> Iterator[StripeSample]:
        """Evaluate the filter over some row groups of some stripes, spread over the file."""
        for number in spread(range(len(self.tail.stripes)), stripes):
            with self._locate_errors(number):
                sample_metrics = OrcMetrics()
                lazy = self._lazy_stripe(number, sample_metrics)
                may_match = self._pruner.may_match(number, sample_metrics)
                alive_groups = self._pruner.row_groups(lazy.stripe, sample_metrics) if may_match else []
                sampled_groups = spread(alive_groups, groups)
                counts = lazy.count_matches(sampled_groups)
                yield StripeSample(
                    lazy.stripe.group_count,
                    len(alive_groups),
                    len(sampled_groups),
                    sum(1 for _, matching in counts if matching),
                    sum(rows for rows, _ in counts),
                    sum(matching for _, matching in counts),
                )

    def _lazy_stripe(self, number: int, metrics: OrcMetrics) -> LazyStripeReader:
        stripe = Stripe.open(self.tail, number, self._reader.range_reader(ReadPurpose.INDEX))
        return LazyStripeReader(stripe, self._columns, self._reader, metrics)

    @contextmanager
    def _locate_errors(self, stripe: int) -> Iterator[None]:
        """Convert errors to errors that name the file and the stripe."""
        try:
            yield
        except UnsafeInputError as problem:
            raise UnsafeInputError(f"{self._path}, stripe {stripe}: {problem}") from problem
        except (ValueError, OSError, IndexError, KeyError) as problem:
            raise UnreadableFileError(
                f"cannot read {self._path}, stripe {stripe} at byte {self.tail.stripes[stripe].offset}: "
                f"{problem}; {REMEDY}"
            ) from problem


@dataclass(frozen=True)
class OrcScanTask(FileScanTask[OrcQuery, OrcMetrics]):
    """The tasks of an ORC scan."""

    def new_metrics(self) -> OrcMetrics:
        """Return counts of zero."""
        return OrcMetrics()

    def read(self, split: Split, metrics: OrcMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of a split."""
        with open_orc(split.path, split.storage, self.query, metrics) as file:
            yield from file.batches(file.stripes(split.start, split.end))


@contextmanager
def open_orc(path: str, storage: Storage, query: OrcQuery, metrics: OrcMetrics) -> Iterator[OrcFile]:
    """Open a file, and count the reads in `metrics`. Raises typed errors that name the file."""
    with name_storage_errors(path), storage.open(path, ahead=0) as raw:

        def read(offset: int, length: int) -> bytes:
            raw.seek(offset)
            return raw.read(length)

        file = OrcFile.open(path, query, metrics, read, raw.size)
        try:
            yield file
        finally:
            file.close()
