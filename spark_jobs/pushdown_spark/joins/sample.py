"""Looks at a source's files for what costs little: rows from footers, and some rows from places all over the files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.json as pc_json
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from pushdown_spark.contract import SourceFormat
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.joins.distinct import distinct_values
from pushdown_spark.relations.listing import Compression, InputFile

WHOLE_ROWS = 200_000
"""Sources of up to so many rows are looked at as a whole."""
_PLACES = 6
_ROWS_PER_PLACE = 6_000
_FOOTERS = 32
"""Footers read at most; with more files the others are taken to be like them."""
_STATISTICS = 20_000
"""Statistics of row groups looked at for the limits of columns: those of a file with more take too long."""
_TEXT_PLACES = 6
_TEXT_BLOCK = 256 << 10
_GUESSED_ROW_BYTES = 60.0

_Kinds = tuple[tuple[str, DataType], ...]

Limits = Mapping[str, tuple[int, int]]
"""The least and the greatest value of integer columns, by lower-case name."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a source: `rows` it has in all, the rows seen in `groups`, each from one place of the files.

    `exact` says that `rows` was counted and not estimated; `bytes` is the size of the files. `respelt` are columns that
    some files have in another spelling, under which they were not seen.
    """

    rows: float
    groups: tuple[pa.Table, ...]
    bytes: int
    exact: bool = False
    limits: Limits = field(default_factory=dict)
    respelt: frozenset[str] = frozenset()
    _distinct: dict[str, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _batches: dict[_Kinds, pa.RecordBatch | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def table(self) -> pa.Table:
        """All rows seen; a column that some files lack is null in theirs. Raises ArrowException where types differ."""
        return pa.concat_tables(self.groups, promote_options="default") if self.groups else pa.table({})

    def batch(self, schema: StructType) -> pa.RecordBatch | None:
        """The rows seen as a batch of a schema's types, made once; None where there is none or they do not fit."""
        kinds = tuple((each.name, each.dataType) for each in schema.fields if each.name in self.table.column_names)
        if kinds not in self._batches:
            self._batches[kinds] = self._as(kinds) if self.seen else None
        return self._batches[kinds]

    def _as(self, kinds: _Kinds) -> pa.RecordBatch | None:
        try:
            types = {name: to_arrow_type(kind, timezone="UTC") for name, kind in kinds}
            columns = {
                name: self.table.column(name).cast(types[name]).combine_chunks() for name in self.table.column_names
            }
            return pa.RecordBatch.from_pydict(columns)
        except (pa.ArrowException, KeyError, PySparkException):
            return None

    @property
    def seen(self) -> int:
        """How many rows were seen."""
        return sum(group.num_rows for group in self.groups)

    def distinct(self, name: str) -> tuple[float, float]:
        """Distinct values that a column has in all, at least one, and the share of nulls; worked out once."""
        if name not in self._distinct:
            groups = [group.column(name) for group in self.groups if name in group.column_names]
            count, nulls = distinct_values(groups, self.rows)
            if name.lower() in self.limits:
                low, high = self.limits[name.lower()]
                count = min(count, high - low + 1.0)
            self._distinct[name] = max(count, 1.0), nulls
        return self._distinct[name]

    @property
    def is_whole(self) -> bool:
        """Whether every row there is was seen."""
        return self.exact and self.seen >= self.rows

    def is_unique(self, name: str) -> bool:
        """Whether every row was seen, and no two have the same value of a column; nulls are none."""
        if not self.is_whole:
            return False
        count, nulls = self.distinct(name)
        return round(count) >= round(self.rows * (1.0 - nulls))


