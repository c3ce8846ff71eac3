"""Statistics of a source in a query, from a sample of its files."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.optimizer.statistics.cardinality import guess_selectivity
from pushdown_spark.optimizer.statistics.relation_statistics import (
    JoinColumnStatistics,
    KeyValues,
    RelationStatistics,
    StatisticsRequest,
)
from pushdown_spark.optimizer.statistics.sampling import SourceSample
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import InputFile

_TEXT_EXPANSION = 4
"""Maximum bytes in memory per byte of a text file."""
_COLUMNAR_EXPANSION = 8
"""Bytes in memory per byte of a columnar file with long strings."""
FIXED_WIDTH = 16
"""Maximum bytes of a number, date or timestamp in memory."""
_TYPICAL_WIDTH = 64
"""Assumed bytes of a string, array or struct in memory whose length is unknown."""
_SMALL_SOURCE_BYTES = 1 << 20
"""Sources of up to this size are sampled with all columns that are read, to measure their strings."""

_EXACT_FORMATS = frozenset({SourceFormat.PARQUET, SourceFormat.ORC})
"""Formats whose complete sample has the values that Spark reads."""
_EXACT_TYPES = (t.IntegralType, t.BooleanType, t.DecimalType)
_GREGORIAN_START = date(1582, 10, 15)


def sampled_names(files: Sequence[InputFile], schema: t.StructType, request: StatisticsRequest) -> dict[str, str]:
    """Return the columns of the files that are keys or in conditions: lower-case names, with their spelling."""
    partition_columns = _partition_columns(files)
    used_names = request.keys | _columns_in(*request.conditions)
    by_name = {column.name.lower(): column.name for column in schema.fields}
    return {
        name: spelling for name, spelling in by_name.items() if name in used_names and name not in partition_columns
    }


def columns_to_sample(
    files: Sequence[InputFile], names: Mapping[str, str], request: StatisticsRequest
) -> frozenset[str]:
    """Return the columns to sample, in the spelling of the schema. `names` are those of `sampled_names`."""
    columns = frozenset(names.values())
    is_small = sum(file.size for file in files) <= _SMALL_SOURCE_BYTES
    return columns | request.read_columns if is_small and request.read_columns is not None else columns


@dataclass(frozen=True)
class SampledSource:
    """A source with a sample of its files, for the statistics that a query needs.

    `scope` has the schema of the source. `names` are those of `sampled_names`, which the sample has.
    """

    source: Source
    files: Sequence[InputFile]
    sample: SourceSample
    scope: Scope
    request: StatisticsRequest
    names: Mapping[str, str]

    def statistics(self) -> RelationStatistics:
        """Return the statistics. Raises errors of Arrow and Spark for types whose values Arrow cannot count."""
        selectivity, matches = self._selectivity(self.request.conditions)
        widths = {column.name: _max_width(self.sample, column) for column in self._read_fields}
        max_bytes = self._max_bytes(list(widths.values()))
        row_bytes = None
        if self.sample.is_exact and max_bytes is not None:
            row_bytes = max_bytes / max(self.sample.rows, 1.0)
        return RelationStatistics(
            rows=self.sample.rows,
            filtered_rows=self.sample.rows * selectivity,
            columns={(self.request.name, name): self._column_statistics(name, matches) for name in self.names},
            max_bytes=max_bytes,
            file_bytes=float(self._file_bytes),
            row_bytes=row_bytes,
            column_bytes={name.lower(): width for name, width in widths.items() if width is not None},
        )

    @property
    def _file_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def _read_fields(self) -> list[t.StructField]:
        names = self.request.read_columns
        return [field for field in self.scope.schema.fields if names is None or field.name in names]

    def _column_statistics(self, name: str, matches: pa.BooleanArray | None) -> JoinColumnStatistics:
        """Return the statistics of a column, by its lower-case name. `matches` are the rows that satisfy conditions."""
        column = self.names[name]
        own_conditions = [part for part in self.request.conditions if _columns_in(part) == {name}]
        return JoinColumnStatistics(
            *self.sample.distinct(column),
            is_unique=self.sample.is_unique(column),
            selectivity=self._selectivity(own_conditions if name in self.request.keys else ())[0],
            bounds=self.sample.bounds.get(name),
            values=self._key_values(column, matches),
        )

    def _selectivity(self, conditions: Sequence[exp.Expr]) -> tuple[float, pa.BooleanArray | None]:
        """Return the fraction of rows that satisfy conditions, and which sampled rows satisfy those counted in it.

        Conditions that cannot be evaluated over the sample are guessed.
        """
        batch = self.sample.batch(self.scope.schema) if conditions else None
        if batch is None:
            return self._guess(conditions), None
        matches: pa.BooleanArray | None = None
        counted_conditions, guessed_conditions = [], []
        for condition in conditions:
            mask = self._evaluate(condition, batch)
            if mask is None:
                guessed_conditions.append(condition)
            else:
                counted_conditions.append(condition)
                matches = mask if matches is None else pc.and_(matches, mask)
        hits = batch.num_rows if matches is None else pc.sum(matches).as_py() or 0
        selectivity = hits / batch.num_rows
        if hits == 0:
            selectivity = min(0.5 / batch.num_rows, self._guess(counted_conditions))
        return float(selectivity * self._guess(guessed_conditions)), matches

    def _guess(self, conditions: Sequence[exp.Expr]) -> float:
        distinct = {("", name): self.sample.distinct(column)[0] for name, column in self.names.items()}
        return math.prod(guess_selectivity(condition, distinct) for condition in conditions)

    def _evaluate(self, condition: exp.Expr, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which rows of a batch satisfy a condition, or None if that cannot be evaluated here."""
        bound = bind(condition, self.scope)
        if bound.artifact is None:
            return None
        try:
            return ArrowFilter(bound.artifact).keep(batch)
        except (KeyError, pa.ArrowException):
            return None

    def _key_values(self, column: str, matches: pa.BooleanArray | None) -> KeyValues | None:
        """Return the values of a unique integer column, or None for any other column."""
        if not self.sample.is_unique(column):
            return None
        values = self.sample.table.column(column)
        if not pa.types.is_integer(values.type):
            return None
        matching_values = values if matches is None else values.filter(matches)
        conditions = self.request.conditions
        return KeyValues(_integers(values), _integers(matching_values), self._has_spark_values, conditions)

    @cached_property
    def _has_spark_values(self) -> bool:
        """Whether the sample has exactly the values that Spark reads in the columns of `names`."""
        return (
            self.sample.is_whole
            and self.source.format in _EXACT_FORMATS
            # The catalog may have values that the files lack: defaults of columns, and values of partition columns.
            and self.source.table is None
            and _arrow_reads_spark_values(self.sample, self.scope.schema, self.names.values())
        )

    def _max_bytes(self, widths: Sequence[float | None]) -> float | None:
        """Return the maximum bytes of the read columns in memory, or None if the number of rows is not limited.

        `widths` are the maximum bytes of each column, or None if not all of its values were measured. The file size
        limits these columns.
        """
        if self.sample.is_exact:
            known_widths = [width for width in widths if width is not None]
            if len(known_widths) == len(widths):
                return self.sample.rows * sum(known_widths)
            typical_bytes = self.sample.rows * sum(width or _TYPICAL_WIDTH for width in widths)
            return max(typical_bytes, float(_COLUMNAR_EXPANSION * self._file_bytes))
        is_text = self.source.format in (SourceFormat.CSV, SourceFormat.JSON)
        if is_text and not any(file.compression for file in self.files):
            return float(_TEXT_EXPANSION * self._file_bytes)
        return None


