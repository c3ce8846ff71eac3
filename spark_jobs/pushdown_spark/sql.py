"""The planner of SQL queries: over one source in this module, over several sources by the optimizer."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions
from pushdown_spark.expressions.parser import has_same_tokens
from pushdown_spark.expressions.predicate import METADATA_COLUMN, Predicate
from pushdown_spark.expressions.session_settings import hides_names, is_enabled, session_name_rule
from pushdown_spark.optimizer.catalyst import SessionVariables
from pushdown_spark.optimizer.optimizer import QueryOptimizer
from pushdown_spark.optimizer.plans.sql_dialect import predicate_of
from pushdown_spark.optimizer.plans.sql_reader import UnreadableQueryError, as_spec_error, parse_query
from pushdown_spark.optimizer.private_views import PrivateViews
from pushdown_spark.projection.required_columns import words_outside_names
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.open import RelationCache
from pushdown_spark.result import PushdownResult, ScanResult
from pushdown_spark.runtime.query_analysis import analyze
from pushdown_spark.scan_planner import plan_scan
from pushdown_spark.sources.declaration import AnySource, find_source

_READS_METADATA = f"the query runs as it is written, because it reads Spark's column {METADATA_COLUMN}"


class SqlPlanner:
    """The planner of SQL queries. Spark runs the query, and the readers of the sources get its conjuncts."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, AnySource], relations: RelationCache) -> None:
        """`relations` opens the sources."""
        self._spark = spark
        self._sources = sources
        self._relations = relations
        self._views = PrivateViews(spark)
        self.optimizer = QueryOptimizer(spark, sources, relations, self._views)

    def plan(self, sql: str, joins: JoinOptions) -> PushdownResult:
        """Plan a query. Spark gets the text of a query that sqlglot does not parse or that nests too deeply.

        Raises BadSpecError for text that is not a query over declared sources.
        """
        try:
            return self._plan(sql, joins)
        except (UnreadableQueryError, RecursionError) as problem:
            error = as_spec_error(problem)
        reason = (
            f"the query runs as it is written, because sqlglot cannot read it: {str(error).removeprefix('query: ')}"
        )
        result = self.optimizer.pass_through(sql, reason)
        if result is None:
            raise error
        return result

    def _plan(self, sql: str, joins: JoinOptions) -> PushdownResult:
        tree = parse_query(sql)
        tables = list(tree.find_all(exp.Table))
        name_rule = session_name_rule(self._spark)
        source = find_source(self._sources, tables[0].name, name_rule) if len(tables) == 1 else None
        if source is not None and isinstance(tree, exp.Select) and self._is_complete(sql, tree, tables[0]):
            return self._plan_one_source(sql, tree, tables[0].name, source)
        if METADATA_COLUMN in (name.name.lower() for name in tree.find_all(exp.Identifier)):
            result = self.optimizer.pass_through(sql, _READS_METADATA)
            if result is not None:
                return result
        return self.optimizer.optimize(sql, tree, joins)

    def _is_complete(self, sql: str, tree: exp.Select, table: exp.Table) -> bool:
        """Return whether the tree of a query over one table has all required columns by their own names."""
        if table.alias_column_names or len(table.parts) > 1 or "|>" in sql or hides_names(self._spark, sql):
            return False
        variables = SessionVariables(self._spark)
        return not any(variables.has(column.name) for column in tree.find_all(exp.Column) if len(column.parts) == 1)

    def _plan_one_source(self, sql: str, tree: exp.Select, name: str, source: AnySource) -> PushdownResult:
        """Plan a query with one reference to one source, which it calls `name`. The source's reader gets the WHERE."""
        relation = self._relations.open(source)
        predicate = self._predicate(sql, tree, relation)
        request = relation.query_request(tree, predicate, words_outside_names(sql, tree)).for_query(sql, tree)

        def run_query(frame: DataFrame) -> DataFrame:
            return self._views.query_as_written(sql, {name: frame})

        planned_scan = plan_scan(self._spark, relation, request)
        analysis = analyze(lambda: run_query(planned_scan.analysis_frame()), "query")
        scan = relation.full_pushdown(tree, request, analysis.columns)
        if scan is not None:
            return ScanResult(self._spark, request, scan)
        return ScanResult(self._spark, request, planned_scan.with_projection(run_query, run_query))

    def _predicate(self, sql: str, tree: exp.Select, relation: Relation) -> Predicate | None:
        """Return the WHERE over the source's own columns, or None if only Spark may apply it.

        Spark applies predicates with backslashes, because a tree hides them from the readers' checks, and predicates
        with double quotes if these may contain names.
        """
        where = tree.args.get("where")
        quotes_names = '"' in sql and is_enabled(self._spark, "spark.sql.ansi.doubleQuotedIdentifiers")
        # The WHERE must apply to every row of one table, without a join or sample before it.
        is_simple = (
            tree.find(exp.TableSample, exp.Pivot, exp.Lateral, exp.Join) is None
            and len(list(tree.find_all(exp.Table))) == len(list(tree.find_all(exp.Select))) == 1
        )
        if where is None or not is_simple or "\\" in sql or quotes_names or not has_same_tokens(sql):
            return None
        (table,) = tree.find_all(exp.Table)
        return predicate_of([where.this.transform(relation.unqualify, table.alias_or_name)])
