"""Statistics of the sources of a query: rows, rows that satisfy conditions, and distinct values of join keys.

File sources are sampled. Other sources report their own statistics.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.contract import FORMATS_WITHOUT_FILES, SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.constant_folding import value_of
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.session_settings import is_case_sensitive
from pushdown_spark.optimizer.sql_dialect import to_sql
from pushdown_spark.optimizer.statistics.cardinality import guess_selectivity
from pushdown_spark.optimizer.statistics.collection_time import AnalysisCosts
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, KeyValues, RelationStatistics
from pushdown_spark.optimizer.statistics.sampling import SourceSample, sample_files
from pushdown_spark.relations.base import Relation
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.file_relation import FileRelation
from pushdown_spark.relations.listing import InputFile, Listing
from pushdown_spark.relations.storage import storage_for

_TEXT_EXPANSION = 4
"""Maximum bytes in memory per byte of a text file."""
_COLUMNAR_EXPANSION = 8
"""Bytes in memory per byte of a columnar file with long strings."""
_FIXED_WIDTH = 16
"""Maximum bytes of a number, date or timestamp in memory."""
_TYPICAL_WIDTH = 64
"""Assumed bytes of a string, array or struct in memory whose length is unknown."""
_SMALL_SOURCE_BYTES = 1 << 20
"""Sources of up to this size are sampled with all columns that are read, to measure their strings."""

_EXACT_FORMATS = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
"""Formats whose complete sample has the values that Spark reads."""
_EXACT_TYPES = (t.IntegralType, t.BooleanType, t.DecimalType)
_GREGORIAN_START = date(1582, 10, 15)

_FOLDING_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings that change the values of constant expressions."""
_MAX_CONSTANTS = 1000

_CacheKey = tuple[object, ...]


class SampleCache:
    """Samples of files for the queries of a session.

    Files are identified by name, size and modification time. The cache also holds the values of constant expressions,
    and what collecting statistics costs (`analysis_costs`).
    """

    def __init__(self) -> None:
        self._samples: dict[_CacheKey, tuple[frozenset[str], SourceSample]] = {}
        self._constant = lru_cache(_MAX_CONSTANTS)(lambda spark, sql, *_settings: value_of(spark, sql))
        self.analysis_costs = AnalysisCosts()

    def constant(self, spark: SparkSession, sql: str) -> object:
        """Return the value of a deterministic constant expression, or None if it has none."""
        return self._constant(spark, sql, *(spark.conf.get(setting, None) for setting in _FOLDING_SETTINGS))

    def has_sample(self, source: Source, files: Sequence[InputFile]) -> bool:
        """Return whether these files of a source have been sampled."""
        return _cache_key(source, files) in self._samples

    def sample(
        self, source: Source, files: Sequence[InputFile], schema: t.StructType, columns: frozenset[str]
    ) -> SourceSample:
        """Return a sample of a source's files that has at least these columns."""
        key = _cache_key(source, files)
        sampled_columns, sample = self._samples.get(key, (frozenset(), None))
        if sample is None or not columns <= sampled_columns:
            sampled_columns |= columns
            sample = sample_files(files, source.format, schema, source.options, sorted(sampled_columns))
            self._samples[key] = sampled_columns, sample
        return sample


def _cache_key(source: Source, files: Sequence[InputFile]) -> _CacheKey:
    states = tuple((file.uri, file.size, file.modified) for file in files)
    return source.format, states, tuple(sorted(source.options.items()))


@dataclass(frozen=True)
class FileTable:
    """A DataFrame that only reads files."""

    source: Source
    native: DataFrame

    @property
    def schema(self) -> t.StructType:
        """Its columns."""
        return self.native.schema

    @cached_property
    def listing(self) -> Listing:
        """Its files."""
        return Listing(self.native)


@dataclass(frozen=True)
class StatisticsRequest:
    """The statistics that a query needs of a relation.

    `conditions` refer to columns without the relation's `name`. `keys` are the columns whose distinct values matter.
    `read_columns` are all columns that the query reads, None for every column.
    """

    name: str
    conditions: tuple[exp.Expr, ...]
    keys: frozenset[str]
    read_columns: frozenset[str] | None = None


