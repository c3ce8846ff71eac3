"""Scans by Spark's own readers, for any format, with Spark's filter pushdown on or off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, CostReport, Exactness, ReaderChoice, SourceFormat, SourceReport
from pushdown_spark.expressions.predicate import EVERY_ROW
from pushdown_spark.formats.spark_reader.file_filters import (
    changes_constants,
    file_filters,
    hide_from_filters,
    may_keep_nulls,
)
from pushdown_spark.formats.spark_reader.unknown_filters import known_conjuncts, may_hide_failures, unsafe_columns
from pushdown_spark.projection.nested_types import has_datetime
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.scan.base_scan import Scan, SparkCount
from pushdown_spark.sources.malformed_lines import names_corrupt_column
from pushdown_spark.sources.request import ScanRequest, unsupported_conjunct
from pushdown_spark.sources.stores.listing import decode_uri
from pushdown_spark.sources.stores.storage import LOCAL

MAX_PLANNED_LENGTH = 10_000
"""Maximum length of a conjunct that Spark plans for the report, in characters."""
_MAX_PLANNED_CONJUNCTS = 32
"""Maximum number of conjuncts that Spark plans for the report."""
_MANY_CONSTANTS = 500
"""Number of constants from which Spark's filter operator, which uses a hash set, is faster than a row-based reader."""
_MAY_LOSE_FLOATS = "Spark's filter pushdown may lose rows with NaN, 0.0 or -0.0"
_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)
FILTER_SETTINGS = {
    SourceFormat.JSON: "spark.sql.json.filterPushdown.enabled",
    SourceFormat.CSV: "spark.sql.csv.filterPushdown.enabled",
    SourceFormat.AVRO: "spark.sql.avro.filterPushdown.enabled",
    SourceFormat.ORC: "spark.sql.orc.filterPushdown",
    SourceFormat.PARQUET: "spark.sql.parquet.filterPushdown",
}
"""Settings that switch filter pushdown in Spark's readers."""
ROW_BY_ROW = frozenset({SourceFormat.JSON, SourceFormat.CSV, SourceFormat.AVRO})
"""Formats whose readers evaluate filters for each row."""


