"""Sampling of source files: row counts and bounds from footers, and rows from positions across all files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self, TypeVar

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.json as pc_json
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructType

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.session_settings import is_option_on
from pushdown_spark.formats.scan_task import spread
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.optimizer.statistics.distinct_values import estimate_distinct
from pushdown_spark.sources.declaration import CsvSigns
from pushdown_spark.sources.stores.listing import Compression, InputFile, spread_splits
from pushdown_spark.sources.stores.storage import RangeFile

F = TypeVar("F")

MAX_WHOLE_ROWS = 200_000
"""Columnar sources with at most this number of rows are read completely."""
_POSITIONS = 6
_ROWS_PER_POSITION = 6_000
_MAX_FOOTERS = 32
"""Footers to read at most. The files without a read footer are assumed to be similar."""
_MAX_CHUNK_STATISTICS = 20_000
"""Column chunk statistics to read per file at most, because reading more takes too long."""
_TEXT_POSITIONS = 6
_TEXT_BLOCK_BYTES = 256 << 10
_DEFAULT_ROW_BYTES = 60.0

_ColumnTypes = tuple[tuple[str, DataType], ...]

Bounds = Mapping[str, tuple[int, int]]
"""The least and the greatest value of integer columns, by lower-case name."""


@dataclass(frozen=True)
class SourceSample:
    """Sampled rows of a source, and its estimated number of rows.

    Each of the `groups` holds rows from one position of the files. `is_exact` means that `rows` was counted.
    `respelled` are columns that some files spell in another case, which are not sampled there.
    """

    rows: float
    groups: tuple[pa.Table, ...]
    is_exact: bool = False
    bounds: Bounds = field(default_factory=dict)
    respelled: frozenset[str] = frozenset()
    _distinct: dict[str, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _batches: dict[_ColumnTypes, pa.RecordBatch | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def table(self) -> pa.Table:
        """All sampled rows. A missing column is null. Raises ArrowException if the types of a column differ."""
        return pa.concat_tables(self.groups, promote_options="default") if self.groups else pa.table({})

    def batch(self, schema: StructType) -> pa.RecordBatch | None:
        """Return the sampled rows with a schema's types, or None without rows or if the types do not fit."""
        names = self.table.column_names
        types = tuple((column.name, column.dataType) for column in schema.fields if column.name in names)
        if types not in self._batches:
            self._batches[types] = self._cast(types) if self.sampled_rows else None
        return self._batches[types]

    def _cast(self, types: _ColumnTypes) -> pa.RecordBatch | None:
        try:
            arrow_types = {name: utc_arrow_type(data_type) for name, data_type in types}
            columns = {
                name: self.table.column(name).cast(arrow_types[name]).combine_chunks()
                for name in self.table.column_names
            }
            return pa.RecordBatch.from_pydict(columns)
        except (pa.ArrowException, KeyError, PySparkException):
            return None

    @property
    def sampled_rows(self) -> int:
        """The number of sampled rows."""
        return sum(group.num_rows for group in self.groups)

    def distinct(self, name: str) -> tuple[float, float]:
        """Return the estimated number of distinct values of a column, at least one, and its fraction of nulls."""
        if name not in self._distinct:
            groups = [group.column(name) for group in self.groups if name in group.column_names]
            count, null_fraction = estimate_distinct(groups, self.rows)
            if name.lower() in self.bounds:
                low, high = self.bounds[name.lower()]
                count = min(count, high - low + 1.0)
            self._distinct[name] = max(count, 1.0), null_fraction
        return self._distinct[name]

    @property
    def is_whole(self) -> bool:
        """Whether the sample has every row of the source."""
        return self.is_exact and self.sampled_rows >= self.rows

    def is_unique(self, name: str) -> bool:
        """Return whether no two rows of the whole source have the same value of a column, apart from nulls."""
        if not self.is_whole:
            return False
        count, null_fraction = self.distinct(name)
        return round(count) >= round(self.rows * (1.0 - null_fraction))


