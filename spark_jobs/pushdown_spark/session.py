"""PushdownSession, the public entry point with and without Airflow."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, Unpack

from pydantic import BaseModel, ValidationError
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import (
    AnySourceSpec,
    JoinOptions,
    QuerySpec,
    RemoteConnection,
    RemoteSourceSpec,
    SourceSpec,
    TableSourceSpec,
)
from pushdown_spark.contract.message import problems_of
from pushdown_spark.contract.sources import FileFields, ReaderFields, RemoteFields
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import shorten_lists
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import shared_settings
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.open import RelationCache
from pushdown_spark.result import PushdownResult, ScanResult
from pushdown_spark.runtime.query_analysis import analyze, check_interval, parses
from pushdown_spark.scan.base_scan import ProjectedScan
from pushdown_spark.scan_planner import PlannedScan, plan_scan
from pushdown_spark.sources.declaration import AnySource, DatabaseSource, Source, unknown_source

if TYPE_CHECKING:
    from pushdown_spark.sql import SqlPlanner

Spec = TypeVar("Spec", bound=BaseModel)


class PushdownSession:
    """Named sources and queries over them.

    >>> session = PushdownSession(spark)                                            # doctest: +SKIP
    >>> session.add_source(                                                         # doctest: +SKIP
    ...     "events", path="events/*.json", format="json", schema="id bigint, type string"
    ... )
    >>> session.scan("events", columns=["id"], where="type = 'buy'", limit=10).df   # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession, *, has_just_started: bool = False) -> None:
        """`has_just_started` is whether Spark has just started. Estimates then include the start of Python workers."""
        self._spark = spark
        self._has_just_started = has_just_started
        self._sources: dict[str, AnySource] = {}
        self._relations = RelationCache(spark)
        self._planner: SqlPlanner | None = None

    def add_source(self, name: str, *, path: str | Sequence[str], format: str, **fields: Unpack[FileFields]) -> None:
        """Declare a source of files. `fields` are other fields of `SourceSpec`, or None for their defaults.

        Raises BadSpecError for invalid values.
        """
        if fields.get("max_malformed") is not None:
            raise BadSpecError(f"source {name!r}: max_malformed: only jobs have this limit; remove it")
        paths = (path,) if isinstance(path, str) else tuple(path)
        self.add(name, _build_model(name, SourceSpec, {"format": format, "path": paths, **fields}))

    def add_table(self, name: str, table: str, **fields: Unpack[ReaderFields]) -> None:
        """Declare a table or view of Spark's catalog. `fields` are fields of `TableSourceSpec`, such as `reader`.

        >>> session.add_table("events", "db.events", reader="pushdown")                 # doctest: +SKIP

        Raises BadSpecError for invalid values.
        """
        self.add(name, _build_model(name, TableSourceSpec, {"table": table, **fields}))

    def add_remote(self, name: str, connection: Mapping[str, object], **fields: Unpack[RemoteFields]) -> None:
        """Declare a database table.

        `connection` has fields of `RemoteConnection`. `fields` are fields of `RemoteSourceSpec`, such as `table`.

        >>> session.add_remote("orders", {"kind": "sqlite", "database": "shop.db"}, table="orders")   # doctest: +SKIP

        Raises BadSpecError for invalid values. Its message never shows values of the connection.
        """
        database = _build_model(name, RemoteConnection, connection)
        self.add(name, _build_model(name, RemoteSourceSpec, fields), database)

    def add(self, name: str, source: AnySourceSpec, connection: RemoteConnection | None = None) -> None:
        """Declare a source from its part of a job spec, a database source with its connection.

        Raises BadSpecError for incompatible settings.
        """
        if isinstance(source, RemoteSourceSpec):
            if connection is None:
                raise BadSpecError(
                    f"source {name!r}: a table of a database needs its connection; give it as `connection`, or in "
                    "`remote` of the secrets of a job"
                )
            self._sources[name] = DatabaseSource(name, source, connection)
            return
        self._sources[name] = Source.of(name, source, has_just_started=self._has_just_started)

    def scan(
        self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> PushdownResult:
        """Return rows of one source: `columns` (paths, or None for all), `where` as Spark SQL, at most `limit` rows.

        Raises typed errors for unknown sources and columns, for predicates and schemas that do not parse, and for
        missing paths.
        """
        return self.query(
            QuerySpec(source=name, columns=None if columns is None else tuple(columns), where=where, limit=limit)
        )

    def sql(self, query: str, joins: JoinOptions | None = None) -> PushdownResult:
        """Return the rows of a SQL query over declared sources. Readers get the conjuncts about their source.

        `joins` has the options of the optimizer. By default, it reorders joins by estimated cost.
        """
        return self.query(QuerySpec(sql=query, joins=joins or JoinOptions()))

    def query(self, query: QuerySpec) -> PushdownResult:
        """Return the rows of a query of a job spec."""
        with _paused_garbage_collector(), shared_settings():
            if query.sql is not None:
                return self._sql_planner().plan(query.sql, query.joins)
            check_interval(self._spark, query)
            source = self._source(query.source or "")
            return _plan(self._spark, self._relations.open(source), query)

    def _sql_planner(self) -> SqlPlanner:
        """Return the planner of SQL queries, which keeps samples of the sources."""
        if self._planner is None:
            # Importing the optimizer is slow, and most jobs scan one source.
            from pushdown_spark.sql import SqlPlanner

            self._planner = SqlPlanner(self._spark, self._sources, self._relations)
        return self._planner

    def _source(self, name: str) -> AnySource:
        if name not in self._sources:
            raise BadSpecError(unknown_source(self._sources, name))
        return self._sources[name]


def _build_model(name: str, model: type[Spec], fields: Mapping[str, object]) -> Spec:
    """Return the model of the fields that are not None. Raises BadSpecError for invalid values."""
    try:
        return model.model_validate({field: value for field, value in fields.items() if value is not None})
    except ValidationError as problem:
        # Not chained, because the cause would show values of a connection.
        raise BadSpecError(f"source {name!r}: {problems_of(problem)[0]}") from None


@contextmanager
def _paused_garbage_collector() -> Iterator[None]:
    """Pause the garbage collector during planning: it would visit large trees many times and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _plan(spark: SparkSession, relation: Relation, query: QuerySpec) -> PushdownResult:
    """Resolve the columns, parse the predicate, choose a reader, and select its rows."""
    relation = relation.with_unnamed_fields(query.columns)
    projection, where = relation.projection(query.columns), query.predicate

    def select(frame: DataFrame) -> DataFrame:
        # A projection that changes nothing would cost time to parse.
        return frame if projection.selects_exactly(frame.columns) else frame.selectExpr(*projection.select_items)

    def filter_and_select(frame: DataFrame) -> DataFrame:
        return select(frame if where is None else frame.where(where))

    predicate = None if where is None else Predicate.parse(where)
    request = relation.request(projection, predicate)
    planned_scan = plan_scan(spark, relation, request)
    scan = planned_scan.with_projection(
        filter_and_select if planned_scan.scan.needs_recheck else select, filter_and_select
    )
    if not (planned_scan.is_resolved and projection.is_plain and parses(spark, where)):
        _check_query(planned_scan, scan, select, where)
    return ScanResult(
        spark,
        request,
        scan,
        limit=query.limit,
        counts_by_scan=query.limit is None and planned_scan.scan.counts_result_rows(has_predicate=where is not None),
    )


def _check_query(
    planned_scan: PlannedScan, scan: ProjectedScan, select: Callable[[DataFrame], DataFrame], where: str | None
) -> None:
    """Analyze a query with Spark, so that its errors name `where`. Spark's own scan keeps the DataFrame for the run."""
    short_where = None if where is None else shorten_lists(where)
    if scan.scan.is_by_spark and short_where == where:
        analyze(scan.frame, "where")
    else:
        frame = planned_scan.analysis_frame()
        analyze(lambda: select(frame if short_where is None else frame.where(short_where)), "where")
