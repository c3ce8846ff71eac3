"""The scan planner: it chooses the pushdown reader where that is sound and faster, and Spark's reader elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType
from pyspark.sql.types import StructField as Field

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import PushdownError, UnsafeFilterError, UnsupportedError
from pushdown_spark.expressions.session_settings import is_option_on, session_name_rule
from pushdown_spark.formats.columnar_scan import ColumnarScan
from pushdown_spark.formats.spark_reader.plan_scan import SparkPlanScan
from pushdown_spark.formats.spark_reader.spark_scan import SparkReaderScan
from pushdown_spark.formats.text.jvm_scan import JvmTextScan
from pushdown_spark.formats.text.planner import JvmTextPlan, TextScan, plan_text
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.file_relation import FileRelation
from pushdown_spark.relations.tables import SparkRelation
from pushdown_spark.runtime.fallback import recoverable_errors_as_unsupported
from pushdown_spark.scan.base_scan import ProjectedScan, Scan, ToQueryRows
from pushdown_spark.scan.partition_directories import with_directories
from pushdown_spark.scan.union import GroupScan, UnionScan, file_groups
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import FileLoader
from pushdown_spark.sources.malformed_lines import CORRUPT_OPTION, MalformedLines, corrupt_column
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import has_plain_directories


@dataclass(frozen=True)
class PlannedScan:
    """The scan to run, and Spark's own scan, for the analysis of the query and as the fallback."""

    scan: Scan
    spark_scan: Callable[[str], Scan]
    """Returns Spark's own scan, given the reason to use it."""
    can_fall_back: bool = True
    """Whether Spark's own scan can replace `scan`."""
    is_resolved: bool = False
    """Whether planning has resolved every column and type of the predicate, so that Spark need not analyze it."""
    problem: PushdownError | None = None
    """The error that ruled out the pushdown reader. It is raised if Spark's reader cannot read the files either."""

    @property
    def has_fallback(self) -> bool:
        """Whether Spark's own scan can replace the scan if that fails during a run."""
        return self.can_fall_back and not self.scan.is_by_spark

    def with_projection(self, project: ToQueryRows, project_unfiltered: ToQueryRows) -> ProjectedScan:
        """Return the scan with its projection, and a fallback. `project_unfiltered` also applies the predicate."""

        def fall_back(reason: str) -> ProjectedScan:
            return ProjectedScan(self.spark_scan(reason), project_unfiltered)

        return ProjectedScan(self.scan, project, fall_back if self.has_fallback else None, self.problem)

    def analysis_frame(self) -> DataFrame:
        """Return Spark's own lazy DataFrame over the source, for Spark to analyze a query that does not run."""
        return self.spark_scan("Spark only analyzes the query").analysis_frame()


def plan_scan(spark: SparkSession, relation: Relation, request: ScanRequest) -> PlannedScan:
    """Return the scan of a relation."""
    if isinstance(relation, FileRelation):
        return _plan_files(spark, relation, request)
    if isinstance(relation, SparkRelation):
        spark_scan = SparkPlanScan(request)
        return PlannedScan(spark_scan, lambda _: spark_scan, can_fall_back=False)
    from pushdown_spark.relations.database_relation import DatabaseRelation

    assert isinstance(relation, DatabaseRelation)
    scan = relation.scan(request)
    return PlannedScan(scan, lambda _: relation.analysis_scan, can_fall_back=False, is_resolved=not scan.needs_recheck)


def _plan_files(spark: SparkSession, relation: FileRelation, request: ScanRequest) -> PlannedScan:
    request = request.with_notes(*_listing_notes(relation.source), *relation.table_schema.notes)
    if relation.table_schema.groups:
        return _plan_groups(spark, relation, request)
    if relation.source.max_malformed is not None:
        request = _with_malformed_count(spark, relation, request)
    return _plan_format(spark, request, relation.loader)


def _plan_groups(spark: SparkSession, relation: FileRelation, request: ScanRequest) -> PlannedScan:
    """Return the union of a scan for each group of files with the same schema."""
    partition_schema = relation.partition_schema
    tree = None if request.predicate is None else request.predicate.tree
    names = frozenset() if tree is None else frozenset(relation.referenced_columns(tree))
    table = relation.table_schema
    groups = list(file_groups(table.groups, partition_schema, relation.roots, name_rule=table.rules.name_rule))
    plans = []
    for group in groups:
        group_relation = relation.open_group(group.source(relation.source), group.schema)
        group_request = group.request(request, group_relation.source, names)
        plans.append(plan_scan(spark, group_relation, group_request.with_listing(group_relation.listing)))
    fields = {field.name: field for field in (*partition_schema.fields, *request.read_schema.fields)}
    schema = StructType([fields[name] for name in request.columns])
    name_rule = session_name_rule(spark)

    def union_scan(scans: Iterable[Scan]) -> UnionScan:
        group_scans = [GroupScan(scan, group.output_schema(request)) for scan, group in zip(scans, groups, strict=True)]
        return UnionScan(group_scans, schema, request.implicit_columns, name_rule=name_rule)

    return PlannedScan(
        union_scan(plan.scan for plan in plans),
        lambda reason: union_scan(plan.spark_scan(reason) for plan in plans),
        problem=next((plan.problem for plan in plans if plan.problem is not None), None),
    )


