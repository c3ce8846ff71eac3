"""Decide whether an ORC scan is read lazily, and by which reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, ErrorCode, ReaderChoice
from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.scope import Fold, is_char
from pushdown_spark.gateway import java_class
from pushdown_spark.readers.columnar import (
    bound_conjuncts,
    combined,
    conf,
    first_reason,
    is_exact,
    listed_files,
    read_fields,
    unread_column,
)
from pushdown_spark.readers.files import InputFile, input_uris
from pushdown_spark.readers.orc.columns import PADDED
from pushdown_spark.readers.orc.cost import Verdict, estimate
from pushdown_spark.readers.orc.scan import OrcQuery
from pushdown_spark.readers.orc.zones import UTC, Zone
from pushdown_spark.readers.protocol import Refusal, ScanRequest, Source
from pushdown_spark.readers.start import waiting
from pushdown_spark.readers.storage import storage_for

_CORRUPT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


SARG_TO_FILTER = "orc.sarg.to.filter"
"""Switches on the lazy filter of Spark's own ORC reader."""
_USE_SELECTED = "orc.filter.use.selected"


@dataclass(frozen=True)
class OrcPlan:
    """A lazy scan, ready to run. `exact` says that no row comes out that the predicate would refuse."""

    files: tuple[InputFile, ...]
    query: OrcQuery
    reason: str
    conjuncts: tuple[ConjunctReport, ...]
    exact: bool


def plan_orc(spark: SparkSession, request: ScanRequest, fold: Fold) -> OrcPlan | Refusal:
    """Choose the reader of an ORC source. Under `auto`, reads a few row groups of the filter's columns."""
    source = request.source
    _refuse_use_selected(spark, request)
    refusal = _refusal(spark, request)
    if refusal:
        return Refusal(refusal)
    conjuncts = bound_conjuncts(spark, request, fold)
    if request.predicate is not None and not any(conjunct.artifact is not None for conjunct in conjuncts):
        return Refusal("no conjunct can be evaluated over columns: " + first_reason(conjuncts))
    storage = storage_for(spark, input_uris(request.native), source.options)
    if isinstance(storage, str):
        return Refusal(storage)
    files = listed_files(request, storage)
    query = _query(spark, request, combined(conjuncts))
    reports = tuple(conjunct.report("vector filter over ORC columns") for conjunct in conjuncts)
    exact = is_exact(conjuncts)
    if source.reader is ReaderChoice.PUSHDOWN:
        return OrcPlan(files, query, "asked for with reader='pushdown'", reports, exact)
    if request.predicate is not None and _lists_null(request.predicate.tree):
        return OrcPlan(files, query, "Spark's ORC reader fails at lists of numbers that hold a NULL", reports, exact)
    chosen = estimate(files, query, waiting(spark, source), may_filter=source.orc.sarg_to_filter is not False)
    if chosen.verdict is Verdict.LAZY:
        return OrcPlan(files, query, chosen.reason, reports, exact)
    return Refusal(chosen.reason, with_filter=chosen.verdict is Verdict.SPARK_WITH_FILTER)


def filter_switch(source: Source, refused: Refusal) -> bool | None:
    """How to set `SARG_TO_FILTER` for Spark's reader: as the source says, else on where it pays, else not at all."""
    return source.orc.sarg_to_filter if source.orc.sarg_to_filter is not None else refused.with_filter or None


def _lists_null(predicate: exp.Expr | None) -> bool:
    """Whether a predicate has a NULL in the list of an IN, where Spark 4.3 pushes a null pointer into ORC's reader."""
    lists = () if predicate is None else predicate.find_all(exp.In)
    return any(isinstance(item.unnest(), exp.Null) for node in lists for item in node.expressions)


