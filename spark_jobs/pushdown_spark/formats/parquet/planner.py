"""The planner of Parquet scans: it chooses between the pushdown reader and Spark's, and plans the pushdown scan."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from pyspark.sql import SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import UnsafeInputError, UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.scope import is_char
from pushdown_spark.expressions.session_settings import (
    RequiredSetting,
    check_broken_files,
    check_required_settings,
    session_name_rule,
)
from pushdown_spark.formats.bound_predicate import combine_conjuncts, is_exact
from pushdown_spark.formats.calendars import DATETIMES, INT96
from pushdown_spark.formats.columnar_scan import ColumnarPlan, check_columnar_request, prepare_files
from pushdown_spark.formats.parquet.cost import estimate
from pushdown_spark.formats.parquet.datafusion_address import check_store
from pushdown_spark.formats.parquet.file_parts import ParquetInput, parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask, open_parquet
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.formats.spark_reader.float_filters import may_lose_rows, unsupported_as_unsafe_filter
from pushdown_spark.formats.worker_startup import startup_cost
from pushdown_spark.runtime.spark_internals import check_hadoop_settings, reader_configuration
from pushdown_spark.scan.plan import ReaderDecision
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import files_with_content

_CHECKED_FILES = 64
"""Number of files whose footers the driver checks. Workers check the footer of every file."""
_OPEN_FILES = 8
_SPARK_SETTINGS = (
    RequiredSetting("spark.sql.parquet.fieldId.read.enabled", "false", "columns may be matched by field ids"),
    RequiredSetting(
        "spark.sql.parquet.int96TimestampConversion", "false", "timestamps of other writers move between time zones"
    ),
    RequiredSetting("spark.sql.parquet.int96AsTimestamp", "true", "timestamps in 96 bits are read as bytes"),
)
_HADOOP_SETTINGS = (
    RequiredSetting("parquet.page.verify-checksum.enabled", "false", "checksums of pages are to be verified"),
    RequiredSetting("parquet.crypto.factory.class", "", "files may be encrypted"),
)


class ParquetPlan(ColumnarPlan[ParquetQuery]):
    """A planned scan of Parquet files that decodes select columns only where a row passes the filter."""

    task_class = ParquetScanTask


def plan_parquet(spark: SparkSession, request: ScanRequest) -> ParquetPlan:
    """Plan a scan by the pushdown reader. Reads footers and, under `auto`, filter columns of a few row groups.

    Raises UnsupportedError if Spark's reader must read the files, or is estimated to be faster.
    """
    # Until the writers of the files are known, their statistics may omit NaN.
    with unsupported_as_unsafe_filter(spark, request, omits_nan=True):
        check_columnar_request(request)
        _check_columns(request)
        _check_settings(spark, request)
        if find_spec("datafusion") is None:
            raise UnsupportedError("the package datafusion is not installed")
        conjuncts, source_files = prepare_files(spark, request)
        files = parquet_inputs(source_files)
        query = _query(spark, request, combine_conjuncts(conjuncts))
        writers = _check_files(files, query)
    omits_nan = not all(writer.startswith("parquet-mr") for writer in writers)
    decision = ReaderDecision()
    if request.source.reader is not ReaderChoice.PUSHDOWN:
        spark_prunes = not may_lose_rows(conjuncts, omits_nan=omits_nan)
        with unsupported_as_unsafe_filter(spark, request, omits_nan=omits_nan):
            decision = estimate(files, query, startup_cost(spark, request.source), spark_prunes=spark_prunes)
    reports = tuple(conjunct.report("filter over Parquet columns before others are decoded") for conjunct in conjuncts)
    return ParquetPlan(files, decision, reports, query, is_exact(conjuncts))


def _check_columns(request: ScanRequest) -> None:
    """Raise UnsupportedError for columns that only Spark pads."""
    for field in request.read_schema.fields:
        if is_char(field):
            raise UnsupportedError(f"column {field.name} is a char(n), which only Spark pads")


def _check_settings(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError for a setting that only Spark's reader follows."""
    options = request.source.options
    check_broken_files(spark, options)
    check_required_settings(spark, _SPARK_SETTINGS)
    check_hadoop_settings(reader_configuration(spark, options), _HADOOP_SETTINGS)


def _query(spark: SparkSession, request: ScanRequest, combined_filter: ArrowFilter | None) -> ParquetQuery:
    options = request.source.options
    return ParquetQuery(
        arrow_schema(request.read_schema.fields),
        combined_filter,
        DATETIMES.is_corrected(spark, "parquet", options),
        INT96.is_corrected(spark, "parquet", options),
        session_name_rule(spark),
    )


def _check_files(files: Sequence[ParquetInput], query: ParquetQuery) -> list[str]:
    """Return the writers of the files that are checked. Raises UnsupportedError if only Spark reads one of them."""
    with_content = files_with_content(files)
    if not with_content:
        raise UnsupportedError("all files are empty")
    locations = (file.storage.bucket_of(file.path) for file in with_content)
    for bucket in {bucket.name: bucket for bucket, _ in filter(None, locations)}.values():
        check_store(bucket.settings)
    step = -(-len(with_content) // _CHECKED_FILES)
    with ThreadPoolExecutor(_OPEN_FILES) as pool:
        return list(pool.map(lambda file: _check_file(file, query), with_content[::step]))


def _check_file(file: ParquetInput, query: ParquetQuery) -> str:
    try:
        with open_parquet(file.path, file.storage, query) as parquet_file:
            return str(parquet_file.footer.created_by or "")
    except UnsafeInputError as problem:
        raise UnsupportedError(str(problem)) from problem