class SourceStatistics:
    """Statistics of the sources of one query."""

    def __init__(self, spark: SparkSession, cache: SampleCache) -> None:
        self._spark = spark
        self._cache = cache
        self._files: dict[str, tuple[InputFile, ...] | None] = {}
        self._case_sensitive = is_case_sensitive(spark)

    def file_bytes(self, relation: Relation | FileTable) -> int | None:
        """Return the bytes of a relation's files, or None if they are unknown."""
        files = self._list_files(relation)
        return None if files is None else sum(file.size for file in files)

    def is_sampled(self, relation: Relation | FileTable) -> bool:
        """Return whether a relation's files have been sampled before."""
        files = self._list_files(relation)
        return files is not None and self._cache.has_sample(relation.source, files)

    def statistics_of(self, relation: Relation | FileTable, request: StatisticsRequest) -> RelationStatistics | None:
        """Return the statistics of a relation in a query, or None if there are none."""
        files = self._list_files(relation)
        if files is None:
            return _reported_statistics(relation, request) if isinstance(relation, Relation) else None
        try:
            return self._sampled_statistics(relation.source, files, relation.schema, request)
        except (pa.ArrowException, PySparkException, KeyError, OverflowError):
            # Arrow cannot count values of some types. A query must not fail because of an estimate.
            return None

    def _list_files(self, relation: Relation | FileTable) -> tuple[InputFile, ...] | None:
        source = relation.source
        if source.format in FORMATS_WITHOUT_FILES or not isinstance(relation, FileRelation | FileTable):
            return None
        if source.name not in self._files:
            try:
                storage = storage_for(self._spark, relation.listing.uris, source.options)
            except UnsupportedError:
                self._files[source.name] = None
            else:
                self._files[source.name] = relation.listing.files(storage)
        return self._files[source.name]

    def _sampled_statistics(
        self, source: Source, files: Sequence[InputFile], schema: t.StructType, request: StatisticsRequest
    ) -> RelationStatistics:
        """Return the statistics of a source from a sample of its files."""
        partition_columns = _partition_columns(files)
        file_columns = {
            column.name.lower(): column.name for column in schema.fields if column.name.lower() not in partition_columns
        }
        # The keys and the columns of conditions: lower-case names, with the spelling of the schema.
        relevant = {
            name: file_columns[name] for name in request.keys | _columns_in(*request.conditions) if name in file_columns
        }
        file_bytes = sum(file.size for file in files)
        columns = frozenset(relevant.values())
        if file_bytes <= _SMALL_SOURCE_BYTES and request.read_columns is not None:
            columns |= request.read_columns
        sample = self._cache.sample(source, files, schema, columns)
        selectivity, matches = self._selectivity(sample, schema, request.conditions, relevant)
        is_certain = (
            sample.is_whole
            and source.format in _EXACT_FORMATS
            # The catalog may have values that the files lack: defaults of columns, and those of partitions.
            and source.table is None
            and _has_spark_values(sample, schema, relevant.values())
        )
        conditions_on_key = {
            name: [part for part in request.conditions if _columns_in(part) == {name}] for name in request.keys
        }
        read_fields = [
            field for field in schema.fields if request.read_columns is None or field.name in request.read_columns
        ]
        widths = {column.name: _max_width(sample, column) for column in read_fields}
        max_bytes = _max_bytes(source, files, sample, list(widths.values()))
        return RelationStatistics(
            rows=sample.rows,
            filtered_rows=sample.rows * selectivity,
            columns={
                (request.name, name): JoinColumnStatistics(
                    *sample.distinct(column),
                    is_unique=sample.is_unique(column),
                    selectivity=self._selectivity(sample, schema, conditions_on_key.get(name, ()), relevant)[0],
                    bounds=sample.bounds.get(name),
                    values=_key_values(sample, column, matches, is_certain=is_certain),
                )
                for name, column in relevant.items()
            },
            max_bytes=max_bytes,
            file_bytes=float(file_bytes),
            row_bytes=max_bytes / max(sample.rows, 1.0) if sample.is_exact and max_bytes is not None else None,
            column_bytes={name.lower(): width for name, width in widths.items() if width is not None},
        )

    def _selectivity(
        self,
        sample: SourceSample,
        schema: t.StructType,
        conditions: Sequence[exp.Expr],
        relevant: Mapping[str, str],
    ) -> tuple[float, pa.BooleanArray | None]:
        """Return the share of rows that satisfy conditions, and which rows of the sample satisfy those counted in it.

        Conditions that cannot be evaluated over the sample are guessed. `relevant` maps lower-case column names to
        those of the sample.
        """
        distinct = {("", name): sample.distinct(column)[0] for name, column in relevant.items()}
        batch = sample.batch(schema) if conditions else None
        if batch is None:
            return math.prod(guess_selectivity(condition, distinct) for condition in conditions), None
        matches: pa.BooleanArray | None = None
        counted, guesses = [], []
        for condition in conditions:
            mask = self._evaluate(condition, schema, batch)
            if mask is None:
                guesses.append(guess_selectivity(condition, distinct))
            else:
                counted.append(condition)
                matches = mask if matches is None else pc.and_(matches, mask)
        hits = batch.num_rows if matches is None else pc.sum(matches).as_py() or 0
        selectivity = hits / batch.num_rows
        if hits == 0:
            guessed = math.prod(guess_selectivity(condition, distinct) for condition in counted)
            selectivity = min(0.5 / batch.num_rows, guessed)
        return float(selectivity * math.prod(guesses)), matches

    def _evaluate(self, condition: exp.Expr, schema: t.StructType, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which rows of a batch satisfy a condition, or None if that cannot be evaluated here."""
        scope = Scope(schema, case_sensitive=self._case_sensitive, fold=self._fold)
        bound = bind(condition, scope)
        if bound.artifact is None:
            return None
        try:
            return ArrowFilter(bound.artifact).keep(batch)
        except (KeyError, pa.ArrowException):
            return None

    def _fold(self, sql: str) -> object:
        return self._cache.constant(self._spark, sql)


def _columns_in(*conditions: exp.Expr) -> set[str]:
    """Return the lower-case top-level columns of conditions."""
    return {column.parts[0].name.lower() for condition in conditions for column in condition.find_all(exp.Column)}


def _reported_statistics(relation: Relation, request: StatisticsRequest) -> RelationStatistics | None:
    """Return the statistics that a source reports itself. They prove nothing."""
    where = " AND ".join(f"({to_sql(condition)})" for condition in request.conditions)
    table = relation.statistics(where or None, sorted(request.keys))
    if table is None:
        return None
    columns = {
        (request.name, name.lower()): JoinColumnStatistics(column.distinct, column.null_share)
        for name, column in table.columns.items()
        if column.distinct is not None
    }
    filtered_rows = table.expected_rows
    if not table.has_selectivity:
        distinct = {("", key[1]): column.distinct for key, column in columns.items()}
        guesses = (guess_selectivity(condition, distinct) for condition in request.conditions)
        filtered_rows = min(filtered_rows, table.rows * math.prod(guesses))
    width = _FIXED_WIDTH * max(len(request.read_columns or ()), 1)
    file_bytes = filtered_rows * width if table.is_fetched else None
    return RelationStatistics(table.rows, filtered_rows, columns, file_bytes=file_bytes)


def _key_values(
    sample: SourceSample, column: str, matches: pa.BooleanArray | None, *, is_certain: bool
) -> KeyValues | None:
    """Return the values of a unique integer column, or None for any other column."""
    if not sample.is_unique(column):
        return None
    values = sample.table.column(column)
    if not pa.types.is_integer(values.type):
        return None
    filtered = values if matches is None else values.filter(matches)
    return KeyValues(_integers(values), _integers(filtered), is_certain)


def _integers(values: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(values.drop_null().cast(pa.int64()))


def _partition_columns(files: Sequence[InputFile]) -> frozenset[str]:
    """Return possible partition columns. Spark takes their values from the directories and not from the files."""
    directories = {file.uri.rpartition("/")[0] for file in files}
    parts = {part for directory in directories for part in directory.split("/") if "=" in part}
    return frozenset(unquote(part).partition("=")[0].lower() for part in parts)


def _has_spark_values(sample: SourceSample, schema: t.StructType, names: Collection[str]) -> bool:
    """Return whether Arrow reads the same values as Spark in these columns, according to their names and types."""
    columns = [column for column in schema.fields if column.name in names]
    sampled = set(sample.table.column_names) - sample.respelled
    return {column.name for column in columns} <= sampled and all(
        _is_unambiguous(sample.table.column(column.name), column.dataType) for column in columns
    )


def _is_unambiguous(values: pa.ChunkedArray, data_type: t.DataType) -> bool:
    """Return whether every reader returns the same values for a column.

    Timestamps depend on time zones, and Spark may shift days before the Gregorian calendar.
    """
    stored = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if isinstance(data_type, t.StringType):
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if isinstance(data_type, t.DateType) and pa.types.is_date32(stored):
        return len(values) == values.null_count or bool(pc.min(values).as_py() >= _GREGORIAN_START)
    return isinstance(data_type, _EXACT_TYPES) and bool(stored == to_arrow_type(data_type))


def _max_bytes(
    source: Source, files: Sequence[InputFile], sample: SourceSample, widths: Sequence[float | None]
) -> float | None:
    """Return the maximum bytes of the read columns in memory, or None if the number of rows is not limited.

    `widths` are the maximum bytes of each column, None if not all of its values were measured. The file size limits
    these columns.
    """
    file_bytes = sum(file.size for file in files)
    if sample.is_exact:
        measured = [width for width in widths if width is not None]
        if len(measured) == len(widths):
            return sample.rows * sum(measured)
        typical_bytes = sample.rows * sum(width or _TYPICAL_WIDTH for width in widths)
        return max(typical_bytes, float(_COLUMNAR_EXPANSION * file_bytes))
    is_text = source.format in (SourceFormat.CSV, SourceFormat.JSON)
    if is_text and not any(file.compression for file in files):
        return float(_TEXT_EXPANSION * file_bytes)
    return None


def _max_width(sample: SourceSample, column: t.StructField) -> float | None:
    """Return the maximum bytes of a value of a column, or None if not all of its values were measured."""
    if isinstance(column.dataType, t.NumericType | t.DateType | t.TimestampType | t.BooleanType):
        return _FIXED_WIDTH
    if not isinstance(column.dataType, t.StringType) or sample.sampled_rows < sample.rows:
        return None
    if column.name not in sample.table.column_names:
        return None
    # Arrow cannot measure string views, which some writers store.
    strings = sample.table.column(column.name).cast(pa.large_string())
    return float(_FIXED_WIDTH + (pc.max(pc.binary_length(strings)).as_py() or 0))
