"""Figures of a query's sources for the estimate of joins: rows, rows kept by conditions, distinct values of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.constant_folding import value_of
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.joins.budget import AnalysisClock
from pushdown_spark.joins.cardinality import ColumnFigures, KeyValues, RelationFigures, share_kept
from pushdown_spark.joins.sample import Sample, look
from pushdown_spark.joins.text import written
from pushdown_spark.readers.files import InputFile, input_files
from pushdown_spark.readers.protocol import AnySource, CountedSource, Source
from pushdown_spark.readers.storage import storage_for

_TEXT_IN_MEMORY = 4
"""Bytes in memory for a byte of text, at most."""
_UNPACKED = 8
"""Bytes in memory for a byte of a columnar file, where its texts are long."""
_FIXED = 16
"""Bytes of a number, date or time in memory, at most."""
_TINY = 1 << 20
"""Sources of up to so many bytes are looked at with all columns that are read, to know how long their texts are."""
_LONGEST_TEXT = 64
"""Bytes taken for a text, array or struct in memory; about what such columns have."""

_EXACT = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
"""Formats of which a look at all rows shows the values that Spark finds."""
_PLAIN = (t.IntegralType, t.BooleanType, t.DecimalType)
_GREGORIAN = date(1582, 10, 15)

_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""What the value of a constant depends on."""
_MOST_CONSTANTS = 1000

_CacheKey = tuple[object, ...]


class SampleCache:
    """What was seen of sets of files; a set that is asked for again, with no more columns, is not looked at again.

    A set is known by the files' names, sizes and times. `clock` tells what looking costs. Constants that Spark has
    worked out for conditions are kept too.
    """

    def __init__(self) -> None:
        self._samples: dict[_CacheKey, tuple[frozenset[str], Sample]] = {}
        self._constants: dict[_CacheKey, object] = {}
        self.clock = AnalysisClock()

    def constant(self, spark: SparkSession, sql: str) -> object:
        """The value of a constant expression, the same at any time in sessions set alike; None where it has none."""
        key = (*(spark.conf.get(setting, None) for setting in _MEANING), sql)
        if key not in self._constants:
            value = value_of(spark, sql)
            if len(self._constants) >= _MOST_CONSTANTS:
                self._constants.clear()
            self._constants[key] = value
        return self._constants[key]

    def knows(self, source: Source, files: Sequence[InputFile]) -> bool:
        """Whether these files of a source were looked at."""
        return _key(source, files) in self._samples

    def sample(
        self, source: Source, files: Sequence[InputFile], schema: t.StructType, columns: frozenset[str]
    ) -> Sample:
        """The sample of a source's files with at least these columns."""
        key = _key(source, files)
        known, sample = self._samples.get(key, (frozenset(), None))
        if sample is None or not columns <= known:
            known |= columns
            sample = look(files, source.format, schema, source.options, sorted(known))
            self._samples[key] = known, sample
        return sample


def _key(source: Source, files: Sequence[InputFile]) -> _CacheKey:
    listed = tuple((file.uri, file.size, file.modified) for file in files)
    return source.format, listed, tuple(sorted(source.options.items()))


