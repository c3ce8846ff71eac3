"""Plan SQL text over one source: Spark runs the query, its WHERE also reaches the source's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_jobs.errors import BadSpecError
from spark_jobs.projection.implicit import implicit_references
from spark_jobs.readers.protocol import AnySource
from spark_jobs.result import PushdownResult, ScanResult, Shape, check
from spark_jobs.source import OpenedSource, open_source


class SqlPlanner:
    """Plans SQL text over one source: Spark runs the query, its WHERE also reaches the source's reader."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, AnySource]) -> None:
        self._spark = spark
        self._sources = sources

    def plan(self, sql: str) -> PushdownResult:
        """Raises BadSpecError where the text is no query over exactly one declared source."""
        tree = self._parsed(sql)
        source = self._only_source(tree)
        opened = open_source(self._spark, source)
        where = self._where(sql, tree, opened)
        names = tuple(sorted(opened.mentioned(tree)))
        projection = opened.projection(names)
        implicit = implicit_references(tree, opened.schema)
        request = opened.request(projection, where)
        if implicit:
            every = tuple(sorted({*request.implicit, *implicit}))
            request = replace(request, implicit=every, fill=opened.fill())

        def shaped(frame: DataFrame) -> DataFrame:
            frame.createOrReplaceTempView(source.name)
            return self._spark.sql(sql)

        planned = opened.planned(request, projection.notes)
        check(Shape(planned.native("check"), shaped), "query")
        return ScanResult(self._spark, source.name, Shape(planned.scan, shaped), planned.fallback(shaped))

    def _parsed(self, sql: str) -> exp.Select:
        try:
            tree = sqlglot.parse_one(sql, dialect="spark")
        except SqlglotError as problem:
            raise BadSpecError(f"query: {str(problem).splitlines()[0]}") from problem
        if not isinstance(tree, exp.Select):
            raise BadSpecError("query: only SELECT is possible")
        return tree

    def _only_source(self, tree: exp.Select) -> AnySource:
        names = {table.name for table in tree.find_all(exp.Table)}
        known = [self._sources[name] for name in names if name in self._sources]
        if len(names) != 1 or not known:
            there = ", ".join(sorted(self._sources)) or "none"
            raise BadSpecError(
                f"query: it must read exactly one declared source (there are {there}), not {sorted(names)}"
            )
        return known[0]

    def _where(self, sql: str, tree: exp.Select, opened: OpenedSource) -> str | None:
        """The WHERE over the source's own columns, or None where Spark alone must apply it.

        Backslashes are left to Spark because writing the predicate anew would hide them from those who judge it, and
        double quotes are where they may hold names.
        """
        found = tree.args.get("where")
        names = self._spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false") == "true" and '"' in sql
        if found is None or not self._simple(tree) or "\\" in sql or names:
            return None
        (table,) = tree.find_all(exp.Table)
        predicate = found.this.transform(opened.unqualified, table.alias_or_name)
        return str(predicate.sql(dialect="spark"))

    def _simple(self, tree: exp.Select) -> bool:
        """Whether the query's WHERE applies to every row read: one table reference, nothing between it and WHERE."""
        between = tree.find(exp.TableSample, exp.Pivot, exp.Lateral, exp.Join)
        return between is None and len(list(tree.find_all(exp.Table))) == len(list(tree.find_all(exp.Select))) == 1
