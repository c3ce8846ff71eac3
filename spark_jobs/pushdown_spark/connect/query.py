"""Plans of queries over Spark Connect, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.connect.relation import ConnectRelation
from pushdown_spark.connect.text_scan import plan_connect_text
from pushdown_spark.contract import IntervalSpec, OutputChecks, QuerySpec, ReaderChoice, SourceFormat, SourceReport
from pushdown_spark.errors import BadSpecError, PushdownError, UnsupportedError
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import session_name_rule, temporary_settings
from pushdown_spark.formats.orc.spark_reader import check_lost_columns
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS, obstacle_of_predicate
from pushdown_spark.formats.spark_reader.unknown_filters import unsafe_columns
from pushdown_spark.optimizer.plans.sql_reader import named_tables, parse_query
from pushdown_spark.output.checks import RowObserver
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.result import PushdownResult, plan_lines
from pushdown_spark.runtime.fallback import recoverable_errors_as_unsupported
from pushdown_spark.runtime.query_analysis import analyze
from pushdown_spark.scan.base_scan import Scan
from pushdown_spark.sources.declaration import Source, unknown_source
from pushdown_spark.sources.request import ScanRequest, unsupported_conjunct

T = TypeVar("T")

_NO_GATEWAY = "Spark Connect has no JVM gateway"
_MAY_LOSE_ROWS = "Spark's filter pushdown may lose rows with the values of some columns, or fail"
_TEXT_FORMATS = frozenset({SourceFormat.JSON, SourceFormat.CSV})


class ServerScan(Scan):
    """A scan by Spark's reader on the server, for a reason. Spark does not show its clients what it pushes down."""

    is_by_spark = True

    def __init__(self, request: ScanRequest, reason: str, filter_obstacle: str | None) -> None:
        """`filter_obstacle` is why filter pushdown is off in the server's reader, or None if it may be on."""
        self._request = request
        self._reason = reason
        self._filter_obstacle = filter_obstacle

    def frame(self) -> DataFrame:
        """Return Spark's own DataFrame."""
        return self._request.spark_frame

    def report(self) -> SourceReport:
        """Return the plan. Spark Connect does not show what the server reads."""
        predicate = self._request.predicate
        conjuncts = () if predicate is None else predicate.conjunct_texts
        why = self._filter_obstacle or f"{_NO_GATEWAY} that shows the filters of Spark's reader"
        return SourceReport(
            reader="spark",
            reason=self._reason,
            conjuncts=tuple(unsupported_conjunct(sql, why) for sql in conjuncts),
            columns=self._request.columns,
            notes=self._request.notes,
        )


class ConnectResult(PushdownResult):
    """A planned query over a Spark Connect server."""

    def __init__(
        self,
        reports: Callable[[], dict[str, SourceReport]],
        frame: Callable[[], DataFrame],
        settings: Mapping[str, str],
        fallback: Callable[[str], ConnectResult] | None = None,
        problem: PushdownError | None = None,
    ) -> None:
        """`frame` returns the rows. `settings` are settings of the session that hold while the query runs.

        `fallback` plans the query with Spark's reader, given the reason. `problem` is the error that ruled out the
        pushdown reader during planning.
        """
        self._reports = reports
        self._new_frame = frame
        self._settings = settings
        self._fallback = fallback
        super().__init__(can_fall_back=fallback is not None, problem=problem)

    def _frame(self) -> DataFrame:
        return self._new_frame()

    def _run(self, action: Callable[[DataFrame], T], *, single_pass: bool) -> T:
        observer = RowObserver.of(self._frame(), OutputChecks())
        with temporary_settings(observer.frame.sparkSession, self._settings):
            outcome = action(observer.frame)
        self.rows = observer.row_count()
        return outcome

    def _fall_back(self, reason: str) -> None:
        assert self._fallback is not None
        other = self._fallback(reason)
        self._reports, self._new_frame = other._reports, other._new_frame

    def report(self) -> dict[str, SourceReport]:
        """Return the report of each source: the plan, and the rows of a query over one source after run()."""
        reports = self._reports()
        if len(reports) != 1:
            return reports
        return {name: report.model_copy(update={"rows_returned": self.rows}) for name, report in reports.items()}

    def progress(self) -> None:
        """Return None, because the server does not report its progress."""

    def explain(self) -> str:
        """Return the plan as text. Runs nothing."""
        return "\n".join(line for name, report in self._reports().items() for line in plan_lines(name, report))


def plan_query(spark: SparkSession, sources: Mapping[str, Source], query: QuerySpec) -> ConnectResult:
    """Plan a query over declared sources. Raises typed errors that name the parameter."""
    if query.sql is not None:
        return _plan_sql(spark, sources, query.sql)
    return _plan_scan(spark, sources[query.source or ""], query)


def _plan_scan(spark: SparkSession, source: Source, query: QuerySpec) -> ConnectResult:
    """Plan a query over one source, by the pushdown reader if it can scan the source, or else by the server's reader.

    The server analyzes its own scan first, so that errors in the predicate name `where`.
    """
    source_query = _SourceQuery.of(spark, ConnectRelation.open(spark, source), query)
    frame = source_query.frame(source_query.server_scan(""))
    analyze(lambda: frame.schema, "where")
    try:
        with recoverable_errors_as_unsupported():
            scan = _plan_pushdown(spark, source_query.request)
    except UnsupportedError as reason:
        return source_query.by_server(str(reason), reason.problem)
    return source_query.result(scan, source_query.by_server)


