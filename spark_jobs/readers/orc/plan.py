"""Decide whether an ORC scan is read lazily, and by which reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from spark_jobs.contract import ConjunctReport, ErrorCode, Exactness, ReaderChoice
from spark_jobs.errors import MissingPathError, PushdownError
from spark_jobs.predicates.compile import all_of, compile_filter
from spark_jobs.predicates.derive import Fold, Scope
from spark_jobs.predicates.parse import conjuncts
from spark_jobs.predicates.vector import VectorFilter
from spark_jobs.readers.files import InputFile, input_files, input_uris
from spark_jobs.readers.orc.columns import PADDED
from spark_jobs.readers.orc.cost import Verdict, estimate
from spark_jobs.readers.orc.scan import OrcQuery
from spark_jobs.readers.protocol import ScanRequest, unsupported
from spark_jobs.readers.storage import Storage, storage_for

_ATOMS = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)
UTC_ZONES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Z"})
_CORRUPT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the declared type of columns of char and varchar, which are strings in the schema."""

SARG_TO_FILTER = "orc.sarg.to.filter"
"""Switches on the lazy filter of Spark's own ORC reader."""
_USE_SELECTED = "orc.filter.use.selected"


class NativeMode(StrEnum):
    """How Spark's own reader is driven."""

    AS_CONFIGURED = "as configured"
    WITH_FILTER = "orc.sarg.to.filter=true"
    WITHOUT_FILTER = "orc.sarg.to.filter=false"


@dataclass(frozen=True)
class OrcPlan:
    """A lazy scan, ready to run. `exact` says that no row comes out that the predicate would refuse."""

    files: tuple[InputFile, ...]
    query: OrcQuery
    reason: str
    conjuncts: tuple[ConjunctReport, ...]
    exact: bool


@dataclass(frozen=True)
class NativePlan:
    """Why Spark's reader takes the scan, and how it is driven."""

    reason: str
    mode: NativeMode


def plan_orc(spark: SparkSession, request: ScanRequest, fold: Fold) -> OrcPlan | NativePlan:
    """Choose the reader of an ORC source. Under `auto`, reads a few row groups of the filter's columns."""
    source = request.source
    _refuse_use_selected(spark, request)
    configured = {
        None: NativeMode.AS_CONFIGURED,
        True: NativeMode.WITH_FILTER,
        False: NativeMode.WITHOUT_FILTER,
    }[source.orc.sarg_to_filter]
    refusal = _refusal(spark, request)
    if refusal:
        return NativePlan(refusal, configured)
    parts = _parts(spark, request, fold)
    usable = [part for part in parts if isinstance(part.compiled, VectorFilter)]
    if request.where is not None and not usable:
        return NativePlan("no conjunct can be evaluated over columns: " + _first_reason(parts), configured)
    combined = all_of([part.compiled for part in parts if isinstance(part.compiled, VectorFilter)]) if parts else None
    storage = storage_for(spark, input_uris(request.native), source.options)
    if isinstance(storage, str):
        return NativePlan(storage, configured)
    files = _files(request, storage)
    query = _query(spark, request, combined)
    reports = tuple(_report(part) for part in parts)
    exact = len(usable) == len(parts) and all(r.exactness is Exactness.EXACT for r in reports)
    if source.reader is ReaderChoice.PUSHDOWN:
        return OrcPlan(files, query, "asked for with reader='pushdown'", reports, exact)
    try:
        chosen = estimate(files, query, may_filter=source.orc.sarg_to_filter is not False)
    except PushdownError as problem:
        return NativePlan(f"no estimate could be made: {problem}", configured)
    if chosen.verdict is Verdict.LAZY:
        return OrcPlan(files, query, chosen.reason, reports, exact)
    with_filter = chosen.verdict is Verdict.SPARK_WITH_FILTER
    mode = NativeMode.WITH_FILTER if with_filter and configured is NativeMode.AS_CONFIGURED else configured
    return NativePlan(chosen.reason, mode)


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
    if request.where is None and source.reader is ReaderChoice.AUTO:
        return "no predicate to push"
    if request.where is not None and request.predicate is None:
        return "the predicate is beyond the parser, Spark alone evaluates it"
    if len(request.native.columns) != len(request.schema.fields):
        return "partition columns come from directory names"
    for field in _read_fields(request):
        if unknown := unknown_type(field.dataType):
            return f"column {field.name} has type {unknown.simpleString()}, which only Spark reads"
        if any("DEFAULT" in key for key in field.metadata):
            return f"column {field.name} has a default for missing values"
    return _unsafe_setting(spark, request)


