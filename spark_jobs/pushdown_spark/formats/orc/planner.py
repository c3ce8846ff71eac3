"""The planner of ORC scans: it decides which reader reads the files, and prepares our scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.contract import ErrorCode, ReaderChoice
from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.scope import Fold, is_char
from pushdown_spark.expressions.session_settings import is_case_sensitive, is_enabled, setting
from pushdown_spark.formats.columnar import (
    combined,
    count_leaves,
    first_type,
    has_map,
    is_exact,
    read_fields,
    unread_column,
)
from pushdown_spark.formats.columnar_scan import ColumnarPlan, needs_spark, prepare_files
from pushdown_spark.formats.orc.column_mapping import PADDED
from pushdown_spark.formats.orc.cost import OrcReader, estimate
from pushdown_spark.formats.orc.file_reader import OrcQuery
from pushdown_spark.formats.orc.time_zones import UTC, Zone
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.file_schemas import skips_broken_files
from pushdown_spark.relations.request import Refusal, ScanRequest
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.worker_startup import startup_cost

SARG_TO_FILTER = "orc.sarg.to.filter"
"""The setting for the lazy filter of Spark's own ORC reader."""
_USE_SELECTED = "orc.filter.use.selected"
_VECTORIZED = (
    "spark.sql.orc.enableVectorizedReader",
    "spark.sql.orc.enableNestedColumnVectorizedReader",
    "spark.sql.codegen.wholeStage",
)
"""The settings with which Spark reads maps in batches."""


@dataclass(frozen=True)
class OrcPlan(ColumnarPlan[OrcQuery]):
    """A planned ORC scan."""


def plan_orc(spark: SparkSession, request: ScanRequest, fold: Fold) -> OrcPlan | Refusal:
    """Choose the reader of an ORC source. Under `auto`, reads a sample of row groups of the filter columns."""
    source = request.source
    _refuse_use_selected(spark, request)
    if reason := _refusal(spark, request):
        return Refusal(reason)
    prepared = prepare_files(spark, request, fold)
    if isinstance(prepared, Refusal):
        return prepared
    conjuncts, files = prepared
    query = _query(spark, request, combined(conjuncts))
    reports = tuple(conjunct.report("vector filter over ORC columns") for conjunct in conjuncts)
    exact = is_exact(conjuncts)
    if source.reader is ReaderChoice.PUSHDOWN:
        return OrcPlan(files, query, "asked for with reader='pushdown'", reports, exact)
    if request.predicate is not None and _lists_null(request.predicate.tree):
        return OrcPlan(files, query, "Spark's ORC reader fails at lists of numbers that hold a NULL", reports, exact)
    choice = estimate(files, query, startup_cost(spark, source), may_filter=source.orc.sarg_to_filter is not False)
    if choice.reader is OrcReader.LAZY:
        return OrcPlan(files, query, choice.reason, reports, exact)
    return Refusal(choice.reason, with_filter=choice.reader is OrcReader.SPARK_WITH_FILTER)


def filter_switch(source: Source, refused: Refusal) -> bool | None:
    """Return the value of `SARG_TO_FILTER` for Spark's reader: the source's, or True if it pays, or None."""
    return source.orc.sarg_to_filter if source.orc.sarg_to_filter is not None else refused.with_filter or None


def _lists_null(predicate: exp.Expr | None) -> bool:
    """Return whether an IN list contains NULL, for which Spark 4.3 pushes a null pointer into ORC's reader."""
    lists = () if predicate is None else predicate.find_all(exp.In)
    return any(isinstance(item.unnest(), exp.Null) for node in lists for item in node.expressions)


