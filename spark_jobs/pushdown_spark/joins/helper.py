"""reorder_joins: the order of joins as a helper for any PySpark job, over the tables and views of its session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.contract.report_text import joins_text
from pushdown_spark.errors import BadSpecError
from pushdown_spark.joins.block import Block
from pushdown_spark.joins.cardinality import RelationFigures
from pushdown_spark.joins.catalyst import CatalystJoins
from pushdown_spark.joins.figures import SampleCache, SourceFigures, Wanted
from pushdown_spark.joins.ordering import Ordering
from pushdown_spark.joins.outputs import OutputNames
from pushdown_spark.joins.places import ColumnTypes, unqualified
from pushdown_spark.joins.relations import is_query
from pushdown_spark.joins.tables import TableFacts
from pushdown_spark.joins.text import ReadQuery, UnreadError, named_tables, refusal
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error


@dataclass(frozen=True)
class ReorderedJoins:
    """A query with its joins in order: the lazy frame, the text that it comes from (None for a frame), the joins."""

    df: DataFrame
    sql: str | None
    joins: tuple[JoinReport, ...]

    def explain(self) -> str:
        """The join trees before and after, in words."""
        lines = []
        for number, join in enumerate(self.joins, 1):
            lines += [f"joins {number}", *(f"  {line}" for line in joins_text(join))]
        return "\n".join(lines)


def reorder_joins(
    spark: SparkSession,
    query: str | DataFrame,
    *,
    options: JoinOptions | None = None,
    cache: SampleCache | None = None,
) -> ReorderedJoins:
    """A query over the session's own tables and views, or a frame, with its inner joins in the cheapest order.

    Rows, column names and their order stay the same; what is doubtful stays as it is, with the reason in the report.
    `cache` keeps what was seen of files for the next query. With Spark Connect only SQL text can be reordered.

    >>> reorder_joins(spark, "SELECT ... FROM a, b, c WHERE ...").df              # doctest: +SKIP

    Raises BadSpecError where the text is no query, and for a frame of Spark Connect.
    """
    options = options or JoinOptions(min_bytes=0)
    facts = TableFacts(spark, SourceFigures(spark, cache or SampleCache()))
    if isinstance(query, str):
        return _reordered(spark, query, options, facts)
    if not isinstance(spark, SparkSession):
        raise BadSpecError("query: with Spark Connect only SQL text can be reordered, not a DataFrame; give the text")
    frame, joins = CatalystJoins(spark, options, facts).reordered(query)
    return ReorderedJoins(frame, None, joins)


def _reordered(spark: SparkSession, text: str, options: JoinOptions, facts: TableFacts) -> ReorderedJoins:
    """SQL text in order; as it is where we cannot read it, but Spark takes it for a query."""
    try:
        return _TextQuery(spark, text, options, facts).reordered()
    except (UnreadError, RecursionError) as problem:
        unread = refusal(problem)
    # Spark Connect does not tell a query from a command before it runs it.
    if not isinstance(spark, SparkSession) or not is_query(spark, text):
        raise unread
    try:
        return ReorderedJoins(spark.sql(text), text, ())
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about="query") from problem


class _TextQuery:
    """SQL text over tables and views."""

    def __init__(self, spark: SparkSession, text: str, options: JoinOptions, facts: TableFacts) -> None:
        self._spark = spark
        self._options = options
        self._facts = facts
        self._query = ReadQuery.of(text)
        self._frames: dict[str, DataFrame] = {}

    def reordered(self) -> ReorderedJoins:
        """The query in order. Raises typed errors for what Spark finds wrong with it."""
        analysed = cache(self._spark.sql)
        try:
            analysed(self._query.text).schema  # noqa: B018 - Spark Connect analyses no sooner
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about="query") from problem
        try:
            self._frames = {_key(table): self._spark.table(_key(table)) for table in named_tables(self._query.tree)}
        except (AnalysisException, ParseException) as problem:
            raise UnreadError(f"query: {typed_error(problem)}") from problem
        names = OutputNames({name: columns for name, columns in self._columns().items() if columns is not None})
        ordering = Ordering(self._spark, self._options, names, self._figures, self._types)
        ordered = ordering.ordered(self._query, analysed)
        return ReorderedJoins(analysed(ordered.text), ordered.text, ordered.joins)

    def _columns(self) -> dict[str, frozenset[str] | None]:
        """Columns by the last part of a table's name, None where two tables share it."""
        found: dict[str, frozenset[str] | None] = {}
        for table in named_tables(self._query.tree):
            columns = frozenset(map(str.lower, self._frames[_key(table)].columns))
            found[table.name] = columns if found.get(table.name, columns) == columns else None
        return found

    def _figures(
        self, table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
    ) -> RelationFigures | None:
        if table.args.get("sample") is not None:
            return None
        wanted = Wanted(name, tuple(each.transform(unqualified, name) for each in conditions), keys)
        return self._facts.of(_key(table), self._frames[_key(table)], wanted)

    def _types(self, block: Block) -> ColumnTypes:
        relations = block.relations.items()
        tables = {name: node for name, node in relations if isinstance(node, exp.Table) and block.is_table(name)}
        schemas = {name: self._frames[_key(node)].schema for name, node in tables.items() if _key(node) in self._frames}
        return ColumnTypes(schemas, case_sensitive=False)


def _key(table: exp.Table) -> str:
    """The table's name as Spark takes it, quoted."""
    return ".".join(quote_name(part.name) for part in table.parts)