def sample_files(
    files: Sequence[InputFile],
    source_format: SourceFormat,
    schema: StructType,
    options: Mapping[str, str],
    columns: Sequence[str],
) -> SourceSample:
    """Sample these columns of files. Files that cannot be read are estimated by their size alone."""
    files = [file for file in files if file.size]
    names = [column.name for column in schema.fields if column.name in set(columns)]
    sampled_files = spread(files, _MAX_FOOTERS)
    estimate = SourceSample(sum(file.size for file in files) / _DEFAULT_ROW_BYTES, ())
    if not files:
        return estimate
    try:
        match source_format:
            case SourceFormat.PARQUET:
                with _open_files(sampled_files, _ParquetFile.open) as parquet_files:
                    sample = _sample_columnar(parquet_files, files, names)
            case SourceFormat.ORC:
                with _open_files(sampled_files, _OrcFile.open) as orc_files:
                    sample = _sample_columnar(orc_files, files, names)
            case SourceFormat.CSV:
                parse_csv = partial(_csv, schema=schema, columns=names, options=options)
                sample = _sample_text(files, parse_csv, has_header=is_option_on(options, "header"))
            case SourceFormat.JSON:
                sample = _sample_text(files, partial(_json, schema=schema, columns=names))
            case _:
                return estimate
        return _with_consistent_types(sample)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return estimate


def _with_consistent_types(sample: SourceSample) -> SourceSample:
    """Return the sample, without rows if the types of a column differ between files."""
    try:
        is_consistent = sample.table.num_rows == sample.sampled_rows
    except pa.ArrowException:
        is_consistent = False
    return sample if is_consistent else replace(sample, groups=())


class _ParquetFile:
    """A Parquet file as a sequence of row groups."""

    def __init__(self, size: int, file: pq.ParquetFile) -> None:
        self._file = file
        self.bytes = size
        self.names = frozenset(self._file.schema_arrow.names)
        self.rows = self._file.metadata.num_rows
        self.units = self._file.metadata.num_row_groups

    @classmethod
    def open(cls, content: RangeFile) -> Self:
        """Read the footer of a file."""
        return cls(content.size, pq.ParquetFile(content))

    def read(self, unit: int, columns: Sequence[str], rows: int) -> pa.Table:
        """Return the first rows of a row group."""
        batches = self._file.iter_batches(rows, row_groups=[unit], columns=list(columns), use_threads=False)
        first = next(batches, None)
        return pa.table({}) if first is None else pa.Table.from_batches([first])

    def bounds(self, columns: Sequence[str]) -> Bounds:
        """Return the bounds of the columns that have statistics in all row groups of the footer."""
        positions = {name: position for position, name in enumerate(self._file.metadata.schema.names)}
        positions_to_read = {name.lower(): positions[name] for name in columns if name in positions}
        bounds: dict[str, tuple[int, int]] = {}
        if self.units * len(positions_to_read) > _MAX_CHUNK_STATISTICS:
            return bounds
        row_groups = [self._file.metadata.row_group(unit) for unit in range(self.units)]
        for name, position in positions_to_read.items():
            chunks = [_chunk_bounds(group.column(position)) for group in row_groups if group.num_rows]
            present = [pair for pair in chunks if pair is not None]
            if present and len(present) == len(chunks):
                bounds[name] = min(low for low, _ in present), max(high for _, high in present)
        return bounds


