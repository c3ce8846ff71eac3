"""Runs queries that we cannot read just as they are written: Spark reads whole sources, under their own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.joins.places import no_source, source_named
from pushdown_spark.joins.relations import relations_of
from pushdown_spark.joins.result import JoinedResult, NamedScan, ViewQuery
from pushdown_spark.joins.views import NamedViews, PrivateViews
from pushdown_spark.planner import plan_scan
from pushdown_spark.relations.base import Relation
from pushdown_spark.relations.declaration import AnySource
from pushdown_spark.relations.open import open_relations
from pushdown_spark.relations.request import spark_only
from pushdown_spark.runtime.error_classification import typed_error


class AsWritten:
    """Plans queries over the declared sources without reading more of them than the names of these."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, AnySource], private: PrivateViews) -> None:
        self._spark = spark
        self._sources = sources
        self._views = NamedViews(private)

    def plan(self, sql: str, reason: str) -> JoinedResult | None:
        """The query, with the reason for leaving it in the reports; None where it must be refused for that.

        Raises BadSpecError where it reads a table that is no declared source, typed errors for what Spark finds wrong.
        """
        declared = self._declared(sql)
        if not declared:
            return None
        opened = open_relations(self._spark, declared.values())
        scans = [
            _scan(self._spark, name, opened[source.name], source, sql, reason) for name, source in declared.items()
        ]
        frames = {scan.view: scan.planned.native("check").frame() for scan in scans}
        try:
            with self._views.over(frames):
                analysed = self._spark.sql(sql)
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about="query") from problem
        return JoinedResult(ViewQuery(self._spark, self._views, sql, frozenset(), frames, analysed), scans, ())

    def _declared(self, sql: str) -> dict[str, AnySource] | None:
        """The sources by the names that the query has for them, None where views cannot stand for all of them."""
        case_sensitive = self._spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        names = relations_of(self._spark, sql, case_sensitive=case_sensitive)
        if names is None or any(len(name) > 1 for name in names):
            return None
        found: dict[str, AnySource] = {}
        for (name,) in names:
            source = self._sources.get(name) if case_sensitive else source_named(self._sources, name)
            if source is None:
                raise BadSpecError(no_source(self._sources, name))
            # One view stands for all spellings of a name.
            if found.setdefault(name if case_sensitive else name.lower(), source) is not source:
                return None
        return found


def _scan(spark: SparkSession, name: str, opened: Relation, source: AnySource, sql: str, reason: str) -> NamedScan:
    """A scan of all columns and rows of a source."""
    projection = opened.projection(None)
    request = opened.request(projection, None)
    request = replace(request, spark_only=request.spark_only or spark_only(sql))
    planned = plan_scan(spark, opened, request, (*projection.notes, reason))
    return NamedScan(source.name, name, planned, planned.scan)