class SparkReaderScan(Scan):
    """A scan by Spark's reader. `reason` is why it was chosen."""

    is_by_spark = True

    def __init__(
        self,
        request: ScanRequest,
        reason: str,
        predicted: Mapping[str, float] | None = None,
        *,
        loses_rows: bool = False,
    ) -> None:
        """`predicted` are the CPU seconds of the readers, if an estimate is the reason.

        With `loses_rows`, Spark's filter pushdown would lose rows, so it is off.
        """
        self._loses_rows = loses_rows
        self._predicted = predicted or {}
        self._request = request
        self._reason = reason

    @property
    def spark_counts(self) -> frozenset[SparkCount]:
        """The counts that Spark's metrics have.

        They omit vectored reads, which are most reads of ORC and Parquet, and the rows that row-based readers drop by
        pushed filters.
        """
        source_format = self._request.source.format
        counts = set() if source_format in (SourceFormat.ORC, SourceFormat.PARQUET) else {SparkCount.BYTES}
        if source_format not in ROW_BY_ROW or all(
            conjunct.exactness is not Exactness.INEXACT for conjunct in self._plan_report.conjuncts
        ):
            counts.add(SparkCount.DECODED_ROWS)
        return frozenset(counts)

    @property
    def session_conf(self) -> Mapping[str, str]:
        """The setting that switches filter pushdown off, if it must be off."""
        return {} if self._filter_obstacle is None else {FILTER_SETTINGS[self._request.source.format]: "false"}

    @cached_property
    def _filter_obstacle(self) -> str | None:
        """Why filter pushdown must be off in Spark's reader, or None if it may be on."""
        source, predicate = self._request.source, self._request.predicate
        if source.format not in FILTER_SETTINGS:
            return None
        if not source.filter_pushdown:
            return "turned off"
        if self._loses_rows:
            return _MAY_LOSE_FLOATS
        if self._request.malformed_lines is not None:
            return "every line is parsed to count malformed lines"
        if source.reader is ReaderChoice.SPARK or predicate is None:
            return None
        columns = self._data_columns
        return obstacle_of_predicate(
            self._request, columns, lambda: may_keep_nulls(self._frame(), columns, predicate.conjunct_texts)
        )

    def frame(self) -> DataFrame:
        """Return Spark's DataFrame with the requested implicit columns.

        If filter pushdown must be off, the columns on which Spark may derive filters are hidden from it, and otherwise
        those where filters that the planner does not know may lose rows. This holds for lazy DataFrames too, which
        Spark may run with any setting.
        """
        request, frame, names = self._request, self._frame(), self._data_columns
        if request.source.format not in FILTER_SETTINGS:
            return frame
        hidden_columns = unsafe_columns(frame.sparkSession, request, names)
        if self._filter_obstacle is not None:
            hidden_columns += self._filtered_columns(names)
        return hide_from_filters(frame, set(hidden_columns)) if hidden_columns else frame

    def analysis_frame(self) -> DataFrame:
        """Return Spark's DataFrame with all columns visible, because an analysis pushes no filters."""
        return self._frame()

    def _filtered_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the columns on which Spark may derive filters: those of the predicate, or all for a whole query.

        Spark reads all members of a hidden struct of ORC and Parquet, so columns of these formats that are not in the
        predicate are only hidden if the user turned filter pushdown off.
        """
        source, predicate = self._request.source, self._request.predicate
        if self._request.query is not None and (source.format in ROW_BY_ROW or not source.filter_pushdown):
            return names
        if predicate is None:
            return ()
        return names if predicate.tree is None else _columns_in(predicate.tree, names)

    @property
    def _data_columns(self) -> list[str]:
        """The columns of the files, without partition columns."""
        partitions = self._request.listing.partition_columns
        return [name for name in self._request.spark_frame.columns if name not in partitions]

    def _frame(self) -> DataFrame:
        """Return Spark's DataFrame with the requested implicit columns, computed from file metadata."""
        request = self._request
        if request.implicit_values is None:
            return request.spark_frame
        items = request.implicit_values.by_file(request.implicit_columns, list(map(decode_uri, request.uris)))
        return request.spark_frame.selectExpr(*map(quote_name, request.spark_frame.columns), *items)

    def report(self) -> SourceReport:
        """Return the plan with the filters that Spark pushes. The counts of a run come from Spark's task metrics."""
        malformed_lines = self._request.malformed_lines
        if malformed_lines is None:
            return self._plan_report
        return self._plan_report.model_copy(update={"malformed_lines": malformed_lines.count()})

    def report_of_run(self) -> Callable[[], SourceReport]:
        """Return `report`, which later runs do not change. Making it takes time, so it waits until it is needed."""
        return self.report

    @cached_property
    def _plan_report(self) -> SourceReport:
        """The plan, computed once because Spark optimizes the conjuncts for it."""
        request = self._request
        sizes = _file_sizes(request)
        return SourceReport(
            reader="spark",
            reason=self._reason,
            cost=CostReport.of("spark", self._predicted),
            conjuncts=self._conjuncts(),
            columns=request.columns,
            files_total=len(sizes),
            bytes_total=sum(sizes),
            notes=request.notes,
        )

    def _conjuncts(self) -> tuple[ConjunctReport, ...]:
        predicate = self._request.predicate
        conjuncts = () if predicate is None else predicate.conjunct_texts
        if self._filter_obstacle is not None:
            return tuple(unsupported_conjunct(sql, self._filter_obstacle) for sql in conjuncts)
        short = [sql for sql in conjuncts if len(sql) <= MAX_PLANNED_LENGTH][:_MAX_PLANNED_CONJUNCTS]
        partitions = self._request.listing.partition_columns
        has_filters = self._request.source.format in FILTER_SETTINGS
        reports = file_filters(self.frame(), partitions, short, has_filters=has_filters)
        reports_by_sql = {report.sql: report for report in reports}
        return tuple(reports_by_sql.get(sql) or _unplanned_conjunct(sql) for sql in conjuncts)