def look(
    files: Sequence[InputFile],
    source_format: SourceFormat,
    schema: StructType,
    options: Mapping[str, str],
    columns: Sequence[str],
) -> Sample:
    """Look at files of a format; `columns` are those worth seeing. What cannot be read is estimated by size alone."""
    files = [file for file in files if file.size]
    size = sum(file.size for file in files)
    wanted = [field.name for field in schema.fields if field.name in set(columns)]
    looks: dict[SourceFormat, Callable[[], Sample]] = {
        SourceFormat.PARQUET: lambda: _columnar(files, wanted, _ParquetFile),
        SourceFormat.ORC: lambda: _columnar(files, wanted, _OrcFile),
        SourceFormat.CSV: lambda: _text(files, lambda block: _csv(block, schema, wanted, options), "header" in options),
        SourceFormat.JSON: lambda: _text(files, lambda block: _json(block, schema, wanted), False),
    }
    try:
        if files and source_format in looks:
            return _of_one_type(looks[source_format]())
    except (pa.ArrowException, OSError, ValueError, KeyError):
        pass
    return Sample(size / _GUESSED_ROW_BYTES, (), size)


def _of_one_type(sample: Sample) -> Sample:
    """The sample, without the rows seen where a column has types in the files that do not fit together."""
    try:
        fits = sample.table.num_rows == sample.seen
    except pa.ArrowException:
        fits = False
    return sample if fits else replace(sample, groups=())


class _ParquetFile:
    """A Parquet file: its rows, its row groups, some rows of one, and the limits of integer columns."""

    def __init__(self, file: InputFile) -> None:
        self._file = pq.ParquetFile(file.storage.open(file.path))
        self.names = frozenset(self._file.schema_arrow.names)
        self.rows = self._file.metadata.num_rows
        self.units = self._file.metadata.num_row_groups

    def read(self, unit: int, columns: Sequence[str], rows: int) -> pa.Table:
        """The first rows of a row group."""
        batches = self._file.iter_batches(rows, row_groups=[unit], columns=list(columns), use_threads=False)
        first = next(batches, None)
        return pa.table({}) if first is None else pa.Table.from_batches([first])

    def limits(self, columns: Sequence[str]) -> Limits:
        """Least and greatest values by the footer's statistics, of columns of which all row groups tell them."""
        names = {name: place for place, name in enumerate(self._file.metadata.schema.names)}
        places = {name.lower(): names[name] for name in columns if name in names}
        found: dict[str, tuple[int, int]] = {}
        if self.units * len(places) > _STATISTICS:
            return found
        groups = [self._file.metadata.row_group(unit) for unit in range(self.units)]
        for name, place in places.items():
            told = [_group_limits(group.column(place)) for group in groups if group.num_rows]
            known = [pair for pair in told if pair is not None]
            if known and len(known) == len(told):
                found[name] = min(low for low, _ in known), max(high for _, high in known)
        return found


