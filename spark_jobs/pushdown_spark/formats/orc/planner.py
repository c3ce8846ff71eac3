"""The planner of ORC scans: it chooses between the pushdown reader and Spark's, and plans the pushdown scan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.scope import is_char
from pushdown_spark.expressions.session_settings import (
    RequiredSetting,
    check_broken_files,
    is_enabled,
    session_name_rule,
    setting,
)
from pushdown_spark.formats.bound_predicate import combine_conjuncts, is_exact
from pushdown_spark.formats.columnar_scan import ColumnarPlan, check_columnar_request, prepare_files
from pushdown_spark.formats.orc.column_mapping import KEEPS_PADDING
from pushdown_spark.formats.orc.cost import OrcReader, estimate
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.spark_reader import RowFilterError, check_use_selected, row_filter_obstacle
from pushdown_spark.formats.orc.time_zones import UTC, Zone
from pushdown_spark.formats.spark_reader.float_filters import unsupported_as_unsafe_filter
from pushdown_spark.formats.worker_startup import startup_cost
from pushdown_spark.projection.nested_types import count_leaves, has_map, has_timestamp
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import check_hadoop_settings, reader_configuration
from pushdown_spark.scan.plan import ReaderDecision
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import InputFile

_HADOOP_SETTINGS = (
    RequiredSetting("orc.force.positional.evolution", "false", "only Spark's reader matches columns by position"),
    RequiredSetting("orc.schema.evolution.case.sensitive", "true", "only Spark's reader ignores the case of names"),
    RequiredSetting("orc.tolerate.missing.schema", "true", "only Spark's reader rejects files with missing columns"),
)
_BATCH_READER_SETTINGS = (
    "spark.sql.orc.enableVectorizedReader",
    "spark.sql.orc.enableNestedColumnVectorizedReader",
    "spark.sql.codegen.wholeStage",
)
"""The settings that must be on if Spark is to read maps in batches."""


class OrcPlan(ColumnarPlan[OrcQuery]):
    """A planned scan of ORC files that reads select columns only where a row passes the filter."""

    task_class = OrcScanTask


def plan_orc(spark: SparkSession, request: ScanRequest) -> OrcPlan:
    """Plan a scan by the pushdown reader of ORC. Under `auto`, reads a sample of row groups of the filter columns.

    Raises UnsupportedError if Spark's reader must read the files, or is estimated to be faster.
    """
    source = request.source
    configuration = reader_configuration(spark, source.options)
    check_use_selected(configuration)
    with unsupported_as_unsafe_filter(spark, request, omits_nan=False):
        check_columnar_request(request)
        _check_settings(spark, request)
        check_hadoop_settings(configuration, _HADOOP_SETTINGS)
        _check_maps(spark, request)
        _check_padding(spark, request)
        conjuncts, files = prepare_files(spark, request)
        query = _query(spark, request, combine_conjuncts(conjuncts))
    reports = tuple(conjunct.report("vector filter over ORC columns") for conjunct in conjuncts)
    decision = ReaderDecision()
    if source.reader is not ReaderChoice.PUSHDOWN:
        may_filter = source.orc.sarg_to_filter is not False and row_filter_obstacle(conjuncts) is None
        decision = _choose_reader(spark, request, files, query, may_filter=may_filter)
    return OrcPlan(files, decision, reports, query, is_exact(conjuncts), source.orc.use_selected)


def _choose_reader(
    spark: SparkSession, request: ScanRequest, files: Sequence[InputFile], query: OrcQuery, *, may_filter: bool
) -> ReaderDecision:
    """Return the decision for the pushdown reader. Raises UnsupportedError if it is for one of Spark's."""
    if request.predicate is not None and _lists_null(request.predicate.tree):
        return ReaderDecision("Spark's ORC reader fails at lists of numbers that hold a NULL")
    decision = estimate(files, query, startup_cost(spark, request.source), may_filter=may_filter)
    if decision.reader is OrcReader.SPARK_WITH_FILTER:
        raise RowFilterError(decision.reason, decision.predicted)
    if decision.reader is OrcReader.SPARK:
        with unsupported_as_unsafe_filter(spark, request, omits_nan=False):
            raise UnsupportedError(decision.reason, decision.predicted)
    return decision


def _lists_null(predicate: exp.Expr | None) -> bool:
    """Return whether an IN list contains NULL, for which Spark 4.3 pushes a null pointer into ORC's reader."""
    lists = () if predicate is None else predicate.find_all(exp.In)
    return any(isinstance(item.unnest(), exp.Null) for node in lists for item in node.expressions)


def _check_maps(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError if Spark sorts the entries of a map.

    Spark's vectorized reader and the pushdown reader return the entries of a map as they are stored. Spark's row-based
    reader sorts them by key (`OrcMap` is a `TreeMap`). Spark chooses it by settings and by the number of columns
    (`OrcFileFormat.supportBatch`). This counts complete columns, the most that Spark may read.
    """
    column = next((field.name for field in request.read_schema.fields if has_map(field.dataType)), None)
    if column is None:
        return
    is_vectorized = all(is_enabled(spark, key, default=True) for key in _BATCH_READER_SETTINGS)
    columns = sum(count_leaves(field.dataType) for field in request.schema.fields if field.name in request.columns)
    if not is_vectorized or columns > int(setting(spark, "spark.sql.codegen.maxFields", "100")):
        raise UnsupportedError(f"column {column} has a map, whose entries Spark's row-based ORC reader sorts by key")


def _check_padding(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError for a column of char(n) that Spark does not pad."""
    pads = is_enabled(spark, "spark.sql.readSideCharPadding", default=True)
    if pads and not is_enabled(spark, "spark.sql.legacy.charVarcharAsString"):
        return
    for column in request.read_schema.fields:
        if is_char(column):
            raise UnsupportedError(f"column {column.name} is a char(n), and padding is off in this session")


def _check_settings(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError for a setting that only Spark's reader follows."""
    options = request.source.options
    check_broken_files(spark, options)
    if setting(spark, "spark.sql.orc.impl", "native") != "native":
        raise UnsupportedError("spark.sql.orc.impl is not native")


def orc_arrow_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for some columns, with a mark for char(n), whose values are padded."""
    return pa.schema(
        [
            pa.field(
                field.name, utc_arrow_type(field.dataType), metadata={KEEPS_PADDING: b""} if is_char(field) else None
            )
            for field in fields
        ]
    )


def _query(spark: SparkSession, request: ScanRequest, combined_filter: ArrowFilter | None) -> OrcQuery:
    fields = request.read_schema.fields
    positions = {name: position for position, name in enumerate(request.schema.fieldNames())}
    return OrcQuery(
        schema=orc_arrow_schema(fields),
        positions=tuple(positions[field.name] for field in fields),
        filter=combined_filter,
        partial_reads=request.source.orc.partial_reads,
        min_seek=request.source.orc.min_seek_size,
        name_rule=session_name_rule(spark),
        zone=jvm_zone(spark) if any(has_timestamp(field.dataType) for field in fields) else UTC,
        table=request.schema,
    )


def jvm_zone(spark: SparkSession) -> Zone:
    """Return the JVM's time zone, as ORC's Java library determines it."""
    name = str(java_class(spark, "java.util.TimeZone").getDefault().getID())
    start = java_class(spark, "java.util.GregorianCalendar")(2015, 0, 1).getTimeInMillis()
    return Zone(name, int(start) // 1000)