def _refuse_use_selected(spark: SparkSession, request: ScanRequest) -> None:
    """Raise PushdownError for a setting with which Spark's reader loses rows."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    if "true" in (str(hadoop.get(_USE_SELECTED)).lower(), request.source.options.get(_USE_SELECTED, "").lower()):
        raise PushdownError(
            f"{_USE_SELECTED}=true makes Spark's ORC reader return no rows at all; take it out of the configuration, "
            "or give use_selected=True with reader='pushdown'",
            code=ErrorCode.UNSAFE_SETTING,
        )


def _refusal(spark: SparkSession, request: ScanRequest) -> str | None:
    if reason := needs_spark(request):
        return reason
    if request.predicate is None and request.source.reader is ReaderChoice.AUTO:
        return "no predicate to push"
    return (
        request.spark_only
        or unread_column(request)
        or _unsafe_setting(spark, request)
        or _sorted_map(spark, request)
        or _unpadded(spark, request)
    )


def _sorted_map(spark: SparkSession, request: ScanRequest) -> str | None:
    """Return why Spark must read a column with a map, or None.

    Spark's vectorized reader returns the entries of a map as they are stored, and so does ours. Its row-based reader
    sorts them by key (`OrcMap` is a `TreeMap`). Spark chooses it by settings and by the number of columns
    (`OrcFileFormat.supportBatch`). The number here is that of complete columns, which is the most that Spark may read.
    """
    column = next((field.name for field in read_fields(request) if has_map(field.dataType)), None)
    if column is None:
        return None
    is_vectorized = all(is_enabled(spark, key, default=True) for key in _VECTORIZED)
    columns = sum(count_leaves(field.dataType) for field in request.schema.fields if field.name in request.columns)
    if is_vectorized and columns <= int(setting(spark, "spark.sql.codegen.maxFields", "100")):
        return None
    return f"column {column} has a map, whose entries Spark's row-based ORC reader sorts by key"


def _unpadded(spark: SparkSession, request: ScanRequest) -> str | None:
    """Return why Spark must read a column of char(n), or None."""
    pads = is_enabled(spark, "spark.sql.readSideCharPadding", default=True)
    if pads and not is_enabled(spark, "spark.sql.legacy.charVarcharAsString"):
        return None
    column = next((field.name for field in read_fields(request) if is_char(field)), None)
    return None if column is None else f"column {column} is a char(n), which Spark is not to pad in this session"


def _unsafe_setting(spark: SparkSession, request: ScanRequest) -> str | None:
    options = request.source.options
    if reason := skips_broken_files(spark, options):
        return reason
    if setting(spark, "spark.sql.orc.impl", "native") != "native":
        return "spark.sql.orc.impl is not native"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key in ("orc.force.positional.evolution", "orc.schema.evolution.case.sensitive", "orc.tolerate.missing.schema"):
        if hadoop.get(key) is not None or key in options:
            return f"{key} is set, and only Spark's reader knows it"
    return None


def has_times(data_type: t.DataType) -> bool:
    """Return whether a type contains timestamps, whose values depend on time zones."""
    return first_type(data_type, lambda part: isinstance(part, t.TimestampType)) is not None


def arrow_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """Return the Arrow schema in which Spark expects some columns."""
    return pa.schema([_arrow_field(field) for field in fields])


def _arrow_field(field: t.StructField) -> pa.Field:
    padded = {PADDED: b""} if is_char(field) else None
    return pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), metadata=padded)


def _query(spark: SparkSession, request: ScanRequest, combined_filter: ArrowFilter | None) -> OrcQuery:
    fields = read_fields(request)
    positions = {name: position for position, name in enumerate(request.schema.fieldNames())}
    return OrcQuery(
        arrow_schema(fields),
        tuple(positions[field.name] for field in fields),
        combined_filter,
        request.source.orc.partial_reads,
        request.source.orc.min_seek_size,
        is_case_sensitive(spark),
        jvm_zone(spark) if any(has_times(field.dataType) for field in fields) else UTC,
        len(positions),
    )


def jvm_zone(spark: SparkSession) -> Zone:
    """Return the JVM's time zone, as ORC's Java library determines it."""
    name = str(java_class(spark, "java.util.TimeZone").getDefault().getID())
    start = java_class(spark, "java.util.GregorianCalendar")(2015, 0, 1).getTimeInMillis()
    return Zone(name, int(start) // 1000)
