"""The reader of Parquet files. It runs in Python workers, and on the driver over samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from pushdown_spark.errors import PushdownError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, filter_fields
from pushdown_spark.expressions.bound import Column
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.formats.parquet.datafusion_address import FileAddress
from pushdown_spark.formats.parquet.file_columns import FileColumns, has_sound_statistics, match_schema
from pushdown_spark.formats.parquet.file_parts import part_of
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.formats.scan_task import FileScanTask, null_rows
from pushdown_spark.sources.stores.listing import Split
from pushdown_spark.sources.stores.storage import REMEDY, RangeFile, Storage, name_storage_errors

_FOOTER_END = 8
"""Bytes of a file after its footer: the footer's length and a magic string."""
_TAIL_BYTES = 1 << 16
"""Bytes that are read first. They contain most footers."""
_MAX_MESSAGE = 300
_BATCH_ROWS = 1 << 16
"""Rows of a batch without stored columns."""
_DENIED_SIGNS = ("lacked the necessary privileges", "lacked valid authentication credentials")
"""Parts of DataFusion's messages that a store denies access. The driver had access, so it has ended."""


@dataclass(frozen=True)
class ParquetQuery:
    """The columns and the filter of a scan, for all of its files.

    `filter` is the filter that all rows must pass, or None for all rows. The others are parameters of `match_schema`.
    """

    schema: pa.Schema
    filter: ArrowFilter | None
    has_corrected_dates: bool
    has_corrected_int96: bool
    name_rule: NameRule

    @property
    def filtered_structs(self) -> frozenset[str]:
        """Structs whose members the filter reads."""
        return frozenset(path[0] for path in self.filter.columns if len(path) > 1) if self.filter else frozenset()


