"""The optimizer for SQL over several sources: the list of its passes, and their driver.

Each pass is a function that returns a changed plan of a query. Spark runs the optimized query, with hints for the joins
that are to be broadcast. It runs queries that sqlglot cannot read as they are written, over complete sources.

>>> [optimize.__name__ for optimize in PASSES][:2]
['prune_columns', 'push_predicates']
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.optimizer.catalyst import relation_names_in
from pushdown_spark.optimizer.passes.add_broadcast_hints import add_broadcast_hints
from pushdown_spark.optimizer.passes.prune_columns import prune_columns
from pushdown_spark.optimizer.passes.push_predicates import push_predicates
from pushdown_spark.optimizer.passes.reduce_semi_joins import reduce_semi_joins
from pushdown_spark.optimizer.passes.reorder_joins import reorder_joins
from pushdown_spark.optimizer.passes.verify_parse import verify_parse
from pushdown_spark.optimizer.plans.sql_reader import (
    ParsedQuery,
    UnreadableQueryError,
    named_tables,
    referenced_cte,
    replace_table_names,
)
from pushdown_spark.optimizer.private_views import PrivateViews, has_metadata_name
from pushdown_spark.optimizer.query_context import (
    OptimizedQuery,
    QueryContext,
    QueryPlan,
    QueryScan,
    source_references,
)
from pushdown_spark.optimizer.query_result import AnalyzedQuery, QueryResult
from pushdown_spark.optimizer.statistics.source_statistics import SampleCache
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.open import RelationCache
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.scan_planner import plan_scan
from pushdown_spark.sources.declaration import AnySource, find_source, unknown_source

PASSES: tuple[Callable[[QueryContext, QueryPlan], QueryPlan], ...] = (
    prune_columns,
    # Infers predicates (`infer_predicates`) at every join that it passes.
    push_predicates,
    verify_parse,
    # The dynamic reduction. The static one changes the statistics of a chain, so it is part of reorder_joins.
    reduce_semi_joins,
    reorder_joins,
)
"""The passes in the order in which they run."""


class QueryOptimizer:
    """Optimizes queries over declared sources, with joins of every kind, sub-queries and set operations.

    `samples` keeps samples of the sources for later queries.
    """

    def __init__(
        self, spark: SparkSession, sources: Mapping[str, AnySource], relations: RelationCache, views: PrivateViews
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._relations = relations
        self._views = views
        self.samples = SampleCache()

    def optimize(self, sql: str, tree: exp.Query, options: JoinOptions) -> QueryResult:
        """Plan a query, given its text and its syntax tree.

        Raises UnreadableQueryError if sqlglot reads it differently from Spark, or if it reads a table that is not a
        declared source.
        """
        result = self._optimize(sql, tree, options, uses_keys=True)
        return result if result.has_accepted_guards() else self._optimize(sql, tree, options, uses_keys=False)

    def _optimize(self, sql: str, tree: exp.Query, options: JoinOptions, *, uses_keys: bool) -> QueryResult:
        """Plan a query, with or without predicates from the keys of its sources."""
        with closing(self._read(sql, tree, options, uses_keys=uses_keys)) as context:
            plan = QueryPlan(optimized_query=OptimizedQuery(context.query.sql, ()))
            for optimize in PASSES:
                plan = optimize(context, plan)
            best_query = plan.optimized_query
            # The next query of the session finds a warm JVM.
            self.samples.analysis_costs = replace(self.samples.analysis_costs, warmup=0.0)
            query = AnalyzedQuery(
                self._spark,
                self._views.query,
                best_query.sql,
                best_query.broadcast,
                context.frames,
                add_broadcast_hints(context.analyze(best_query.sql), best_query.broadcast),
                guards=plan.guards,
            )
            return QueryResult(query, list(plan.scans.values()), best_query.joins)

    def _read(self, sql: str, tree: exp.Query, options: JoinOptions, *, uses_keys: bool) -> QueryContext:
        """Open the sources of a query, and replace their names with those of private views."""
        tables = dict(enumerate(named_tables(tree)))
        if not tables:
            declared_names = ", ".join(sorted(self._sources))
            raise UnreadableQueryError(f"query: it reads none of the declared sources ({declared_names})")
        _check_reading(tree, session_name_rule(self._spark))
        token = uuid.uuid4().hex[:12]
        views = {number: f"pushdown_{token}_{number}" for number in tables}
        sources = {views[number]: self._find_source(table) for number, table in tables.items()}
        query = ParsedQuery.of(replace_table_names(sql, tables, views.__getitem__))
        # A source is opened once, however often the query refers to it.
        relations = self._relations.open_all({source.name: source for source in sources.values()}.values())
        references = source_references(query.tree, {view: relations[source.name] for view, source in sources.items()})
        return QueryContext(
            spark=self._spark,
            options=options,
            samples=self.samples,
            views=self._views,
            sql=sql,
            query=query,
            references=references,
            uses_keys=uses_keys,
        )

    def _find_source(self, table: exp.Table) -> AnySource:
        """Return the source that a table refers to. Raises UnreadableQueryError if there is none."""
        name = ".".join(part.name for part in table.parts)
        source = find_source(self._sources, name, session_name_rule(self._spark))
        if source is None:
            raise UnreadableQueryError(f"query: {unknown_source(self._sources, name)}")
        return source

    def pass_through(self, sql: str, reason: str) -> QueryResult | None:
        """Plan a query that Spark runs as written, given the reason for the reports. Return None if it cannot.

        Spark's parser returns the names of its sources, which are read completely. Raises BadSpecError if it reads a
        table that is not a declared source, and typed errors for mistakes that Spark finds.
        """
        sources = self._referenced_sources(sql)
        if not sources:
            return None
        relations = self._relations.open_all(sources.values())
        scans = [self._scan(name, relations[source.name], source, sql, reason) for name, source in sources.items()]
        frames = {scan.view: scan.planned_scan.analysis_frame() for scan in scans}
        try:
            frame = self._views.query_as_written(sql, frames)
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about="query") from problem
        query = AnalyzedQuery(self._spark, self._views.query_as_written, sql, frozenset(), frames, frame)
        return QueryResult(query, scans, ())

    def _referenced_sources(self, sql: str) -> dict[str, AnySource] | None:
        """Return the sources by the names that the query uses, or None if Spark cannot run it over these names."""
        name_rule = session_name_rule(self._spark)
        names = relation_names_in(self._spark, sql, name_rule=name_rule)
        # A view cannot have a name such as `shop.orders`. Such queries with `_metadata` use no views.
        if names is None or not (has_metadata_name(sql) or all(len(parts) == 1 for parts in names)):
            return None
        sources: dict[str, AnySource] = {}
        for name in map(".".join, names):
            source = find_source(self._sources, name, name_rule)
            if source is None:
                raise BadSpecError(f"query: {unknown_source(self._sources, name)}")
            # One relation stands for all spellings of a name.
            if sources.setdefault(name_rule.key(name), source) is not source:
                return None
        return sources

    def _scan(self, name: str, relation: Relation, source: AnySource, sql: str, reason: str) -> QueryScan:
        """Return a scan of all columns and rows of a source."""
        projection = relation.projection(None)
        request = relation.request(projection, None).for_query(sql, None).with_notes(reason)
        planned_scan = plan_scan(self._spark, relation, request)
        return QueryScan(source.name, name, planned_scan, planned_scan.scan, predicate=None)


def _check_reading(tree: exp.Expr, name_rule: NameRule) -> None:
    """Raise UnreadableQueryError if sqlglot is known to read a query differently from Spark."""
    if any(join.kind == "OUTER" and not join.side for join in tree.find_all(exp.Join)):
        raise UnreadableQueryError("query: a relation has the name OUTER")
    if any(node.args.get("symmetric") is not None for node in tree.find_all(exp.Between)):
        raise UnreadableQueryError("query: BETWEEN is followed by SYMMETRIC or ASYMMETRIC, which are names in Spark")
    if name_rule.case_sensitive:
        for table in tree.find_all(exp.Table):
            cte = referenced_cte(table)
            if cte is not None and cte.alias != table.name:
                raise UnreadableQueryError(
                    "query: the names of a table and of a common table expression differ by case alone"
                )
