"""The state of a query during optimization: its sources in a session, and the decisions of the passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import FORMATS_WITHOUT_FILES, JoinOptions, JoinReport
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.conjuncts import without_relation
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.parser import has_same_tokens
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.optimizer.catalyst import is_lossless
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.key_guard import KeyGuard
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.select_block import SelectBlock, select_blocks
from pushdown_spark.optimizer.plans.sql_dialect import predicate_of
from pushdown_spark.optimizer.plans.sql_reader import ParsedQuery, named_tables
from pushdown_spark.optimizer.private_views import PrivateViews
from pushdown_spark.optimizer.statistics.collection_time import check_statistics_time
from pushdown_spark.optimizer.statistics.source_statistics import SampleCache, SourceStatistics
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.scan.base_scan import Scan
from pushdown_spark.scan_planner import PlannedScan, plan_scan


@dataclass(frozen=True)
class SourceReference:
    """A reference of a query to a source.

    `key` names it in reports, `view` in the text, and `table` is its syntax tree.
    """

    key: str
    view: str
    table: exp.Table
    relation: Relation

    @property
    def is_of_files(self) -> bool:
        """Whether the source consists of files, unlike a view or a table of a database."""
        return self.relation.source.format not in FORMATS_WITHOUT_FILES


@dataclass(frozen=True)
class RequiredColumns:
    """The columns that a query needs of a source, and the implicit columns."""

    columns: tuple[str, ...]
    implicit: tuple[str, ...]


@dataclass(frozen=True)
class SemiJoin:
    """A predicate on a source from the keys of another one, a note for the report, and the guard of the keys."""

    view: str
    predicate: exp.Expr
    note: str
    guard: KeyGuard


@dataclass(frozen=True)
class OptimizedQuery:
    """The SQL of a query as Spark runs it, and the joins of its SELECTs, outer ones first.

    `broadcast` are sets of tables by name. Spark broadcasts the results of their joins. `guards` are the guards of the
    keys that the SQL contains.
    """

    sql: str
    joins: tuple[JoinReport, ...]
    broadcast: frozenset[frozenset[str]] = frozenset()
    guards: tuple[KeyGuard, ...] = ()


@dataclass(frozen=True)
class QueryScan:
    """A scan of a source for one reference of a query. `key` names it in reports, `view` in the query's text.

    `predicate` was pushed into the scan.
    """

    key: str
    view: str
    planned_scan: PlannedScan
    scan: Scan
    predicate: Predicate | None

    def by_spark(self, reason: str) -> QueryScan:
        """Return the scan by Spark's own reader if that can replace this one, or else this scan."""
        return replace(self, scan=self.planned_scan.spark_scan(reason)) if self.planned_scan.has_fallback else self


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """The decisions of the passes about a query. Each pass returns a new plan. The keys of mappings are views."""

    required: Mapping[str, RequiredColumns] = field(default_factory=dict)
    """The required columns."""
    predicates: Mapping[str, Sequence[exp.Expr]] = field(default_factory=dict)
    """The pushed predicates."""
    semi_joins: Mapping[str, Sequence[SemiJoin]] = field(default_factory=dict)
    """The semi-join reductions."""
    scans: Mapping[str, QueryScan] = field(default_factory=dict)
    """The scans with these columns and predicates."""
    optimized_query: OptimizedQuery
    """The query as Spark runs it."""

    @property
    def guards(self) -> tuple[KeyGuard, ...]:
        """The guards of all keys that the plan contains."""
        dynamic = (semi_join.guard for semi_joins in self.semi_joins.values() for semi_join in semi_joins)
        return tuple(dict.fromkeys((*dynamic, *self.optimized_query.guards)))


