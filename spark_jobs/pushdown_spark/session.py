"""PushdownSession: the library's front door, usable with and without Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.collector import paused_collector
from pushdown_spark.contract import JoinOptions, QuerySpec, ReaderChoice, RemoteConnection, RemoteSourceSpec, SourceSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import shortened
from pushdown_spark.projection.catalog import catalog_of
from pushdown_spark.readers.protocol import AnySource, RemoteSource, Source
from pushdown_spark.result import PushdownResult, ScanResult, Shape, check, counts_results, parses
from pushdown_spark.source import open_source

if TYPE_CHECKING:
    from pushdown_spark.sql import SqlPlanner


class PushdownSession:
    """Named sources, and queries over them that read no more than they must.

    >>> session = PushdownSession(spark)                                            # doctest: +SKIP
    >>> session.add_source(                                                         # doctest: +SKIP
    ...     "events", path="events/*.json", format="json", schema="id bigint, type string"
    ... )
    >>> session.scan("events", columns=["id"], where="type = 'buy'", limit=10).df   # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession, *, cold: bool = False) -> None:
        """`cold` tells that Spark has just started: readers in Python then have to make up for starting Python too."""
        self._spark = spark
        self._cold = cold
        self._sources: dict[str, AnySource] = {}
        self._planner: SqlPlanner | None = None

    def add_source(
        self,
        name: str,
        *,
        path: str | Sequence[str],
        format: str,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
        reader: str = "auto",
        filter_pushdown: bool = True,
        orc: Mapping[str, object] | None = None,
        on_schema_conflict: str = "error",
        on_missing_column: str = "null",
        implicit_names: Mapping[str, str] | None = None,
        implicit_columns: Sequence[str] = (),
    ) -> None:
        """Declare a source; `orc` holds fields of `OrcOptions`, the other parameters are those of `SourceSpec`.

        Raises BadSpecError for values that it cannot have.
        """
        paths = (path,) if isinstance(path, str) else tuple(path)
        try:
            spec = SourceSpec.model_validate(
                {
                    "format": format,
                    "path": paths,
                    "schema": schema,
                    "options": dict(options or {}),
                    "reader": reader,
                    "filter_pushdown": filter_pushdown,
                    "orc": dict(orc or {}),
                    "on_schema_conflict": on_schema_conflict,
                    "on_missing_column": on_missing_column,
                    "implicit_names": dict(implicit_names or {}),
                    "implicit_columns": tuple(implicit_columns),
                }
            )
        except ValidationError as problem:
            first = problem.errors()[0]
            said = first["msg"].removeprefix("Value error, ")
            raise BadSpecError(f"source {name!r}: {'.'.join(map(str, first['loc']))}: {said}") from problem
        self.add(name, spec)

    def add_remote(self, name: str, connection: Mapping[str, object], **table: object) -> None:
        """Declare a remote table: fields of `RemoteConnection`, then fields of `RemoteSourceSpec` by their names.

        >>> session.add_remote("orders", {"kind": "sqlite", "database": "shop.db"}, table="orders")   # doctest: +SKIP

        Raises BadSpecError, which never shows the connection's values, for what they cannot be.
        """
        try:
            reached = RemoteConnection.model_validate(dict(connection))
            spec = RemoteSourceSpec.model_validate(table)
        except ValidationError as problem:
            first = problem.errors(include_input=False)[0]
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise BadSpecError(f"source {name!r}: {what.removeprefix(': ')}") from None
        self.add(name, spec, reached)

    def add(self, name: str, source: SourceSpec | RemoteSourceSpec, connection: RemoteConnection | None = None) -> None:
        """Declare a source from its part of a job spec, a remote one with its connection.

        Raises BadSpecError for settings that contradict each other.
        """
        if isinstance(source, RemoteSourceSpec):
            if connection is None:
                raise BadSpecError(f"source {name!r}: a remote table needs a connection among the secrets")
            self._sources[name] = RemoteSource(name, source, connection)
            return
        if source.orc.use_selected and source.reader is not ReaderChoice.PUSHDOWN:
            raise BadSpecError(
                f"source {name!r}: use_selected=True needs reader='pushdown': Spark's reader returns no rows at all "
                "with orc.filter.use.selected"
            )
        self._sources[name] = Source(
            name,
            source.format,
            source.path,
            source.schema_ddl,
            {key.lower(): value for key, value in source.options.items()},
            source.reader,
            source.filter_pushdown,
            source.orc,
            source.on_schema_conflict,
            source.on_missing_column,
            catalog_of(source.implicit_names, source.implicit_columns),
            self._cold,
            source.max_malformed,
        )

    def scan(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> PushdownResult:
        """Rows of one source: `columns` (paths, None for all), `where` as Spark SQL, at most `limit` rows.

        Raises typed errors for unknown sources and columns, predicates and schemas that do not parse, missing paths.
        """
        return self.query(
            QuerySpec(source=name, columns=None if columns is None else tuple(columns), where=where, limit=limit)
        )

    def sql(self, query: str, joins: JoinOptions | None = None) -> PushdownResult:
        """Rows of a SQL query over declared sources; conditions that concern one source alone reach its reader.

        `joins` says how the joins may be changed; by default their order follows the estimates.
        """
        return self.query(QuerySpec(sql=query, joins=joins or JoinOptions()))

    def query(self, query: QuerySpec) -> PushdownResult:
        """Rows of a query as a job spec states it."""
        with paused_collector():
            if query.sql is not None:
                return self._sql_planner().plan(query.sql, query.joins)
            return _plan(self._spark, self._source(query.source or ""), query)

    def _sql_planner(self) -> SqlPlanner:
        """The planner of texts, which keeps what it has seen of the sources' files."""
        if self._planner is None:
            # What joins need takes a fifth of a second to load, and most jobs scan one source.
            from pushdown_spark.joins.figures import SampleCache
            from pushdown_spark.sql import SqlPlanner

            self._planner = SqlPlanner(self._spark, self._sources, SampleCache())
        return self._planner

    def _source(self, name: str) -> AnySource:
        if name not in self._sources:
            raise BadSpecError(f"no source is named {name!r}; there are {', '.join(sorted(self._sources)) or 'none'}")
        return self._sources[name]


def _plan(spark: SparkSession, source: AnySource, query: QuerySpec) -> PushdownResult:
    """Resolve columns, choose a reader, and shape its rows."""
    opened = open_source(spark, source)
    projection = opened.projection(query.columns)

    def selected(frame: DataFrame) -> DataFrame:
        # Spark's parser takes milliseconds for what is there already.
        return frame if projection.is_of(frame.columns) else frame.selectExpr(*projection.select_items)

    def filtered(frame: DataFrame) -> DataFrame:
        return selected(frame if query.where is None else frame.where(query.where))

    def checked(frame: DataFrame) -> DataFrame:
        return selected(frame if query.where is None else frame.where(shortened(query.where)))

    request = opened.request(projection, query.where)
    planned = opened.planned(request, projection.notes)
    shape = Shape(planned.scan, selected if planned.scan.exact else filtered)
    if not (planned.is_understood and projection.is_plain and parses(spark, query.where)):
        check(Shape(planned.native("check"), checked), "where")
    every_row = query.limit is None and counts_results(planned.scan, filters=query.where is not None)
    return ScanResult(
        spark,
        source.name,
        shape,
        planned.fallback(filtered),
        limit=query.limit,
        every_row=every_row,
        problem=planned.problem,
    )