@dataclass(frozen=True)
class _SourceQuery:
    """A query over one source, for any scan of it."""

    request: ScanRequest
    conditions: tuple[str, ...]
    """The parts of the predicate. Each is parsed alone, so that no parenthesis of one can change another."""
    select_items: tuple[str, ...]
    limit: int | None
    filter_obstacle: str | None

    @classmethod
    def of(cls, spark: SparkSession, relation: ConnectRelation, query: QuerySpec) -> Self:
        """Resolve the columns and conditions of a query against its source. Raises typed errors."""
        projection = relation.projection(query.columns)
        interval = None if query.interval is None else _interval_condition(relation, query.interval)
        request = relation.request(projection, Predicate.parse(query.predicate) if query.predicate else None)
        return cls(
            request,
            tuple(filter(None, (interval, query.where))),
            tuple(projection.select_items),
            query.limit,
            _filter_obstacle(spark, relation, request),
        )

    def server_scan(self, reason: str) -> ServerScan:
        """Return the scan by the server's reader."""
        return ServerScan(self.request, reason, self.filter_obstacle)

    def frame(self, scan: Scan) -> DataFrame:
        """Return the rows of the query, given a scan of the source."""
        frame = scan.frame()
        for condition in self.conditions:
            frame = frame.where(condition)
        frame = frame.selectExpr(*self.select_items)
        return frame if self.limit is None else frame.limit(self.limit)

    def result(
        self, scan: Scan, fallback: Callable[[str], ConnectResult] | None = None, problem: PushdownError | None = None
    ) -> ConnectResult:
        """Return the planned query with a scan of the source."""
        name = self.request.source.name
        settings = _filter_settings(self.request.source, self.filter_obstacle)
        return ConnectResult(lambda: {name: scan.report()}, partial(self.frame, scan), settings, fallback, problem)

    def by_server(self, reason: str, problem: PushdownError | None = None) -> ConnectResult:
        """Return the planned query with the server's reader, for a reason."""
        if self.request.source.format is SourceFormat.ORC:
            check_lost_columns(self.request, reason)
        return self.result(self.server_scan(reason), problem=problem)


def _filter_settings(source: Source, obstacle: str | None) -> dict[str, str]:
    """Return the settings that turn filters off in the server's reader, if there is an obstacle."""
    return {} if obstacle is None else {FILTER_SETTINGS[source.format]: "false"}


def _filter_obstacle(spark: SparkSession, relation: ConnectRelation, request: ScanRequest) -> str | None:
    """Return why the server's reader must not evaluate filters, or None if it may.

    Spark Connect does not show which filters Spark derives from a predicate or a query, so its text and the types of
    its columns decide.
    """
    source, predicate, names = request.source, request.predicate, relation.schema.fieldNames()
    if source.table is not None or source.format not in FILTER_SETTINGS:
        return None
    if not source.filter_pushdown:
        return "turned off"
    if source.reader is ReaderChoice.SPARK:
        return None
    if predicate is not None:
        obstacle = obstacle_of_predicate(request, names, lambda: True)
        if obstacle is not None:
            return obstacle
        sql, tree = predicate.sql, predicate.tree
        request = request.for_query(sql, tree)
        names = list(relation.columns_of_text(sql) if tree is None else relation.referenced_columns(tree))
    return _MAY_LOSE_ROWS if request.query is not None and unsafe_columns(spark, request, names) else None


def _plan_pushdown(spark: SparkSession, request: ScanRequest) -> Scan:
    """Return a scan by the pushdown reader. Raises UnsupportedError if only Spark's reader can scan the source."""
    request.check_pushdown()
    if request.source.format not in _TEXT_FORMATS or request.source.table is not None:
        raise UnsupportedError(_NO_GATEWAY)
    return plan_connect_text(spark, request)


def _interval_condition(relation: ConnectRelation, interval: IntervalSpec) -> str:
    """Return the predicate of an interval. Raises typed errors unless its column is one of the relation."""
    analyze(lambda: relation.spark_frame.select(f.col(interval.column)).schema, "data_interval")
    return interval.predicate


def _plan_sql(spark: SparkSession, sources: Mapping[str, Source], sql: str) -> ConnectResult:
    """Plan a query that the server runs as written, over temporary views of the session."""
    key = session_name_rule(spark).key
    names, tree = set(map(key, sources)), parse_query(sql)
    for table in named_tables(tree):
        name = ".".join(part.name for part in table.parts)
        if len(table.parts) > 1 and key(name) in names:
            # Spark would read the table of the catalog that has this name.
            raise BadSpecError(
                f"query: over Spark Connect, put the name of source {name!r} into one pair of backticks: "
                f"{quote_name(name)}"
            )
        if key(name) not in names:
            raise BadSpecError(f"query: {unknown_source(sources, name)}")
    reason = f"{_NO_GATEWAY}, so the query runs as written"
    settings: dict[str, str] = {}
    for name, source in sources.items():
        relation = ConnectRelation.open(spark, source)
        relation.spark_frame.createOrReplaceTempView(quote_name(name))
        request = relation.request(relation.projection(None), None).for_query(sql, tree)
        settings |= _filter_settings(source, _filter_obstacle(spark, relation, request))
    frame = spark.sql(sql)
    analyze(lambda: frame.schema, "query")
    reports = {name: SourceReport(reader="spark", reason=reason) for name in sources}
    return ConnectResult(lambda: reports, lambda: frame, settings)