def _columns_in(*conditions: exp.Expr) -> set[str]:
    """Return the lower-case top-level columns of conditions."""
    return {column.parts[0].name.lower() for condition in conditions for column in condition.find_all(exp.Column)}


def _integers(values: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(values.drop_null().cast(pa.int64()))


def _partition_columns(files: Sequence[InputFile]) -> frozenset[str]:
    """Return possible partition columns. Spark takes their values from the directories and not from the files."""
    directories = {file.uri.rpartition("/")[0] for file in files}
    parts = {part for directory in directories for part in directory.split("/") if "=" in part}
    return frozenset(unquote(part).partition("=")[0].lower() for part in parts)


def _arrow_reads_spark_values(sample: SourceSample, schema: t.StructType, names: Collection[str]) -> bool:
    """Return whether Arrow reads the same values as Spark in these columns, according to their names and types."""
    columns = [column for column in schema.fields if column.name in names]
    arrow_names = set(sample.table.column_names) - sample.respelled
    return {column.name for column in columns} <= arrow_names and all(
        _is_unambiguous(sample.table.column(column.name), column.dataType) for column in columns
    )


def _is_unambiguous(values: pa.ChunkedArray, data_type: t.DataType) -> bool:
    """Return whether every reader returns the same values for a column.

    Timestamps depend on time zones, and Spark may shift days before the Gregorian calendar.
    """
    arrow_type = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if isinstance(data_type, t.StringType):
        string_types = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(is_type(arrow_type) for is_type in string_types)
    if isinstance(data_type, t.DateType) and pa.types.is_date32(arrow_type):
        return len(values) == values.null_count or bool(pc.min(values).as_py() >= _GREGORIAN_START)
    return isinstance(data_type, _EXACT_TYPES) and bool(arrow_type == to_arrow_type(data_type))


def _max_width(sample: SourceSample, column: t.StructField) -> float | None:
    """Return the maximum bytes of a value of a column, or None if not all of its values were measured."""
    if isinstance(column.dataType, t.NumericType | t.DateType | t.TimestampType | t.BooleanType):
        return FIXED_WIDTH
    if not isinstance(column.dataType, t.StringType) or sample.sampled_rows < sample.rows:
        return None
    if column.name not in sample.table.column_names:
        return None
    # Arrow cannot measure string views, which some writers store.
    strings = sample.table.column(column.name).cast(pa.large_string())
    return float(FIXED_WIDTH + (pc.max(pc.binary_length(strings)).as_py() or 0))