class Opened(Protocol):
    """A source's frame as Spark's own reader gives it, and its schema."""

    @property
    def native(self) -> DataFrame:
        """The frame."""

    @property
    def schema(self) -> t.StructType:
        """Its columns."""

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs of its files."""


@dataclass(frozen=True)
class Wanted:
    """What a query wants to know of a relation: its name, its conditions (without that name), its key columns.

    `read` are the columns that the query reads at all, None for every column.
    """

    name: str
    conditions: tuple[exp.Expr, ...]
    keys: frozenset[str]
    read: frozenset[str] | None = None


class SourceFigures:
    """Figures of file sources."""

    def __init__(self, spark: SparkSession, cache: SampleCache) -> None:
        self._spark = spark
        self._cache = cache
        self._files: dict[str, tuple[InputFile, ...] | None] = {}

    def bytes(self, source: AnySource, opened: Opened) -> int | None:
        """Bytes of a source's files, None where that is not known."""
        files = self._listed(source, opened)
        return None if files is None else sum(file.size for file in files)

    def is_familiar(self, source: AnySource, opened: Opened) -> bool:
        """Whether a source's files were looked at before."""
        files = self._listed(source, opened)
        return files is not None and isinstance(source, Source) and self._cache.knows(source, files)

    def of(self, source: AnySource, opened: Opened, wanted: Wanted) -> RelationFigures | None:
        """Figures of a source as one relation of a query; None where nothing is known without reading it."""
        files = self._listed(source, opened)
        if files is None or not isinstance(source, Source):
            return _by_statistics(opened, wanted) if isinstance(opened, CountedSource) else None
        try:
            return self._of_files(source, files, opened.schema, wanted)
        except (pa.ArrowException, PySparkException, KeyError, OverflowError):
            # Types that Arrow does not count, or that have no room in its numbers: an estimate is not worth a failure.
            return None

    def _of_files(
        self, source: Source, files: Sequence[InputFile], schema: t.StructType, wanted: Wanted
    ) -> RelationFigures:
        inside = _directory_columns(files)
        named = {field.name.lower(): field.name for field in schema.fields if field.name.lower() not in inside}
        mentioned = {column.parts[0].name.lower() for each in wanted.conditions for column in each.find_all(exp.Column)}
        columns = frozenset(named[name] for name in wanted.keys | mentioned if name in named)
        stored = sum(file.size for file in files)
        if stored <= _TINY and wanted.read is not None:
            columns |= wanted.read
        sample = self._cache.sample(source, files, schema, columns)
        known = {name: sample.distinct(named[name]) for name in wanted.keys | mentioned if name in named}
        counted = {name: distinct for name, (distinct, _) in known.items()}
        share, mask = self._share(sample, schema, wanted.conditions, counted)
        looked_at = {named[name] for name in known}
        is_certain = sample.is_whole and source.format in _EXACT and _is_read_alike(sample, schema, looked_at)
        figures = {
            (wanted.name, name): ColumnFigures(
                *known[name],
                sample.is_unique(named[name]),
                self._own_share(sample, schema, wanted, name, counted),
                sample.limits.get(name),
                _key_values(sample, named[name], mask, certain=is_certain),
            )
            for name in known
        }
        read = [each for each in schema.fields if wanted.read is None or each.name in wanted.read]
        longest = {each.name: _longest(sample, each) for each in read}
        at_most = _at_most(source, files, sample, list(longest.values()))
        return RelationFigures(
            sample.rows,
            sample.rows * share,
            figures,
            at_most,
            float(stored),
            at_most / max(sample.rows, 1.0) if sample.exact and at_most is not None else None,
            {name.lower(): width for name, width in longest.items() if width is not None},
        )

    def _listed(self, source: AnySource, opened: Opened) -> tuple[InputFile, ...] | None:
        if not isinstance(source, Source):
            return None
        if source.name not in self._files:
            storage = storage_for(self._spark, opened.uris, source.options)
            found = None if isinstance(storage, str) else input_files(opened.native, storage, opened.uris)
            self._files[source.name] = found
        return self._files[source.name]

    def _own_share(
        self, sample: Sample, schema: t.StructType, wanted: Wanted, name: str, distinct: Mapping[str, float]
    ) -> float:
        """The share of a key's values that conditions on it alone keep."""
        own = [
            each
            for each in wanted.conditions
            if {column.parts[0].name.lower() for column in each.find_all(exp.Column)} == {name}
        ]
        return self._share(sample, schema, own, distinct)[0] if own and name in wanted.keys else 1.0

    def _share(
        self, sample: Sample, schema: t.StructType, conditions: Sequence[exp.Expr], distinct: Mapping[str, float]
    ) -> tuple[float, pa.BooleanArray | None]:
        """The share of rows that conditions keep, and which of the sample: counted there, else guessed."""
        guesses = {("", name): count for name, count in distinct.items()}
        batch = sample.batch(schema) if conditions else None
        if batch is None:
            return _product([share_kept(each, guesses) for each in conditions]), None
        kept: pa.BooleanArray | None = None
        counted, guessed = [], []
        for each in conditions:
            mask = self._mask(each, schema, batch)
            if mask is None:
                guessed.append(share_kept(each, guesses))
            else:
                counted.append(each)
                kept = mask if kept is None else pc.and_(kept, mask)
        hits = batch.num_rows if kept is None else pc.sum(kept).as_py() or 0
        share = hits / batch.num_rows
        if hits == 0:
            share = min(0.5 / batch.num_rows, _product([share_kept(each, guesses) for each in counted]))
        return float(share * _product(guessed)), kept

    def _mask(self, condition: exp.Expr, schema: t.StructType, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        sensitive = self._spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        bound = bind(condition, Scope(schema, case_sensitive=sensitive, fold=self._fold))
        if bound.artifact is None:
            return None
        try:
            return ArrowFilter(bound.artifact).keep(batch)
        except (KeyError, pa.ArrowException):
            return None

    def _fold(self, sql: str) -> object:
        return self._cache.constant(self._spark, sql)


def _key_values(sample: Sample, name: str, kept: pa.BooleanArray | None, *, certain: bool) -> KeyValues | None:
    """The values of an integer key, where all rows were seen."""
    if not sample.is_unique(name):
        return None
    every = sample.table.column(name)
    if not pa.types.is_integer(every.type):
        return None
    left = every if kept is None else every.filter(kept)
    values, kept_ones = (np.asarray(each.drop_null().cast(pa.int64())) for each in (every, left))
    return KeyValues(values, kept_ones, certain)


def _directory_columns(files: Sequence[InputFile]) -> frozenset[str]:
    """What may be columns that Spark takes from the names of directories, whatever the files have of these names."""
    directories = {file.uri.rpartition("/")[0] for file in files}
    parts = {part for directory in directories for part in directory.split("/") if "=" in part}
    return frozenset(unquote(part).partition("=")[0].lower() for part in parts)


def _is_read_alike(sample: Sample, schema: t.StructType, names: Collection[str]) -> bool:
    """Whether Arrow reads in columns of a columnar file what Spark does, by their names and types."""
    fields = [field for field in schema.fields if field.name in names]
    seen = set(sample.table.column_names) - sample.respelt
    return {field.name for field in fields} <= seen and all(
        _has_plain_values(sample.table.column(field.name), field.dataType) for field in fields
    )


def _has_plain_values(column: pa.ChunkedArray, kind: t.DataType) -> bool:
    """Whether a column's values are the same for everybody: for timestamps zones and calendars would have to agree.

    Days before the Gregorian calendar Spark may move.
    """
    stored = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if isinstance(kind, t.StringType):
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if isinstance(kind, t.DateType) and pa.types.is_date32(stored):
        return len(column) == column.null_count or bool(pc.min(column).as_py() >= _GREGORIAN)
    return isinstance(kind, _PLAIN) and bool(stored == to_arrow_type(kind))


def _by_statistics(opened: CountedSource, wanted: Wanted) -> RelationFigures | None:
    """Figures of a source by its own statistics, which prove nothing."""
    where = " AND ".join(f"({written(each)})" for each in wanted.conditions)
    found = opened.statistics(where or None, sorted(wanted.keys))
    if found is None:
        return None
    columns = {
        (wanted.name, name.lower()): ColumnFigures(known.distinct, known.null_share)
        for name, known in found.columns.items()
        if known.distinct is not None
    }
    kept = found.kept
    if not found.judged:
        distinct = {("", key[1]): known.distinct for key, known in columns.items()}
        kept = min(kept, found.rows * _product([share_kept(each, distinct) for each in wanted.conditions]))
    width = _FIXED * max(len(wanted.read or ()), 1)
    return RelationFigures(found.rows, kept, columns, stored=kept * width if found.few else None)


def _at_most(
    source: Source, files: Sequence[InputFile], sample: Sample, longest: Sequence[float | None]
) -> float | None:
    """Bytes that columns have in memory at most: by counted rows, or by the files' bytes where texts may be long.

    `longest` are the bytes of their longest values, None where nobody has seen all.
    """
    size = sum(file.size for file in files)
    if sample.exact:
        known = [width for width in longest if width is not None]
        if len(known) == len(longest):
            return sample.rows * sum(known)
        return max(sample.rows * sum(width or _LONGEST_TEXT for width in longest), float(_UNPACKED * size))
    if source.format in (SourceFormat.CSV, SourceFormat.JSON) and not any(file.compression for file in files):
        return float(_TEXT_IN_MEMORY * size)
    return None


def _longest(sample: Sample, field: t.StructField) -> float | None:
    """Bytes of the longest value of a column; None where nobody has seen all of its texts."""
    if _is_fixed(field.dataType):
        return _FIXED
    if not isinstance(field.dataType, t.StringType) or sample.seen < sample.rows:
        return None
    if field.name not in sample.table.column_names:
        return None
    # Writers may have noted views of texts, which Arrow does not measure.
    texts = sample.table.column(field.name).cast(pa.large_string())
    return float(_FIXED + (pc.max(pc.binary_length(texts)).as_py() or 0))


def _is_fixed(kind: t.DataType) -> bool:
    return isinstance(kind, t.NumericType | t.DateType | t.TimestampType | t.BooleanType)


def _product(shares: Sequence[float]) -> float:
    result = 1.0
    for share in shares:
        result *= share
    return result
