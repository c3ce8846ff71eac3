"""The planner of Parquet scans: it decides whether our reader or Spark's reads the files, and prepares our scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec

from pyspark.sql import SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Fold, is_char
from pushdown_spark.expressions.session_settings import is_case_sensitive, is_enabled
from pushdown_spark.formats.columnar import arrow_schema, combined, is_exact, read_fields, unread_column
from pushdown_spark.formats.columnar_scan import ColumnarPlan, needs_spark, prepare_files
from pushdown_spark.formats.parquet.address import unsupported_store
from pushdown_spark.formats.parquet.column_mapping import Calendar, datetime_calendar, int96_calendar
from pushdown_spark.formats.parquet.cost import estimate
from pushdown_spark.formats.parquet.file_parts import ParquetInput, parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.relations.file_schemas import skips_broken_files
from pushdown_spark.relations.request import Refusal, ScanRequest
from pushdown_spark.runtime.worker_startup import startup_cost

_LIBRARY = "datafusion"
_CHECKED_FILES = 64
"""Number of files whose footers the driver checks. Workers check the footer of every file."""
_OPEN_FILES = 8
_REBASE_MODE = "spark.sql.parquet.{}RebaseModeInRead"
_SPARK_SETTINGS = {
    "spark.sql.parquet.fieldId.read.enabled": "columns may be matched by field ids",
    "spark.sql.parquet.int96TimestampConversion": "timestamps of other writers are moved between time zones",
}
"""Settings that our reader does not follow when they are on."""
_HADOOP_SETTINGS = {
    "parquet.page.verify-checksum.enabled": "checksums of pages are to be verified",
    "parquet.crypto.factory.class": "files may be encrypted",
}


@dataclass(frozen=True)
class ParquetPlan(ColumnarPlan[ParquetQuery]):
    """A planned Parquet scan."""


def plan_parquet(spark: SparkSession, request: ScanRequest, fold: Fold) -> ParquetPlan | Refusal:
    """Choose the reader of a Parquet source. Reads footers and, under `auto`, filter columns of a few row groups."""
    if reason := _refusal(spark, request):
        return Refusal(reason)
    if find_spec(_LIBRARY) is None:
        return Refusal(f"the package {_LIBRARY} is not installed")
    prepared = prepare_files(spark, request, fold)
    if isinstance(prepared, Refusal):
        return prepared
    conjuncts, listed = prepared
    files = parquet_inputs(listed)
    query = _query(spark, request, combined(conjuncts))
    if reason := _unsupported_files(files, query):
        return Refusal(reason)
    return _choose_reader(spark, request, files, query, conjuncts)


def _choose_reader(
    spark: SparkSession,
    request: ScanRequest,
    files: tuple[ParquetInput, ...],
    query: ParquetQuery,
    conjuncts: Sequence[Pushdown[Node]],
) -> ParquetPlan | Refusal:
    reason = "asked for with reader='pushdown'"
    if request.source.reader is not ReaderChoice.PUSHDOWN:
        choice = estimate(files, query, startup_cost(spark, request.source))
        if not choice.is_ours:
            return Refusal(choice.reason)
        reason = choice.reason
    reports = tuple(conjunct.report("filter over Parquet columns before others are decoded") for conjunct in conjuncts)
    return ParquetPlan(files, query, reason, reports, is_exact(conjuncts))


def _refusal(spark: SparkSession, request: ScanRequest) -> str | None:
    if reason := needs_spark(request):
        return reason
    if request.predicate is None and request.source.reader is ReaderChoice.AUTO:
        return "no predicate to push"
    return request.spark_only or unread_column(request) or _char_column(request) or _unsafe_setting(spark, request)


def _char_column(request: ScanRequest) -> str | None:
    """Return why Spark must read a column of char(n), whose values it pads, or None."""
    column = next((field.name for field in read_fields(request) if is_char(field)), None)
    return None if column is None else f"column {column} is a char(n), which only Spark pads"


def _unsafe_setting(spark: SparkSession, request: ScanRequest) -> str | None:
    options = request.source.options
    if reason := skips_broken_files(spark, options):
        return reason
    for key, meaning in _SPARK_SETTINGS.items():
        if is_enabled(spark, key):
            return f"{key} is on, so that {meaning}"
    if not is_enabled(spark, "spark.sql.parquet.int96AsTimestamp", default=True):
        return "spark.sql.parquet.int96AsTimestamp is off"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, meaning in _HADOOP_SETTINGS.items():
        value = options.get(key, spark.conf.get(key, None)) or hadoop.get(key)
        if value is not None and str(value).lower() != "false":
            return f"{key} is set, so that {meaning}"
    return None


def _query(spark: SparkSession, request: ScanRequest, combined_filter: ArrowFilter | None) -> ParquetQuery:
    return ParquetQuery(
        arrow_schema(read_fields(request)),
        combined_filter,
        _calendars(spark, request),
        is_case_sensitive(spark),
    )


def _calendars(spark: SparkSession, request: ScanRequest) -> tuple[Calendar, Calendar]:
    def mode(kind: str) -> str:
        given = request.source.options.get(f"{kind}rebasemode")
        # Given a default, Spark would not return its own.
        return (given or spark.conf.get(_REBASE_MODE.format(kind)) or "EXCEPTION").strip().upper()

    return datetime_calendar(mode("datetime")), int96_calendar(mode("int96"))


def _unsupported_files(files: Sequence[ParquetInput], query: ParquetQuery) -> str | None:
    """Return why only Spark reads one of the files, None if our reader reads those that were checked."""
    not_empty = [file for file in files if file.size]
    if not not_empty:
        return "there is nothing to read"
    if reason := _unsupported_stores(not_empty):
        return reason
    step = -(-len(not_empty) // _CHECKED_FILES)
    with ThreadPoolExecutor(_OPEN_FILES) as pool:
        reasons = pool.map(lambda file: _unsupported_file(file, query), not_empty[::step])
        return next((reason for reason in reasons if reason), None)


def _unsupported_stores(files: Iterable[ParquetInput]) -> str | None:
    """Return why DataFusion cannot open the store of a file, None if it can open all."""
    buckets = {bucket[0].name: bucket[0] for file in files if (bucket := file.storage.bucket_of(file.path))}
    return next((reason for bucket in buckets.values() if (reason := unsupported_store(bucket.settings))), None)


def _unsupported_file(file: ParquetInput, query: ParquetQuery) -> str | None:
    try:
        with open_parquet(file.path, file.storage, query):
            return None
    except UnsafeInputError as problem:
        return str(problem)