def _unsafe_setting(spark: SparkSession, request: ScanRequest) -> str | None:
    options = request.source.options
    for key in _CORRUPT:
        option = key.rpartition(".")[2].lower()
        if options.get(option, _conf(spark, key, "false")).lower() == "true":
            return f"{key} is on, and only Spark's readers skip broken files"
    if _conf(spark, "spark.sql.orc.impl", "native") != "native":
        return "spark.sql.orc.impl is not native"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key in ("orc.force.positional.evolution", "orc.schema.evolution.case.sensitive", "orc.tolerate.missing.schema"):
        if hadoop.get(key) is not None or key in options:
            return f"{key} is set, and only Spark's reader knows it"
    if any(has_times(field.dataType) for field in _read_fields(request)):
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        zone = str(jvm.java.util.TimeZone.getDefault().getID())
        if zone not in UTC_ZONES:
            return f"the JVM's time zone is {zone}: timestamps are read lazily only in UTC"
    return None


def _conf(spark: SparkSession, key: str, default: str) -> str:
    return (spark.conf.get(key, default) or default).strip()


def _read_fields(request: ScanRequest) -> list[t.StructField]:
    return [field for field in request.schema.fields if field.name in set(request.columns)]


def unknown_type(kind: t.DataType) -> t.DataType | None:
    """A type in a column's type that is not read lazily."""
    if isinstance(kind, t.StructType):
        return next((found for f in kind.fields if (found := unknown_type(f.dataType))), None)
    if isinstance(kind, t.ArrayType):
        return unknown_type(kind.elementType)
    if isinstance(kind, t.MapType):
        return unknown_type(kind.keyType) or unknown_type(kind.valueType)
    known = type(kind) in _ATOMS or (type(kind) is t.StringType and kind.collation == "UTF8_BINARY")
    return None if known else kind


def has_times(kind: t.DataType) -> bool:
    """Whether a type has timestamps in it, whose values depend on time zones."""
    if isinstance(kind, t.StructType):
        return any(has_times(f.dataType) for f in kind.fields)
    if isinstance(kind, t.ArrayType):
        return has_times(kind.elementType)
    if isinstance(kind, t.MapType):
        return has_times(kind.keyType) or has_times(kind.valueType)
    return isinstance(kind, t.TimestampType)


@dataclass(frozen=True)
class _Part:
    """One conjunct of the predicate: compiled, or the reason why it is not."""

    conjunct: exp.Expr
    compiled: VectorFilter | str


def _scope(spark: SparkSession, request: ScanRequest, fold: Fold) -> Scope:
    return Scope(
        request.schema,
        case_sensitive=_conf(spark, "spark.sql.caseSensitive", "false") == "true",
        plain_strings="\\" not in (request.where or "")
        and _conf(spark, "spark.sql.session.collation.default", "UTF8_BINARY") == "UTF8_BINARY",
        fold=fold,
    )


def _parts(spark: SparkSession, request: ScanRequest, fold: Fold) -> list[_Part]:
    if request.predicate is None:
        return []
    scope = _scope(spark, request, fold)
    return [_Part(conjunct, compile_filter(conjunct, scope)) for conjunct in conjuncts(request.predicate)]


def _first_reason(parts: Sequence[_Part]) -> str:
    return next((part.compiled for part in parts if isinstance(part.compiled, str)), "there is none")


def _report(part: _Part) -> ConjunctReport:
    sql = part.conjunct.sql(dialect="spark", copy=False)
    if isinstance(part.compiled, str):
        return unsupported(sql, part.compiled)
    exactness = Exactness.EXACT if part.compiled.is_exact else Exactness.INEXACT
    return ConjunctReport(sql=sql, exactness=exactness, pushed_as="vector filter over ORC columns")


def _files(request: ScanRequest, storage: Storage) -> tuple[InputFile, ...]:
    try:
        return input_files(request.native, storage)
    except FileNotFoundError as problem:
        raise MissingPathError(
            f"{problem.filename} vanished while the scan was planned; run the task again"
        ) from problem


def wanted_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """The Arrow schema in which Spark takes some columns."""
    return pa.schema([_wanted_field(field) for field in fields])


def _wanted_field(field: t.StructField) -> pa.Field:
    declared = str(field.metadata.get(_DECLARED, "")).replace("varchar(", "")
    padded = {PADDED: b""} if "char(" in declared else None
    return pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), metadata=padded)


def _query(spark: SparkSession, request: ScanRequest, combined: VectorFilter | None) -> OrcQuery:
    wanted = set(request.columns)
    places = [place for place, field in enumerate(request.schema.fields) if field.name in wanted]
    fields = [request.schema.fields[place] for place in places]
    return OrcQuery(
        wanted_schema(fields),
        tuple(places),
        combined,
        request.source.orc.partial_reads,
        request.source.orc.min_seek_size,
        _conf(spark, "spark.sql.caseSensitive", "false") == "true",
    )
