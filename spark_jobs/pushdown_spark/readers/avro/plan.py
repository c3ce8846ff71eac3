"""Decide whether an Avro scan is read by our reader or by Spark's, and prepare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pushdown_spark.char_types import DECLARED_TYPE
from pushdown_spark.contract import ConjunctReport, ReaderChoice
from pushdown_spark.predicates.derive import Fold
from pushdown_spark.predicates.vector import VectorFilter
from pushdown_spark.readers.avro.cost import estimate
from pushdown_spark.readers.avro.decode import AvroQuery, refusal
from pushdown_spark.readers.avro.header import AvroHeader, read_header
from pushdown_spark.readers.avro.scan import searches
from pushdown_spark.readers.avro.settings import AvroSettings, avro_settings
from pushdown_spark.readers.columnar import (
    Part,
    combined,
    conf,
    first_reason,
    is_exact,
    listed_files,
    parts_of,
    read_fields,
    unread_column,
)
from pushdown_spark.readers.files import Compression, InputFile, input_uris
from pushdown_spark.readers.storage import storage_for
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.request import Refusal, ScanRequest
from pushdown_spark.runtime.worker_startup import startup_cost


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
    parts = parts_of(spark, request, fold)
    if request.where is not None and not any(isinstance(part.compiled, VectorFilter) for part in parts):
        return Refusal(f"no conjunct can be evaluated over columns: {first_reason(parts)}")
    storage = storage_for(spark, input_uris(request.native), request.source.options)
    if isinstance(storage, str):
        return Refusal(storage)
    files = containers(listed_files(request, storage), any_extension=settings.any_extension)
    if not any(file.size for file in files):
        return Refusal("there is nothing to read")
    return _planned(spark, request.source, files, _query(spark, request, settings, combined(parts)), parts)


def _refusal(request: ScanRequest) -> str | None:
    source = request.source
    if source.reader is ReaderChoice.SPARK:
        return "asked for with reader='spark'"
    if not source.filter_pushdown:
        return "filter_pushdown=False"
    if request.where is not None and request.predicate is None:
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
    spark: SparkSession, request: ScanRequest, settings: AvroSettings, filtered: VectorFilter | None
) -> AvroQuery:
    return AvroQuery(
        wanted_schema(read_fields(request)),
        filtered,
        reader_schema=settings.reader_schema,
        case_sensitive=conf(spark, "spark.sql.caseSensitive", "false") == "true",
        takes_ancient=settings.takes_ancient,
    )


def _planned(
    spark: SparkSession, source: Source, files: tuple[InputFile, ...], query: AvroQuery, parts: Sequence[Part]
) -> AvroPlan | Refusal:
    first = next(file for file in files if file.size)
    header = read_header(first.path, first.storage)
    if refused := refusal(header.schema, query):
        return Refusal(refused)
    plan = AvroPlan(
        files,
        query,
        "asked for with reader='pushdown'",
        tuple(part.report(_pushed_as(part, query, header)) for part in parts),
        is_exact(parts),
    )
    if source.reader is ReaderChoice.PUSHDOWN:
        return plan
    chosen = estimate(files, query, spark.sparkContext.defaultParallelism, startup_cost(spark, source))
    if not chosen.ours:
        return Refusal(chosen.reason)
    return replace(plan, query=replace(query, block_search=chosen.search), reason=chosen.reason)


def _pushed_as(part: Part, query: AvroQuery, header: AvroHeader) -> str:
    """What our reader does with a conjunct in files with such a head."""
    filtered = "vector filter over decoded columns"
    if not isinstance(part.compiled, VectorFilter):
        return filtered
    label = searches(replace(query, filter=part.compiled), header)
    return filtered if label is None else f"byte pattern {label}, then {filtered}"
