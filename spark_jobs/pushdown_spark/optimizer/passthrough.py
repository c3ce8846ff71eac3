"""Queries that sqlglot cannot read. Spark runs them as written over complete sources."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.session_settings import is_case_sensitive
from pushdown_spark.optimizer.catalyst import PrivateViews, relation_names_in
from pushdown_spark.optimizer.query_context import QueryScan, find_source, unknown_source_message
from pushdown_spark.optimizer.query_result import AnalyzedQuery, QueryResult
from pushdown_spark.planner import plan_scan
from pushdown_spark.relations.base import Relation
from pushdown_spark.relations.declaration import AnySource
from pushdown_spark.relations.open import open_relations
from pushdown_spark.runtime.error_classification import typed_error


class PassthroughPlanner:
    """Plans queries over declared sources, given only the names of the sources that they read."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, AnySource], views: PrivateViews) -> None:
        self._spark = spark
        self._sources = sources
        self._views = views

    def plan(self, sql: str, reason: str) -> QueryResult | None:
        """Plan a query with a reason for the reports, or return None if Spark cannot run it as written either.

        Raises BadSpecError if it reads a table that is not a declared source, and typed errors for mistakes that
        Spark finds.
        """
        sources = self._referenced_sources(sql)
        if not sources:
            return None
        relations = open_relations(self._spark, sources.values())
        scans = [self._scan(name, relations[source.name], source, sql, reason) for name, source in sources.items()]
        frames = {scan.view: scan.planned.native("check").frame() for scan in scans}
        try:
            with self._views.shadowing(frames):
                analyzed = self._spark.sql(sql)
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about="query") from problem
        query = AnalyzedQuery(self._spark, self._views.shadowing, sql, frozenset(), frames, analyzed)
        return QueryResult(query, scans, ())

    def _referenced_sources(self, sql: str) -> dict[str, AnySource] | None:
        """Return the sources by the names that the query uses, or None if views cannot stand for all of them."""
        case_sensitive = is_case_sensitive(self._spark)
        names = relation_names_in(self._spark, sql, case_sensitive=case_sensitive)
        if names is None or any(len(name) > 1 for name in names):
            return None
        sources: dict[str, AnySource] = {}
        for (name,) in names:
            source = self._sources.get(name) if case_sensitive else find_source(self._sources, name)
            if source is None:
                raise BadSpecError(unknown_source_message(self._sources, name))
            # One view stands for all spellings of a name.
            if sources.setdefault(name if case_sensitive else name.lower(), source) is not source:
                return None
        return sources

    def _scan(self, name: str, relation: Relation, source: AnySource, sql: str, reason: str) -> QueryScan:
        """Return a scan of all columns and rows of a source."""
        projection = relation.projection(None)
        request = relation.request(projection, None).of_query(sql)
        planned = plan_scan(self._spark, relation, request, (*projection.notes, reason))
        return QueryScan(source.name, name, planned, planned.scan)