class OpenParquet:
    """An open file whose footer is read and checked."""

    def __init__(
        self, path: str, storage: Storage, raw: RangeFile, query: ParquetQuery, footer: pq.FileMetaData
    ) -> None:
        self.path = path
        self._storage = storage
        self._query = query
        self.size = raw.size
        self._raw = raw
        self.footer = footer
        self.columns: FileColumns = self._match(query.schema)

    def row_groups(self, start: int, end: int) -> list[int]:
        """Return the numbers of the row groups that begin in a byte range."""
        groups = range(self.footer.num_row_groups)
        columns = ((number, self.footer.row_group(number).column(0)) for number in groups)
        return [n for n, column in columns if start <= (column.dictionary_page_offset or column.data_page_offset) < end]

    def batches(self, start: int, end: int, metrics: ParquetMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of the row groups that begin in a byte range."""
        groups = self.row_groups(start, end)
        metrics.bytes_read += self.footer.serialized_size + _FOOTER_END
        if not groups:
            return
        names = {name: file_name for name, file_name in self.columns.names.items() if file_name is not None}
        if not names:
            yield from self._without_columns(sum(self.footer.row_group(number).num_rows for number in groups), metrics)
            return
        # Imported here, because the driver does not need it.
        from pushdown_spark.formats.parquet.datafusion_filter import datafusion_filter
        from pushdown_spark.formats.parquet.datafusion_scan import DataFusionScan

        row_filter = (
            None if self._query.filter is None else datafusion_filter(self._query.filter.root, self._filter_name)
        )
        scan = DataFusionScan(
            FileAddress.of(self.path, self._storage),
            self._stored_schema(names),
            [file_name for name, file_name in names.items() if name in self._query.filtered_structs],
            row_filter,
            part_of(start, end, self.size),
            may_prune=has_sound_statistics(self.footer.created_by),
        )
        rows = 0
        try:
            for batch in scan.batches():
                rows += batch.num_rows
                yield from self._filter_batch(self._table_columns(batch), metrics)
        finally:
            metrics.bytes_read += scan.count("bytes_scanned")
            # Without a filter, DataFusion does not count rows.
            metrics.rows_decoded += scan.count("pushdown_rows_pruned") + max(scan.count("output_rows"), rows)
            metrics.count_pruning(scan.printed_metrics(), len(groups))

    @cached_property
    def _filter_schema(self) -> pa.Schema:
        return pa.schema(filter_fields(self._query.filter, self._query.schema))

    @cached_property
    def filter_columns(self) -> FileColumns:
        """The columns of the file that the filter reads."""
        return self._match(self._filter_schema)

    def sample(self, group: int, rows: int) -> pa.RecordBatch:
        """Return the filter's columns of the first rows of a row group."""
        schema, names = self._filter_schema, self.filter_columns.names
        paths = [self.footer.schema.column(leaf).path for leaf in self.filter_columns.leaf_indexes]
        count = min(rows, self.footer.row_group(group).num_rows)
        parquet = pq.ParquetFile(pa.PythonFile(self._raw, "r"), metadata=self.footer)
        batches = parquet.iter_batches(count, [group], paths, use_threads=False)
        batch = next(iter(batches)) if paths else pa.RecordBatch.from_pydict({})
        arrays = [
            pa.nulls(count, field.type) if names[field.name] is None else _cast(batch.column(names[field.name]), field)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _match(self, schema: pa.Schema) -> FileColumns:
        query = self._query
        return match_schema(
            self.footer,
            schema,
            has_corrected_dates=query.has_corrected_dates,
            has_corrected_int96=query.has_corrected_int96,
            name_rule=query.name_rule,
        )

    def _filter_name(self, column: Column) -> str | None:
        name = column.path[0]
        return None if name in self.columns.in_milliseconds else self.columns.names[name]

    def _stored_schema(self, names: dict[str, str]) -> pa.Schema:
        """Return the columns of the file with its names, and the types that DataFusion gives them."""
        fields = []
        for name, file_name in names.items():
            kind = self._query.schema.field(name).type
            if name in self.columns.in_milliseconds:
                kind = pa.timestamp("ms", kind.tz)
            fields.append(pa.field(file_name, kind))
        return pa.schema(fields)

    def _table_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the table, with NULL where the file lacks a column."""
        columns = iter(batch.columns)
        arrays = [
            pa.nulls(batch.num_rows, field.type)
            if self.columns.names[field.name] is None
            else _cast(next(columns), field)
            for field in self._query.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._query.schema)

    def _filter_batch(self, batch: pa.RecordBatch, metrics: ParquetMetrics) -> Iterator[pa.RecordBatch]:
        if self._query.filter is not None:
            mask = self._query.filter.keep(batch)
            batch = batch.filter(mask) if batch.num_columns else batch.slice(0, mask.true_count)
        metrics.rows_returned += batch.num_rows
        if batch.num_rows:
            yield batch

    def _without_columns(self, rows: int, metrics: ParquetMetrics) -> Iterator[pa.RecordBatch]:
        """Yield rows of a file that has none of the requested columns."""
        for start in range(0, rows, _BATCH_ROWS):
            batch = null_rows(list(self._query.schema), min(_BATCH_ROWS, rows - start))
            yield from self._filter_batch(batch, metrics)


def _read_footer(raw: RangeFile) -> pq.FileMetaData:
    """Read the footer.

    Raises UnsafeInputError for encrypted files, whose columns make pyarrow end the process, and for a wrong number of
    rows: DataFusion skips files that claim to have none.
    """
    tail = _read_tail(raw, _TAIL_BYTES)
    length = int.from_bytes(tail[-_FOOTER_END:-4], "little")
    if length + _FOOTER_END > len(tail):
        tail = _read_tail(raw, length + _FOOTER_END)
    if tail.endswith(b"PARE"):
        raise UnsafeInputError("the footer is encrypted")
    footer = pq.read_metadata(pa.BufferReader(tail))
    if footer.serialized_size != length:
        raise UnsafeInputError("the footer has a signature, so columns may be encrypted")
    rows = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if footer.num_rows != rows:
        raise UnsafeInputError(f"the footer counts {footer.num_rows:,} rows, but its row groups have {rows:,}")
    return footer


def _read_tail(raw: RangeFile, length: int) -> bytes:
    raw.seek(max(raw.size - length, 0))
    return raw.read(length) or b""


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    return array if array.type == field.type else array.cast(field.type)


@contextmanager
def _locate_errors(path: str) -> Iterator[None]:
    """Convert errors to errors that name the file. A panic of DataFusion is a BaseException."""
    try:
        yield
    except UnsafeInputError as problem:
        raise UnsafeInputError(f"{path}: {problem}") from problem
    except (PushdownError, FileNotFoundError, PermissionError):
        raise
    except BaseException as problem:
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        line = " ".join(str(problem).split())[:_MAX_MESSAGE]
        if any(sign in line for sign in _DENIED_SIGNS):
            raise PermissionError(f"access denied, the credentials may have expired: {line}") from problem
        raise UnreadableFileError(f"cannot read {path}: {line}; {REMEDY}") from problem


@dataclass(frozen=True)
class ParquetScanTask(FileScanTask[ParquetQuery, ParquetMetrics]):
    """The tasks of a Parquet scan."""

    def new_metrics(self) -> ParquetMetrics:
        """Return counts of zero."""
        return ParquetMetrics()

    def read(self, split: Split, metrics: ParquetMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of a split."""
        with open_parquet(split.path, split.storage, self.query) as file:
            yield from file.batches(split.start, split.end, metrics)


@contextmanager
def open_parquet(path: str, storage: Storage, query: ParquetQuery) -> Iterator[OpenParquet]:
    """Open a file. Raises typed errors that name the file."""
    with name_storage_errors(path), storage.open(path, ahead=0) as raw, _locate_errors(path):
        yield OpenParquet(path, storage, raw, query, _read_footer(raw))