def _group_limits(chunk: pq.ColumnChunkMetaData) -> tuple[int, int] | None:
    """The least and the greatest integer of a column in a row group, None where the footer does not tell."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
        return None
    return statistics.min, statistics.max


class _OrcFile:
    """An ORC file: its rows, its stripes, and the rows of one."""

    def __init__(self, file: InputFile) -> None:
        self._file = orc.ORCFile(pa.PythonFile(file.storage.open(file.path), mode="r"))
        self.names = frozenset(self._file.schema.names)
        self.rows = self._file.nrows
        self.units = self._file.nstripes

    def read(self, unit: int, columns: Sequence[str], rows: int) -> pa.Table:
        """The first rows of a stripe."""
        return pa.Table.from_batches([self._file.read_stripe(unit, columns=list(columns))]).slice(0, rows)

    def limits(self, columns: Sequence[str]) -> Limits:
        """None: they are not looked for."""
        return {}


def _columnar(
    files: Sequence[InputFile], columns: Sequence[str], opened: Callable[[InputFile], _ParquetFile | _OrcFile]
) -> Sample:
    size = sum(file.size for file in files)
    looked = [files[place] for place in _spread(len(files), _FOOTERS)]
    readers = [opened(file) for file in looked]
    counted = sum(reader.rows for reader in readers)
    rows = counted * size / max(sum(file.size for file in looked), 1)
    is_exact = len(looked) == len(files)
    units = [(reader, unit) for reader in readers for unit in range(reader.units)]
    whole = is_exact and rows <= WHOLE_ROWS
    chosen = range(len(units)) if whole else _spread(len(units), _PLACES)
    groups: list[pa.Table] = []
    if columns:
        groups = [
            reader.read(unit, columns, WHOLE_ROWS if whole else _ROWS_PER_PLACE)
            for reader, unit in (units[at] for at in chosen)
        ]
    limits = _common([reader.limits(columns) for reader in readers if reader.rows]) if is_exact else {}
    spellings = {(name.lower(), name) for reader in readers for name in reader.names}
    respelt = frozenset(name for name in columns if any(k == name.lower() and s != name for k, s in spellings))
    return Sample(float(counted if is_exact else rows), tuple(groups), size, is_exact, limits, respelt)


def _common(limits: Sequence[Limits]) -> Limits:
    """The limits of all files, of columns whose limits each of them tells."""
    names = set(limits[0]).intersection(*limits[1:]) if limits else set()
    return {name: (min(each[name][0] for each in limits), max(each[name][1] for each in limits)) for name in names}


def _text(files: Sequence[InputFile], parse: Callable[[bytes], pa.Table], has_header: bool) -> Sample:
    """Rows by the length of lines in blocks all over the files, compressed ones from their beginning."""
    size = sum(file.size for file in files)
    groups, lines, read, stored = [], 0, 0, 0
    for file, start in _blocks(files):
        reader = LineReader(file.split(start, min(start + _TEXT_BLOCK, file.size)))
        window = next(reader.windows(), None)
        if window is None:
            continue
        block = bytes(window.data[: window.length])
        lines += block.count(b"\n")
        read += len(block)
        stored += min(max(reader.bytes_read, 1), file.size)
        if start == 0 and has_header:
            block = block.partition(b"\n")[2]
        groups.append(parse(block))
    inflation = read / max(stored, 1) if any(file.compression is not Compression.NONE for file in files) else 1.0
    rows = size * inflation / max(read / max(lines, 1), 1.0)
    return Sample(rows, tuple(group for group in groups if group.num_columns), size)


def _blocks(files: Sequence[InputFile]) -> Iterator[tuple[InputFile, int]]:
    """Places spread over the files by size."""
    total = sum(file.size for file in files)
    step = max(total // _TEXT_PLACES, _TEXT_BLOCK)
    passed = 0
    for file in files:
        start = -passed % step
        for place in range(start, file.size, step):
            yield file, place if file.compression is Compression.NONE else 0
            if file.compression is not Compression.NONE:
                break
        passed += file.size


def _csv(block: bytes, schema: StructType, columns: Sequence[str], options: Mapping[str, str]) -> pa.Table:
    if not columns or not block:
        return pa.table({})
    return pc_csv.read_csv(
        io.BytesIO(block),
        read_options=pc_csv.ReadOptions(column_names=schema.fieldNames(), use_threads=False),
        parse_options=pc_csv.ParseOptions(delimiter=options.get("sep", options.get("delimiter", ","))),
        convert_options=pc_csv.ConvertOptions(
            column_types=_types(schema, columns), include_columns=list(columns), strings_can_be_null=True
        ),
    )


def _json(block: bytes, schema: StructType, columns: Sequence[str]) -> pa.Table:
    if not columns or not block:
        return pa.table({})
    options = pc_json.ParseOptions(
        explicit_schema=pa.schema(_types(schema, columns)), unexpected_field_behavior="ignore"
    )
    return pc_json.read_json(io.BytesIO(block), pc_json.ReadOptions(use_threads=False), options).select(list(columns))


def _types(schema: StructType, columns: Sequence[str]) -> dict[str, pa.DataType]:
    """Arrow's types of some columns."""
    wanted = (field for field in schema.fields if field.name in set(columns))
    return {field.name: to_arrow_type(field.dataType, timezone="UTC") for field in wanted}


def _spread(count: int, most: int) -> list[int]:
    """Up to `most` of so many places, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
