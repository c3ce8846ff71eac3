"""Decide whether an Avro scan is read by our reader or by Spark's, and prepare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pushdown_spark.contract import ConjunctReport, ReaderChoice
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import DECLARED_TYPE, Fold
from pushdown_spark.readers.avro.cost import estimate
from pushdown_spark.readers.avro.decode import AvroQuery, refusal
from pushdown_spark.readers.avro.header import AvroHeader, read_header
from pushdown_spark.readers.avro.scan import searches
from pushdown_spark.readers.avro.settings import AvroSettings, avro_settings
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
from pushdown_spark.readers.files import Compression, InputFile, input_uris
from pushdown_spark.readers.protocol import Refusal, ScanRequest, Source
from pushdown_spark.readers.start import waiting
from pushdown_spark.readers.storage import storage_for


class ContainerFile(InputFile):
    """A file that is cut at its own sync markers and unpacks its own blocks, whatever its name ends with."""

    @property
    def compression(self) -> Compression:
        """None around the whole file."""
        return Compression.NONE


@dataclass(frozen=True)
class AvroPlan:
    """A scan by our reader, ready to run. `exact` says that no row comes out that the predicate would refuse."""

    files: tuple[InputFile, ...]
    query: AvroQuery
    reason: str
    conjuncts: tuple[ConjunctReport, ...]
    exact: bool


def plan_avro(spark: SparkSession, request: ScanRequest, fold: Fold) -> AvroPlan | Refusal:
    """Choose the reader of an Avro source. Reads the first file's header and, under `auto`, a few blocks."""
    settings = _refusal(request) or avro_settings(spark, request.source.options)
    if isinstance(settings, str):
        return Refusal(settings)
    conjuncts = bound_conjuncts(spark, request, fold)
    if request.predicate is not None and not any(conjunct.artifact is not None for conjunct in conjuncts):
        return Refusal(f"no conjunct can be evaluated over columns: {first_reason(conjuncts)}")
    storage = storage_for(spark, input_uris(request.native), request.source.options)
    if isinstance(storage, str):
        return Refusal(storage)
    files = containers(listed_files(request, storage), any_extension=settings.any_extension)
    if not any(file.size for file in files):
        return Refusal("there is nothing to read")
    return _planned(spark, request.source, files, _query(spark, request, settings, combined(conjuncts)), conjuncts)


def _refusal(request: ScanRequest) -> str | None:
    source = request.source
    if source.reader is ReaderChoice.SPARK:
        return "asked for with reader='spark'"
    if not source.filter_pushdown:
        return "filter_pushdown=False"
    if request.predicate is not None and request.predicate.tree is None:
        return "the predicate is beyond the parser, Spark alone evaluates it"
    for field in read_fields(request):
        if DECLARED_TYPE in field.metadata:
            return f"column {field.name} is declared with a length, which only Spark's reader checks"
        if _has_map(field.dataType):
            return (
                f"column {field.name} has a map, whose entries only Spark's reader puts into the order of their hashes"
            )
    return request.spark_only or unread_column(request)


def _has_map(kind: t.DataType) -> bool:
    if isinstance(kind, t.StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, t.MapType) or (isinstance(kind, t.ArrayType) and _has_map(kind.elementType))


def containers(files: Sequence[InputFile], *, any_extension: bool) -> tuple[InputFile, ...]:
    """The files as such that can be split; only those named `*.avro` unless `any_extension`."""
    return tuple(
        ContainerFile(file.uri, file.path, file.size, file.storage)
        for file in files
        if any_extension or file.uri.endswith(".avro")
    )


def wanted_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """The Arrow schema in which Spark takes some columns."""
    return pa.schema([pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in fields])


def _query(
    spark: SparkSession, request: ScanRequest, settings: AvroSettings, filtered: ArrowFilter | None
) -> AvroQuery:
    return AvroQuery(
        wanted_schema(read_fields(request)),
        filtered,
        reader_schema=settings.reader_schema,
        case_sensitive=conf(spark, "spark.sql.caseSensitive", "false") == "true",
        takes_ancient=settings.takes_ancient,
    )


def _planned(
    spark: SparkSession,
    source: Source,
    files: tuple[InputFile, ...],
    query: AvroQuery,
    conjuncts: Sequence[Pushdown[Node]],
) -> AvroPlan | Refusal:
    first = next(file for file in files if file.size)
    header = read_header(first.path, first.storage)
    if refused := refusal(header.schema, query):
        return Refusal(refused)
    plan = AvroPlan(
        files,
        query,
        "asked for with reader='pushdown'",
        tuple(conjunct.report(_pushed_as(conjunct, query, header)) for conjunct in conjuncts),
        is_exact(conjuncts),
    )
    if source.reader is ReaderChoice.PUSHDOWN:
        return plan
    chosen = estimate(files, query, spark.sparkContext.defaultParallelism, waiting(spark, source))
    if not chosen.ours:
        return Refusal(chosen.reason)
    return replace(plan, query=replace(query, block_search=chosen.search), reason=chosen.reason)


def _pushed_as(conjunct: Pushdown[Node], query: AvroQuery, header: AvroHeader) -> str:
    """What our reader does with a conjunct in files with such a head."""
    filtered = "vector filter over decoded columns"
    if conjunct.artifact is None:
        return filtered
    label = searches(replace(query, filter=ArrowFilter(conjunct.artifact)), header)
    return filtered if label is None else f"byte pattern {label}, then {filtered}"