def _with_malformed_count(spark: SparkSession, relation: FileRelation, request: ScanRequest) -> ScanRequest:
    """Return the request over a DataFrame that parses all fields of every line and counts malformed lines."""
    column = corrupt_column(spark, relation.source.options, relation.schema)
    data = StructType([*relation.data_schema.fields, Field(column, StringType())])
    if column in relation.schema.fieldNames():
        data = relation.data_schema
    schema = StructType([*data.fields, *relation.partition_schema.fields])
    frame = relation.loader.load({CORRUPT_OPTION: column}, schema).frame
    lines = MalformedLines(frame, column, relation.schema.fieldNames())
    return replace(request, malformed_lines=lines).with_frame(lines.frame)


def _plan_format(spark: SparkSession, request: ScanRequest, loader: FileLoader) -> PlannedScan:
    """Return the pushdown reader's scan of files with one schema, or Spark's with the reason.

    If the pushdown reader fails with any error, Spark's reader is used, and the reason names the error. Errors that
    describe a mistake of the user, or a missing file, are raised.
    """
    try:
        with recoverable_errors_as_unsupported():
            scan = _plan_pushdown(spark, request)
    except UnsupportedError as unsupported:
        return _plan_spark_reader(spark, request, loader, unsupported)
    return PlannedScan(scan, partial(SparkReaderScan, request, loses_rows=_is_columnar(request)))


def _plan_spark_reader(
    spark: SparkSession, request: ScanRequest, loader: FileLoader, reason: UnsupportedError
) -> PlannedScan:
    """Return the scan by Spark's reader, given the reason for it."""
    if request.source.format is SourceFormat.ORC:
        from pushdown_spark.formats.orc.spark_reader import check_lost_columns, with_row_filter

        request = with_row_filter(spark, request, reason, loader)
        check_lost_columns(request, str(reason))
    loses_rows = isinstance(reason, UnsafeFilterError) or (_is_columnar(request) and reason.problem is not None)
    spark_scan = partial(SparkReaderScan, request, predicted=reason.predicted, loses_rows=loses_rows)
    return PlannedScan(spark_scan(str(reason)), spark_scan, problem=reason.problem)


def _is_columnar(request: ScanRequest) -> bool:
    """Return whether Spark's filters may lose rows of the format where the pushdown reader fails."""
    return request.source.format in (SourceFormat.ORC, SourceFormat.PARQUET)


def _plan_pushdown(spark: SparkSession, request: ScanRequest) -> Scan:
    """Return the pushdown reader's scan. Raises UnsupportedError if Spark's must read the files, or may be faster."""
    spark_scan = SparkReaderScan(request, "")
    request = with_directories(request, spark_scan.frame, name_rule=session_name_rule(spark))
    scan: Scan
    # Only the reader of the format is imported, because importing all of them is slow.
    if request.source.format is SourceFormat.ORC:
        from pushdown_spark.formats.orc.planner import plan_orc

        scan = ColumnarScan(spark, request, plan_orc(spark, request))
    elif request.source.format is SourceFormat.AVRO:
        from pushdown_spark.formats.avro.planner import plan_avro

        scan = ColumnarScan(spark, request, plan_avro(spark, request))
    elif request.source.format is SourceFormat.PARQUET:
        from pushdown_spark.formats.parquet.planner import plan_parquet

        scan = ColumnarScan(spark, request, plan_parquet(spark, request))
    else:
        text = plan_text(spark, request)
        scan = JvmTextScan(spark, request, text) if isinstance(text, JvmTextPlan) else TextScan(spark, request, text)
    # Planning errors must occur here, where Spark's reader can still replace the scan.
    scan.frame()
    return scan


def _listing_notes(source: Source) -> tuple[str, ...]:
    """Return notes on how Spark lists and types the files."""
    notes = []
    infers = source.format is SourceFormat.JSON or is_option_on(source.options, "inferschema")
    if source.schema is None and infers:
        notes.append("no schema is declared, so Spark read every file once more to infer it")
    if source.table is None and not is_option_on(source.options, "recursivefilelookup"):
        shallow_paths = [path for path in source.paths if has_plain_directories(path)]
        notes += [f"Spark skips sub-directories of {path}; set recursiveFileLookup=true" for path in shallow_paths]
    return tuple(notes)