def _columns_in(tree: exp.Expr, columns: Sequence[str]) -> list[str]:
    """Return the columns whose names occur in a tree."""
    tree_names = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    return [name for name in columns if name.lower() in tree_names]


def _unplanned_conjunct(sql: str) -> ConjunctReport:
    """Return the report of a conjunct that Spark may or may not push."""
    return ConjunctReport(sql=sql, exactness=Exactness.INEXACT, pushed_as="Spark's reader: not planned for the report")


def _file_sizes(request: ScanRequest) -> list[int]:
    """Return the sizes of the files. If one of them is gone, the sizes are those that Spark listed."""
    try:
        return [file.size for file in request.listing.files(LOCAL)]
    except FileNotFoundError:
        return [entry.length for entry in request.listing.entries()]


def obstacle_of_predicate(
    request: ScanRequest, columns: Sequence[str], may_keep_nulls: Callable[[], bool]
) -> str | None:
    """Return why Spark's reader must not evaluate the predicate of a request, or None if it may.

    `columns` are those of the files. `may_keep_nulls` returns whether the predicate may accept a row of NULLs.
    """
    source, predicate, spark = request.source, request.predicate, request.spark_frame.sparkSession
    if predicate is None:
        return None
    if predicate.needs_every_row:
        return EVERY_ROW
    if may_hide_failures(spark, request):
        return "Spark's filter pushdown may hide values that fail the scan"
    if source.format in ROW_BY_ROW and predicate.tree is not None:
        constants = sum(1 for _ in predicate.tree.find_all(exp.Literal))
        if constants >= _MANY_CONSTANTS:
            return "Spark's filter operator is faster for many constants"
    if source.format is SourceFormat.JSON and _may_lose_lines(request, columns, may_keep_nulls):
        return "Spark's filter pushdown may lose lines that are malformed or have a key twice"
    if _has_old_constant(spark, request):
        return "Spark's filter pushdown compares old dates and timestamps in another calendar"
    return None


def _has_old_constant(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether Spark's filters may replace a date or a timestamp of the predicate with another one."""
    if not has_datetime(request.read_schema):
        return False
    conjuncts = known_conjuncts(spark, request)
    if conjuncts is None:
        return True
    return any(conjunct.artifact is not None and changes_constants(conjunct.artifact) for conjunct in conjuncts)


def _may_lose_lines(request: ScanRequest, columns: Sequence[str], may_keep_nulls: Callable[[], bool]) -> bool:
    """Return whether Spark's filter pushdown in JSON may lose rows.

    Spark's parser skips a line at the first value that fails the predicate. If the line is malformed after that value,
    its columns would be NULL. If the key follows again, its second value would count. Few lines have a key twice, so
    `auto` pushes filters nevertheless.
    """
    source, predicate = request.source, request.predicate
    if source.reader is ReaderChoice.PUSHDOWN or names_corrupt_column(request.spark_frame, source.options):
        return True
    # Spark plans for tens of milliseconds, so the usual predicates are recognized without it.
    if predicate is not None and any(_compares_column(conjunct, columns) for conjunct in predicate.conjuncts):
        return False
    return may_keep_nulls()


def _compares_column(conjunct: exp.Expr, columns: Sequence[str]) -> bool:
    """Return whether a conjunct compares one of some columns, or a member of one, with constants.

    It is not true for NULL.
    """
    operand = conjunct.this
    if not isinstance(conjunct, _COMPARISONS) or not isinstance(operand, exp.Column):
        return False
    constants = [conjunct.args[key] for key in ("expression", "low", "high") if key in conjunct.args]
    constants += conjunct.expressions
    is_compared = bool(constants) and all(isinstance(value, exp.Literal) for value in constants)
    return is_compared and operand.parts[0].name.lower() in map(str.lower, columns)
