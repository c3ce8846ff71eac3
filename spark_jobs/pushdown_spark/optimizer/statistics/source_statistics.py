"""Statistics of the sources of a query: rows, rows that satisfy conditions, and distinct values of join keys.

File sources are sampled. Other sources report their own statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import FORMATS_WITHOUT_FILES
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.constant_folding import evaluate_constant
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.optimizer.plans.sql_dialect import predicate_of
from pushdown_spark.optimizer.statistics.cardinality import guess_selectivity
from pushdown_spark.optimizer.statistics.collection_time import AnalysisCosts
from pushdown_spark.optimizer.statistics.relation_statistics import (
    JoinColumnStatistics,
    RelationStatistics,
    StatisticsRequest,
)
from pushdown_spark.optimizer.statistics.sampled_statistics import (
    FIXED_WIDTH,
    SampledSource,
    columns_to_sample,
    sampled_names,
)
from pushdown_spark.optimizer.statistics.sampling import SourceSample, sample_files
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.file_relation import FileRelation
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import InputFile, Listing
from pushdown_spark.sources.stores.storage import storage_for

_FOLDING_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings that change the values of constant expressions."""
_MAX_CONSTANTS = 1000

_CacheKey = tuple[object, ...]


class SampleCache:
    """Samples of files for the queries of a session.

    Files are identified by name, size and times of changes. The cache also holds the values of constant expressions,
    and what collecting statistics costs (`analysis_costs`).
    """

    def __init__(self) -> None:
        self._samples: dict[_CacheKey, tuple[frozenset[str], SourceSample]] = {}
        self._constant = lru_cache(_MAX_CONSTANTS)(lambda spark, sql, *_settings: evaluate_constant(spark, sql))
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
    states = tuple((file.uri, file.size, file.modified, file.status_changed) for file in files)
    return source.format, states, tuple(sorted(source.options.items()))


@dataclass(frozen=True)
class FileTable:
    """A DataFrame that only reads files."""

    source: Source
    spark_frame: DataFrame

    @property
    def schema(self) -> t.StructType:
        """Its columns."""
        return self.spark_frame.schema

    @cached_property
    def listing(self) -> Listing:
        """Its files."""
        return Listing(self.spark_frame)


class SourceStatistics:
    """Statistics of the sources of one query."""

    def __init__(self, spark: SparkSession, cache: SampleCache) -> None:
        self._spark = spark
        self._cache = cache
        self._files: dict[str, tuple[InputFile, ...] | None] = {}
        self._name_rule = session_name_rule(spark)

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
            names = sampled_names(files, relation.schema, request)
            columns = columns_to_sample(files, names, request)
            sample = self._cache.sample(relation.source, files, relation.schema, columns)
            scope = Scope(relation.schema, has_plain_strings=True, name_rule=self._name_rule, fold=self._fold)
            return SampledSource(relation.source, files, sample, scope, request, names).statistics()
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

    def _fold(self, sql: str) -> object:
        return self._cache.constant(self._spark, sql)


def _reported_statistics(relation: Relation, request: StatisticsRequest) -> RelationStatistics | None:
    """Return the statistics that a source reports itself. They prove nothing."""
    # The keys are in lower case, and databases distinguish the case of names.
    keys = [name for name in relation.schema.fieldNames() if name.lower() in request.keys]
    table = relation.statistics(predicate_of(request.conditions), keys)
    if table is None:
        return None
    columns = {
        (request.name, name.lower()): JoinColumnStatistics(column.distinct, column.null_fraction)
        for name, column in table.columns.items()
        if column.distinct is not None
    }
    filtered_rows = table.expected_rows
    if not table.has_selectivity:
        distinct = {("", key[1]): column.distinct for key, column in columns.items()}
        guesses = (guess_selectivity(condition, distinct) for condition in request.conditions)
        filtered_rows = min(filtered_rows, table.rows * math.prod(guesses))
    width = FIXED_WIDTH * max(len(request.read_columns or ()), 1)
    file_bytes = filtered_rows * width if table.is_fetched else None
    return RelationStatistics(table.rows, filtered_rows, columns, file_bytes=file_bytes)