@dataclass(frozen=True, kw_only=True)
class QueryContext:
    """A query in its session. Temporary views stand for its sources until it is closed.

    `query` has the names of these views in place of the sources' names in `sql`. `samples` and `views` belong to the
    session.
    """

    spark: SparkSession
    options: JoinOptions
    samples: SampleCache
    views: PrivateViews
    sql: str
    query: ParsedQuery
    references: Sequence[SourceReference]
    uses_keys: bool
    """Whether keys that planning reads may become predicates, whose guards are not deterministic."""
    frames: dict[str, DataFrame] = field(default_factory=dict, init=False)
    """Spark's own scans by view, over which it analyzes the query, after `register`."""
    _registered: ExitStack = field(default_factory=ExitStack, init=False)
    _frames_by_sql: dict[str, DataFrame] = field(default_factory=dict, init=False)

    @cached_property
    def name_rule(self) -> NameRule:
        """How the session compares names."""
        return session_name_rule(self.spark)

    @cached_property
    def has_plain_literals(self) -> bool:
        """Whether predicates can be written again. It would hide backslashes from later checks."""
        return "\\" not in self.sql and has_same_tokens(self.sql)

    @cached_property
    def by_view(self) -> dict[str, SourceReference]:
        """The references by view."""
        return {reference.view: reference for reference in self.references}

    @cached_property
    def columns_by_view(self) -> dict[str, frozenset[str]]:
        """The names of the columns by view, in lower case."""
        return {
            view: frozenset(map(str.lower, reference.relation.schema.fieldNames()))
            for view, reference in self.by_view.items()
        }

    @cached_property
    def resolver(self) -> ColumnNameResolver:
        """The resolver of column names to views."""
        return ColumnNameResolver(self.columns_by_view)

    def close(self) -> None:
        """Drop the views that stand for the sources."""
        self._registered.close()

    def register(self, scans: Mapping[str, QueryScan]) -> None:
        """Register the views for `analyze`."""
        self.frames.update((view, scan.planned_scan.analysis_frame()) for view, scan in scans.items())
        self._registered.enter_context(self.views.register(self.frames))

    def analyze(self, sql: str) -> DataFrame:
        """Have Spark analyze SQL text over the views."""
        if sql not in self._frames_by_sql:
            self._frames_by_sql[sql] = self.spark.sql(sql)
        return self._frames_by_sql[sql]

    @cached_property
    def is_lossless(self) -> bool:
        """Whether Spark reads the SQL that sqlglot writes of the query as the same query."""
        return is_lossless(self.query.sql, self.query.generated_sql, self.analyze)

    def with_scans(self, plan: QueryPlan, views: Iterable[str]) -> QueryPlan:
        """Return a plan whose scans of some views have its columns and predicates."""
        scans = {view: self._plan_scan(plan, self.by_view[view]) for view in views}
        return replace(plan, scans={**plan.scans, **scans})

    def _plan_scan(self, plan: QueryPlan, reference: SourceReference) -> QueryScan:
        relation, required = reference.relation, plan.required[reference.view]
        semi_joins = plan.semi_joins.get(reference.view, ())
        conditions = plan.predicates.get(reference.view, ())
        predicate = predicate_of([*conditions, *(semi_join.predicate for semi_join in semi_joins)])
        projection = relation.projection([quote_name(name) for name in required.columns])
        request = relation.request(projection, predicate)
        implicit = tuple(sorted({*request.implicit_columns, *required.implicit}))
        if implicit:
            request = replace(request, implicit_columns=implicit, implicit_values=relation.implicit_values())
        request = request.for_query(self.sql, self.query.tree)
        request = request.with_notes(*(semi_join.note for semi_join in semi_joins))
        scan = plan_scan(self.spark, relation, request)
        return QueryScan(reference.key, reference.view, scan, scan.scan, predicate)

    @cached_property
    def blocks(self) -> tuple[SelectBlock, ...]:
        """The SELECTs of the query."""
        return tuple(select_blocks(self.query.tree, self.resolver.columns_of))

    def references_in(self, block: SelectBlock) -> dict[str, SourceReference]:
        """Return the references of a block, by their names in it, whose columns keep their names there."""
        return {
            name: self.by_view[node.name]
            for name, node in block.relations.items()
            if isinstance(node, exp.Table) and node.name in self.by_view and not node.alias_column_names
        }

    def types_in(self, block: SelectBlock) -> ColumnTypes:
        """Return the types of the columns of a block."""
        schemas = {name: reference.relation.schema for name, reference in self.references_in(block).items()}
        return ColumnTypes(schemas, name_rule=self.name_rule)

    @cached_property
    def statistics(self) -> SourceStatistics:
        """The statistics of the sources."""
        return SourceStatistics(self.spark, self.samples)

    @cached_property
    def statistics_obstacle(self) -> str | None:
        """The reason why no statistics are collected for this query, or None if they are."""
        relations = [reference.relation for reference in self.references]
        sizes = [(relation.source.format, self.statistics.file_bytes(relation)) for relation in relations]
        # A source that is referenced twice is sampled once.
        new = sum(not self.statistics.is_sampled(relation) for relation in set(relations))
        processors = self.spark.sparkContext.defaultParallelism
        try:
            check_statistics_time(self.options, self.samples.analysis_costs, sizes, new, processors)
        except UnsupportedError as problem:
            return str(problem)
        return None


def source_references(tree: exp.Expr, relations: Mapping[str, Relation]) -> list[SourceReference]:
    """Return the references of a query to sources. `relations` holds the relation of each view."""
    counts = Counter(relation.source.name for relation in relations.values())
    keys: Counter[str] = Counter()
    references = []
    for table in named_tables(tree):
        name = relations[table.name].source.name
        key = name if counts[name] == 1 else f"{name} as {table.alias}"
        keys[key] += 1
        key = key if keys[key] == 1 else f"{key} ({keys[key]})"
        references.append(SourceReference(key, table.name, table, relations[table.name]))
    return references


def remove_qualifier(condition: exp.Expr, relation: str) -> exp.Expr:
    """Return a condition whose columns are not qualified with a relation.

    >>> import sqlglot
    >>> remove_qualifier(sqlglot.condition("a.x > b.y"), "a").sql()
    'x > b.y'
    """

    def unqualify(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) < 2 or node.parts[0].name.lower() != relation:
            return node
        return without_relation(node)

    return condition.transform(unqualify)
