"""`reorder_joins` for any PySpark job: join reordering of SQL over the session's tables, and of DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.optimizer.catalyst import is_lossless, is_query
from pushdown_spark.optimizer.dataframe_joins import DataFrameJoins
from pushdown_spark.optimizer.join_order.decision import ReorderSettings
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.passes.reorder_joins import JoinReordering
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.plans.sql_reader import ParsedQuery, UnreadableQueryError, as_spec_error, named_tables
from pushdown_spark.optimizer.query_result import explained_joins
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics, StatisticsRequest
from pushdown_spark.optimizer.statistics.session_statistics import SessionTableStatistics
from pushdown_spark.optimizer.statistics.source_statistics import SampleCache, SourceStatistics
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error


@dataclass(frozen=True)
class ReorderedJoins:
    """A query with its joins in order: the lazy DataFrame, its SQL (None for a DataFrame), and the joins."""

    df: DataFrame
    sql: str | None
    joins: tuple[JoinReport, ...]

    def explain(self) -> str:
        """Describe the join trees before and after."""
        return "\n".join(explained_joins(self.joins))


def reorder_joins(
    spark: SparkSession,
    query: str | DataFrame,
    *,
    options: JoinOptions | None = None,
    cache: SampleCache | None = None,
) -> ReorderedJoins:
    """Put the inner joins of a query over the session's tables and views into the cheapest order.

    Rows, column names and their order stay the same. Doubtful queries stay as they are, with the reason in the report.
    `cache` reuses samples of files for the next query. With Spark Connect, only SQL text can be reordered.

    >>> reorder_joins(spark, "SELECT ... FROM a, b, c WHERE ...").df              # doctest: +SKIP

    Raises BadSpecError if the text is not a query, and for a DataFrame of Spark Connect.
    """
    options = options or JoinOptions(min_bytes=0)
    statistics = SessionTableStatistics(spark, SourceStatistics(spark, cache or SampleCache()))
    if isinstance(query, str):
        return _reorder_text(spark, query, options, statistics)
    if not isinstance(spark, SparkSession):
        raise BadSpecError("query: with Spark Connect only SQL text can be reordered, not a DataFrame; pass the text")
    frame, joins = DataFrameJoins(spark, options, statistics).reorder(query)
    return ReorderedJoins(frame, None, joins)


def _reorder_text(
    spark: SparkSession, sql: str, options: JoinOptions, statistics: SessionTableStatistics
) -> ReorderedJoins:
    """Reorder the joins of SQL text. A query that sqlglot cannot read stays as it is written."""
    try:
        return _TextQuery(spark, sql, options, statistics).reorder()
    except (UnreadableQueryError, RecursionError) as problem:
        unreadable = as_spec_error(problem)
    # Spark Connect cannot distinguish a query from a command without running it.
    if not isinstance(spark, SparkSession) or not is_query(spark, sql):
        raise unreadable
    try:
        return ReorderedJoins(spark.sql(sql), sql, ())
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about="query") from problem


class _TextQuery:
    """SQL text over tables and views."""

    def __init__(self, spark: SparkSession, sql: str, options: JoinOptions, statistics: SessionTableStatistics) -> None:
        self._spark = spark
        self._options = options
        self._statistics = statistics
        self._query = ParsedQuery.of(sql)
        self._frames: dict[str, DataFrame] = {}

    def reorder(self) -> ReorderedJoins:
        """Reorder the joins. Raises typed errors for mistakes that Spark finds in the query."""
        analyze = cache(self._spark.sql)
        try:
            analyze(self._query.sql).schema  # noqa: B018 - Spark Connect only analyzes on access
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about="query") from problem
        names = {_quoted_name(table) for table in named_tables(self._query.tree)}
        try:
            self._frames = {name: self._spark.table(name) for name in names}
        except (AnalysisException, ParseException) as problem:
            raise UnreadableQueryError(f"query: {typed_error(problem)}") from problem
        resolver = ColumnNameResolver(self._columns_by_table())
        settings = ReorderSettings.of_session(self._spark, self._options)
        reordering = JoinReordering(
            self._spark, settings, resolver=resolver, table_statistics=self._table_statistics, types_of=self._types
        )
        is_same = partial(is_lossless, self._query.sql, self._query.generated_sql, analyze)
        best_query = reordering.reorder(self._query, analyze, is_same)
        return ReorderedJoins(analyze(best_query.sql), best_query.sql, best_query.joins)

    def _columns_by_table(self) -> dict[str, frozenset[str]]:
        """Return columns by the last part of a table's name, without names that different tables share."""
        columns: dict[str, frozenset[str] | None] = {}
        for table in named_tables(self._query.tree):
            own = frozenset(map(str.lower, self._frames[_quoted_name(table)].columns))
            columns[table.name] = own if columns.get(table.name, own) == own else None
        return {name: own for name, own in columns.items() if own is not None}

    def _table_statistics(
        self, table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
    ) -> RelationStatistics | None:
        if table.args.get("sample") is not None:
            return None
        key = _quoted_name(table)
        return self._statistics.statistics_of(key, self._frames[key], StatisticsRequest(name, conditions, keys))

    def _types(self, block: SelectBlock) -> ColumnTypes:
        tables = {
            name: _quoted_name(node)
            for name, node in block.relations.items()
            if isinstance(node, exp.Table) and block.is_table(name)
        }
        schemas = {name: self._frames[key].schema for name, key in tables.items() if key in self._frames}
        return ColumnTypes(schemas, name_rule=ANY_CASE)


def _quoted_name(table: exp.Table) -> str:
    return ".".join(quote_name(part.name) for part in table.parts)