def _chunk_bounds(chunk: pq.ColumnChunkMetaData) -> tuple[int, int] | None:
    """Return the least and the greatest integer of a column chunk, or None without such statistics."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
        return None
    return statistics.min, statistics.max


class _OrcFile:
    """An ORC file as a sequence of stripes. Its statistics are not used."""

    def __init__(self, size: int, file: orc.ORCFile) -> None:
        self._file = file
        self.bytes = size
        self.names = frozenset(self._file.schema.names)
        self.rows = self._file.nrows
        self.units = self._file.nstripes

    @classmethod
    def open(cls, content: RangeFile) -> Self:
        """Read the footer of a file."""
        return cls(content.size, orc.ORCFile(pa.PythonFile(content, mode="r")))

    def read(self, unit: int, columns: Sequence[str], rows: int) -> pa.Table:
        """Return the first rows of a stripe."""
        return pa.Table.from_batches([self._file.read_stripe(unit, columns=list(columns))]).slice(0, rows)

    def bounds(self, _columns: Sequence[str]) -> Bounds:
        """Return no bounds."""
        return {}


@contextmanager
def _open_files(files: Sequence[InputFile], read: Callable[[RangeFile], F]) -> Iterator[list[F]]:
    with ExitStack() as stack:
        yield [read(stack.enter_context(closing(file.storage.open(file.path)))) for file in files]


def _sample_columnar(
    sampled_files: Sequence[_ParquetFile | _OrcFile], files: Sequence[InputFile], columns: Sequence[str]
) -> SourceSample:
    """Sample row groups or stripes of the sampled files, which are some of all files."""
    size = sum(file.size for file in files)
    counted_rows = sum(file.rows for file in sampled_files)
    is_exact = len(sampled_files) == len(files)
    rows = counted_rows * size / max(sum(file.bytes for file in sampled_files), 1)
    read_all = is_exact and rows <= MAX_WHOLE_ROWS
    units = [(file, unit) for file in sampled_files for unit in range(file.units)]
    sampled_units = units if read_all else spread(units, _POSITIONS)
    max_rows = MAX_WHOLE_ROWS if read_all else _ROWS_PER_POSITION
    groups = [file.read(unit, columns, max_rows) for file, unit in sampled_units] if columns else []
    bounds = _common_bounds([file.bounds(columns) for file in sampled_files if file.rows]) if is_exact else {}
    return SourceSample(
        float(counted_rows) if is_exact else rows,
        tuple(groups),
        is_exact,
        bounds,
        _respelled_columns(sampled_files, columns),
    )


def _common_bounds(bounds: Sequence[Bounds]) -> Bounds:
    """Return the bounds over all files of the columns that have bounds in each file."""
    names = set(bounds[0]).intersection(*bounds[1:]) if bounds else set()
    return {name: (min(file[name][0] for file in bounds), max(file[name][1] for file in bounds)) for name in names}


def _respelled_columns(files: Sequence[_ParquetFile | _OrcFile], columns: Sequence[str]) -> frozenset[str]:
    """Return the columns that a file spells in another case."""
    spellings: dict[str, set[str]] = {}
    for name in frozenset[str]().union(*(file.names for file in files)):
        spellings.setdefault(name.lower(), set()).add(name)
    return frozenset(name for name in columns if spellings.get(name.lower(), {name}) != {name})


def _sample_text(
    files: Sequence[InputFile], parse: Callable[[bytes], pa.Table], *, has_header: bool = False
) -> SourceSample:
    """Sample blocks across all files, and estimate rows by the length of lines.

    Compressed files are sampled at their beginning.
    """
    size = sum(file.size for file in files)
    groups, lines, text_bytes, stored_bytes = [], 0, 0, 0
    step = max(size // _TEXT_POSITIONS, _TEXT_BLOCK_BYTES)
    # Every split of a compressed file is the whole file.
    for split in dict.fromkeys(spread_splits(files, step, _TEXT_BLOCK_BYTES)):
        reader = LineReader(split)
        window = next(reader.windows(), None)
        if window is None:
            continue
        block = bytes(window.data[: window.length])
        lines += block.count(b"\n")
        text_bytes += len(block)
        stored_bytes += max(reader.bytes_read, 1)
        if split.start == 0 and has_header:
            block = block.partition(b"\n")[2]
        groups.append(parse(block))
    is_compressed = any(file.compression is not Compression.NONE for file in files)
    compression_ratio = text_bytes / max(stored_bytes, 1) if is_compressed else 1.0
    rows = size * compression_ratio / max(text_bytes / max(lines, 1), 1.0)
    return SourceSample(rows, tuple(group for group in groups if group.num_columns))


def _csv(block: bytes, schema: StructType, columns: Sequence[str], options: Mapping[str, str]) -> pa.Table:
    if not columns or not block:
        return pa.table({})
    signs = CsvSigns.of(options)
    quote = signs.quote or False
    convert_options = pc_csv.ConvertOptions(
        column_types=_arrow_types(schema, columns), include_columns=list(columns), strings_can_be_null=True
    )

    def read(parse_options: pc_csv.ParseOptions) -> pa.Table:
        read_options = pc_csv.ReadOptions(column_names=schema.fieldNames(), use_threads=False)
        return pc_csv.read_csv(io.BytesIO(block), read_options, parse_options, convert_options)

    if signs.escape not in ("", quote):
        # Arrow also applies the escape outside of quotes, and fails at doubled quotes that Spark accepts.
        with suppress(pa.ArrowInvalid):
            return read(
                pc_csv.ParseOptions(delimiter=signs.sep, quote_char=quote, double_quote=False, escape_char=signs.escape)
            )
    return read(pc_csv.ParseOptions(delimiter=signs.sep, quote_char=quote))


def _json(block: bytes, schema: StructType, columns: Sequence[str]) -> pa.Table:
    if not columns or not block:
        return pa.table({})
    options = pc_json.ParseOptions(
        explicit_schema=pa.schema(_arrow_types(schema, columns)), unexpected_field_behavior="ignore"
    )
    return pc_json.read_json(io.BytesIO(block), pc_json.ReadOptions(use_threads=False), options).select(list(columns))


def _arrow_types(schema: StructType, columns: Sequence[str]) -> dict[str, pa.DataType]:
    fields = (column for column in schema.fields if column.name in set(columns))
    return {column.name: utc_arrow_type(column.dataType) for column in fields}
