"""Plan SQL text: over one source here, over several by the planner of joins; Spark runs the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract import JoinOptions
from pushdown_spark.expressions.parser import read_alike, with_intervals_grouped
from pushdown_spark.joins.as_written import AsWritten
from pushdown_spark.joins.figures import SampleCache
from pushdown_spark.joins.planner import JoinPlanner
from pushdown_spark.joins.text import UnreadError, refusal
from pushdown_spark.joins.variables import SessionVariables
from pushdown_spark.joins.views import PrivateViews
from pushdown_spark.projection.needed import lost_words
from pushdown_spark.readers.predicate_settings import hides_names
from pushdown_spark.readers.protocol import AnySource, spark_only
from pushdown_spark.result import PushdownResult, ScanResult, Shape, check
from pushdown_spark.source import OpenedSource, open_source


class SqlPlanner:
    """Plans SQL text: Spark runs the query, its conditions also reach the sources' readers."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, AnySource], cache: SampleCache) -> None:
        """`cache` keeps what was seen of the sources' files for the next query."""
        self._spark = spark
        self._sources = sources
        self._cache = cache
        self._views = PrivateViews(spark)

    def plan(self, sql: str, joins: JoinOptions) -> PushdownResult:
        """Raises BadSpecError where the text is no query over declared sources.

        What we cannot read, or what nests too deeply, is left to Spark as it is written.
        """
        try:
            return self._plan(sql, joins)
        except (UnreadError, RecursionError) as problem:
            unread = refusal(problem)
        reason = f"the query is left as it is written, we cannot read it: {str(unread).removeprefix('query: ')}"
        left = AsWritten(self._spark, self._sources, self._views).plan(sql, reason)
        if left is None:
            raise unread
        return left

    def _plan(self, sql: str, joins: JoinOptions) -> PushdownResult:
        tree = self._parsed(sql)
        tables = list(tree.find_all(exp.Table))
        named = self._sources.get(_plain_name(tables[0])) if len(tables) == 1 else None
        if named is not None and isinstance(tree, exp.Select) and self._says_all(sql, tree, tables[0]):
            return self._over_one(sql, tree, named)
        return JoinPlanner(self._spark, self._sources, joins, self._cache, self._views).plan(sql)

    def _says_all(self, sql: str, tree: exp.Select, table: exp.Table) -> bool:
        """Whether the tree of a query over one table tells what is read of it, under the table's own names."""
        if table.alias_column_names or len(table.parts) > 1 or "|>" in sql or hides_names(self._spark, sql):
            return False
        variables = SessionVariables(self._spark)
        return not any(variables.has(column.name) for column in tree.find_all(exp.Column) if len(column.parts) == 1)

    def _over_one(self, sql: str, tree: exp.Select, source: AnySource) -> PushdownResult:
        """One reference to one source: its WHERE reaches the source's reader."""
        opened = open_source(self._spark, source)
        where = self._where(sql, tree, opened)
        request, notes = opened.query_request(tree, where, lost_words(sql, tree))
        request = replace(request, spark_only=request.spark_only or spark_only(sql))

        def shaped(frame: DataFrame) -> DataFrame:
            with self._views.under(source.name, frame):
                return self._spark.sql(sql)

        planned = opened.planned(request, notes)
        analysed = check(Shape(planned.native("check"), shaped), "query")
        if (whole := opened.answer(tree, request, notes)) is not None:
            return ScanResult(self._spark, source.name, Shape(whole.scan, whole.shaped(analysed.columns)), None)
        shape = Shape(planned.scan, shaped)
        return ScanResult(self._spark, source.name, shape, planned.fallback(shaped), problem=planned.problem)

    def _parsed(self, sql: str) -> exp.Query:
        try:
            tree = sqlglot.parse_one(sql, dialect="spark")
        except SqlglotError as problem:
            raise UnreadError(f"query: {str(problem).splitlines()[0]}") from problem
        if not isinstance(tree, exp.Query):
            raise UnreadError("query: only SELECT is possible")
        return with_intervals_grouped(tree)

    def _where(self, sql: str, tree: exp.Select, opened: OpenedSource) -> str | None:
        """The WHERE over the source's own columns, or None where Spark alone must apply it.

        Backslashes are left to Spark because writing the predicate anew would hide them from those who judge it, and
        double quotes are where they may hold names.
        """
        found = tree.args.get("where")
        names = self._spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false") == "true" and '"' in sql
        if found is None or not self._simple(tree) or "\\" in sql or names or not read_alike(sql):
            return None
        (table,) = tree.find_all(exp.Table)
        predicate = found.this.transform(opened.unqualified, table.alias_or_name)
        return str(predicate.sql(dialect="spark"))

    def _simple(self, tree: exp.Select) -> bool:
        """Whether the query's WHERE applies to every row read: one table reference, nothing between it and WHERE."""
        between = tree.find(exp.TableSample, exp.Pivot, exp.Lateral, exp.Join)
        return between is None and len(list(tree.find_all(exp.Table))) == len(list(tree.find_all(exp.Select))) == 1


def _plain_name(table: exp.Table) -> str:
    """The name in one part; with a database's before it a table is no source of that name."""
    return ".".join(part.name for part in table.parts)
