"""Figures of a session's own tables and views: of files by looking at them, of anything else by Spark's guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.joins.cardinality import RelationFigures
from pushdown_spark.joins.figures import SourceFigures, Wanted
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import decoded, input_uris, is_local

_BY_NAME = {
    "Parquet": SourceFormat.PARQUET,
    "ORC": SourceFormat.ORC,
    "CSV": SourceFormat.CSV,
    "JSON": SourceFormat.JSON,
}
_BY_SUFFIX = {".parquet": SourceFormat.PARQUET, ".orc": SourceFormat.ORC}
_UNKNOWN_BYTES = 1 << 60
"""From here on a size is Spark's way to say that it knows none."""


@dataclass(frozen=True)
class Stored:
    """A frame that reads nothing but files."""

    native: DataFrame

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.native.schema

    @cached_property
    def uris(self) -> tuple[str, ...]:
        """URIs of its files."""
        return input_uris(self.native)


class TableFacts:
    """Figures of frames, by the names that they go by."""

    def __init__(self, spark: SparkSession, figures: SourceFigures) -> None:
        """With Spark Connect only local Parquet and ORC files can be looked at."""
        self._spark = spark
        self._figures = figures

    def of(self, name: str, frame: DataFrame, wanted: Wanted) -> RelationFigures | None:
        """Figures of a frame, None where nothing is known; no bound on its bytes unless files say so."""
        if not isinstance(self._spark, SparkSession):
            source = _by_suffix(name, frame)
            known = None if source is None else self._figures.of(source, Stored(frame), wanted)
            # The name may stand for more than its files: a view that multiplies their rows.
            return None if known is None else RelationFigures(known.rows, known.kept, known.columns)
        plan = frame._jdf.queryExecution().optimizedPlan()
        source = _by_relation(name, plan)
        if source is not None:
            return self._figures.of(source, Stored(frame), wanted)
        return _guessed(plan)


def _by_relation(name: str, plan: JavaObject) -> Source | None:
    """What Spark's plan of a frame says of its files, None where it does more than read them."""
    if plan.nodeName() != "LogicalRelation" or plan.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return None
    relation = plan.relation()
    kind = _BY_NAME.get(str(relation.fileFormat().toString()))
    if kind is None:
        return None
    options, found = relation.options().iterator(), {}
    while options.hasNext():
        entry = options.next()
        found[str(entry._1()).lower()] = str(entry._2())
    return _source(name, kind, found)


def _by_suffix(name: str, frame: DataFrame) -> Source | None:
    uris = input_uris(frame)
    paths = [Path(decoded(uri).removeprefix("file:")) for uri in uris]
    kinds = {_BY_SUFFIX.get(path.suffix) for path in paths}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not all(map(is_local, uris)) or not all(path.exists() for path in paths):
        return None
    return _source(name, kind, {})


def _source(name: str, kind: SourceFormat, options: Mapping[str, str]) -> Source:
    return Source(name, kind, (), None, options, ReaderChoice.SPARK, filter_pushdown=True)


def _guessed(plan: JavaObject) -> RelationFigures | None:
    """Rows by Spark's count, or by the bytes that it guesses."""
    stats = plan.stats()
    if stats.rowCount().isDefined():
        rows = float(str(stats.rowCount().get()))
        return RelationFigures(rows, rows)
    size = int(str(stats.sizeInBytes()))
    if size >= _UNKNOWN_BYTES:
        return None
    rows = max(size / (plan.schema().defaultSize() + 8), 1.0)
    return RelationFigures(rows, rows)
