"""The planner of Avro scans: it chooses between the pushdown reader and Spark's, and plans the pushdown scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import PushdownError, UnsupportedError
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.expressions.types import DECLARED_TYPE
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.cost import AvroDecision, estimate
from pushdown_spark.formats.avro.decoder import AvroQuery, Decoder
from pushdown_spark.formats.avro.file_reader import AvroScanTask, DecoderCache
from pushdown_spark.formats.avro.spark_source import allows_any_extension, check_avro_options
from pushdown_spark.formats.bound_predicate import combine_conjuncts, is_exact
from pushdown_spark.formats.calendars import DATETIMES
from pushdown_spark.formats.columnar_scan import ColumnarPlan, check_columnar_request, prepare_files
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.formats.worker_startup import startup_cost
from pushdown_spark.projection.nested_types import has_map
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import ContainerFile, InputFile, files_with_content


class AvroPlan(ColumnarPlan[AvroQuery]):
    """A planned scan of Avro files that skips blocks by their bytes."""

    task_class = AvroScanTask
    reads_columns_separately = False


def plan_avro(spark: SparkSession, request: ScanRequest) -> AvroPlan:
    """Plan a scan by the pushdown reader of Avro. Reads the first file's header and, under `auto`, a sample of blocks.

    Raises UnsupportedError if Spark's reader must read the files, or is estimated to be faster.
    """
    check_columnar_request(request, needs_predicate=False)
    _check_columns(request)
    options = request.source.options
    check_avro_options(spark, options)
    has_corrected_calendar = DATETIMES.is_corrected(spark, "avro", options)
    conjuncts, source_files = prepare_files(spark, request)
    files = container_files(source_files, allows_any_extension=allows_any_extension(spark, options))
    with_content = files_with_content(files)
    if not with_content:
        raise UnsupportedError("all files are empty")
    query = AvroQuery(
        arrow_schema(request.read_schema.fields),
        combine_conjuncts(conjuncts),
        name_rule=session_name_rule(spark),
        has_corrected_calendar=has_corrected_calendar,
    )
    decoder = _decoder(with_content[0], query)
    reports = tuple(conjunct.report(_describe_pushdown(conjunct, decoder)) for conjunct in conjuncts)
    decision = AvroDecision()
    if request.source.reader is not ReaderChoice.PUSHDOWN:
        workers = spark.sparkContext.defaultParallelism
        decision = estimate(files, query, workers, startup_cost(spark, request.source))
    return AvroPlan(
        files, decision, reports, replace(query, searches_blocks=decision.searches_blocks), is_exact(conjuncts)
    )


def _check_columns(request: ScanRequest) -> None:
    """Raise UnsupportedError for columns whose values only Spark's reader checks or orders."""
    for field in request.read_schema.fields:
        if DECLARED_TYPE in field.metadata:
            raise UnsupportedError(f"column {field.name} is declared with a length, which only Spark's reader checks")
        if has_map(field.dataType):
            raise UnsupportedError(
                f"column {field.name} has a map, whose entries only Spark's reader returns in the order of their hashes"
            )


def container_files(files: Sequence[InputFile], *, allows_any_extension: bool) -> tuple[InputFile, ...]:
    """Return the files as container files. Without `allows_any_extension`, return only files named `*.avro`."""
    return tuple(ContainerFile.of(file) for file in files if allows_any_extension or file.uri.endswith(".avro"))


def _decoder(file: InputFile, query: AvroQuery) -> Decoder:
    """Return the decoder of a file. Raises UnsupportedError if its schema cannot be read here."""
    header = read_header(file.path, file.storage)
    try:
        return DecoderCache(query).decoder(header)
    except PushdownError as problem:
        raise UnsupportedError(str(problem)) from problem


def _describe_pushdown(conjunct: Pushdown[Node], decoder: Decoder) -> str:
    """Return how the pushdown reader evaluates a conjunct in files with the schema of a decoder."""
    search = None if conjunct.artifact is None else decoder.block_search(conjunct.artifact)
    vector_filter = "vector filter over decoded columns"
    return vector_filter if search is None else f"byte pattern {search.label}, then {vector_filter}"