def _refuse_use_selected(spark: SparkSession, request: ScanRequest) -> None:
    """Raises PushdownError where Spark's reader would be made to lose rows."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    if "true" in (str(hadoop.get(_USE_SELECTED)).lower(), request.source.options.get(_USE_SELECTED, "").lower()):
        raise PushdownError(
            f"{_USE_SELECTED}=true makes Spark's ORC reader return no rows at all; take it out of the configuration, "
            "or give use_selected=True with reader='pushdown'",
            code=ErrorCode.UNSAFE_SETTING,
        )


def _refusal(spark: SparkSession, request: ScanRequest) -> str | None:
    source = request.source
    if source.reader is ReaderChoice.SPARK:
        return "asked for with reader='spark'"
    if not source.filter_pushdown:
        return "filter_pushdown=False"
    if request.predicate is None and source.reader is ReaderChoice.AUTO:
        return "no predicate to push"
    if request.predicate is not None and request.predicate.tree is None:
        return "the predicate is beyond the parser, Spark alone evaluates it"
    return request.spark_only or unread_column(request) or _unsafe_setting(spark, request) or _unpadded(spark, request)


def _unpadded(spark: SparkSession, request: ScanRequest) -> str | None:
    """Why a column of char(n) is left to Spark, None where there is none or Spark pads it."""
    pads = conf(spark, "spark.sql.readSideCharPadding", "true") == "true"
    if pads and conf(spark, "spark.sql.legacy.charVarcharAsString", "false") == "false":
        return None
    column = next((field.name for field in read_fields(request) if is_char(field)), None)
    return None if column is None else f"column {column} is a char(n), which Spark is not to pad in this session"


def _unsafe_setting(spark: SparkSession, request: ScanRequest) -> str | None:
    options = request.source.options
    for key in _CORRUPT:
        option = key.rpartition(".")[2].lower()
        if options.get(option, conf(spark, key, "false")).lower() == "true":
            return f"{key} is on, and only Spark's readers skip broken files"
    if conf(spark, "spark.sql.orc.impl", "native") != "native":
        return "spark.sql.orc.impl is not native"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key in ("orc.force.positional.evolution", "orc.schema.evolution.case.sensitive", "orc.tolerate.missing.schema"):
        if hadoop.get(key) is not None or key in options:
            return f"{key} is set, and only Spark's reader knows it"
    return None


def has_times(kind: t.DataType) -> bool:
    """Whether a type has timestamps in it, whose values depend on time zones."""
    if isinstance(kind, t.StructType):
        return any(has_times(f.dataType) for f in kind.fields)
    if isinstance(kind, t.ArrayType):
        return has_times(kind.elementType)
    if isinstance(kind, t.MapType):
        return has_times(kind.keyType) or has_times(kind.valueType)
    return isinstance(kind, t.TimestampType)


def wanted_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """The Arrow schema in which Spark takes some columns."""
    return pa.schema([_wanted_field(field) for field in fields])


def _wanted_field(field: t.StructField) -> pa.Field:
    padded = {PADDED: b""} if is_char(field) else None
    return pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), metadata=padded)


def _query(spark: SparkSession, request: ScanRequest, filtered: ArrowFilter | None) -> OrcQuery:
    fields = read_fields(request)
    places = {name: place for place, name in enumerate(request.schema.fieldNames())}
    return OrcQuery(
        wanted_schema(fields),
        tuple(places[field.name] for field in fields),
        filtered,
        request.source.orc.partial_reads,
        request.source.orc.min_seek_size,
        conf(spark, "spark.sql.caseSensitive", "false") == "true",
        jvm_zone(spark) if any(has_times(field.dataType) for field in fields) else UTC,
        len(places),
    )


def jvm_zone(spark: SparkSession) -> Zone:
    """The JVM's time zone, as ORC's own reader asks for it."""
    name = str(java_class(spark, "java.util.TimeZone").getDefault().getID())
    began = java_class(spark, "java.util.GregorianCalendar")(2015, 0, 1).getTimeInMillis()
    return Zone(name, int(began) // 1000)
