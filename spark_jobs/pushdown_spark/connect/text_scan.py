"""Scans of JSON lines and CSV over Spark Connect: the server's text source reads lines, and a string filter drops most.

The soundness rules, the filter and the checks of lines are the same as in `formats/text/jvm_scan.py`. Without a JVM,
the filter uses Spark's `contains`, headers and a sample are read by small queries, and partition columns are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from pushdown_spark.contract import ReaderChoice, SourceReport
from pushdown_spark.contract.report_text import human_percent
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
from pushdown_spark.expressions.session_settings import setting, temporary_settings
from pushdown_spark.formats.text.jvm_scan import BLANK, LINE, JvmTextScan
from pushdown_spark.formats.text.line_conditions import matches_filter
from pushdown_spark.formats.text.line_filter import LineSyntax
from pushdown_spark.formats.text.line_parser import parse_lines
from pushdown_spark.formats.text.line_patterns import line_patterns
from pushdown_spark.formats.text.planner import (
    NO_STRING,
    JvmTextPlan,
    ambiguous_pattern,
    check_request,
    request_options,
    string_filters,
)
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.projection.file_locations import location
from pushdown_spark.scan.plan import PUSHDOWN_REQUESTED, ReaderDecision
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import decode_uri

_SAMPLE_FILES = 4
_SAMPLE_LINES = 2_000
"""The number of lines of each file of the sample."""
_MAX_HEADERS = 32
"""Maximum number of files whose headers one query reads."""
_ONE_SPLIT = {"spark.sql.files.maxPartitionBytes": str(1 << 62), "spark.sql.files.minPartitionNum": "1"}
"""Settings with which a file is one split, so that a LIMIT only reads its first lines."""


class ConnectTextScan(JvmTextScan):
    """A string-search scan of one source by the text source of a Spark Connect server."""

    def __init__(self, spark: SparkSession, request: ScanRequest, plan: JvmTextPlan, paths: Sequence[str]) -> None:
        """`paths` are the paths of the files to read."""
        super().__init__(spark, request, plan)
        self._paths = paths

    def _lines(self) -> DataFrame:
        return _text_lines(self._spark, self._request, self._paths)

    @cached_property
    def _rows(self) -> DataFrame:
        return parse_lines(self._spark, self._request, self._candidates)

    def report(self) -> SourceReport:
        """Return the plan. Spark Connect does not show what the server reads."""
        return self._plan.report(self._request, "jvm")


def plan_connect_text(spark: SparkSession, request: ScanRequest) -> ConnectTextScan:
    """Return a scan that searches lines before Spark parses them.

    Raises UnsupportedError if the search is unsound or not asked for.
    """
    if request.source.reader is ReaderChoice.AUTO:
        # Spark's own search of strings takes as long as its parser, unless that parses long lines to their end.
        raise UnsupportedError("over Spark Connect, only reader='pushdown' searches lines")
    check_request(spark, request)
    _check_session(spark)
    options = request_options(spark, request)
    patterns = line_patterns(spark, request, options)
    filters = list(string_filters(patterns))
    if not filters:
        raise UnsupportedError(NO_STRING)
    uris = request.spark_frame.inputFiles()
    _check_files(uris, options.lines)
    if options.lines.has_header:
        _check_overlap(request.source.paths)
    fractions, in_headers = _probe(spark, request, options.lines, filters, uris)
    strings = min(fractions, key=lambda candidate: (fractions[candidate], candidate.searches))
    if strings in in_headers:
        raise UnsupportedError("the header of a file has a string of the predicate")
    reason = f"about {human_percent(fractions[strings], 1)} of the lines have the strings (a sample of the first lines)"
    plan = JvmTextPlan(
        (),
        ReaderDecision(f"{PUSHDOWN_REQUESTED}; {reason}; Spark Connect has no JVM gateway for other readers"),
        patterns.reports(strings.pattern, "strings of"),
        options.lines,
        strings,
        ambiguous_pattern(spark, request, options),
    )
    # A file that appears later may have any header.
    paths = _paths(uris) if options.lines.has_header else request.source.paths
    return ConnectTextScan(spark, request, plan, paths)


def _check_session(spark: SparkSession) -> None:
    from pyspark.sql.connect import plan

    if not hasattr(plan, "Parse"):
        raise UnsupportedError(
            "the Spark Connect client of this version of Spark cannot parse lines; use Spark 4.2 or newer"
        )
    collation = setting(spark, "spark.sql.session.collation.default", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        raise UnsupportedError(f"strings have the collation {collation}")


def _check_files(uris: Sequence[str], lines: LineSyntax) -> None:
    """Raise UnsupportedError without files, for too many headers, and for files that may be in partitions.

    Only Spark's own reader knows the values of partition columns.
    """
    if not uris:
        raise UnsupportedError("there are no files")
    if lines.has_header and len(uris) > _MAX_HEADERS:
        raise UnsupportedError(f"more than {_MAX_HEADERS} files have headers, which Spark's text source reads as rows")
    for uri in uris:
        directory = location(decode_uri(uri)).rpartition("/")[0]
        if "=" in directory:
            raise UnsupportedError(f"Spark Connect does not show the values of the partition columns of {directory}")


def _check_overlap(paths: Sequence[str]) -> None:
    """Raise UnsupportedError for paths that may name a file twice. Spark reads it twice, and shows it once."""
    if len(paths) > 1 or "{" in paths[0]:
        raise UnsupportedError("several paths may name one file, and Spark Connect does not show how often it is read")


def _text_lines(spark: SparkSession, request: ScanRequest, paths: Sequence[str]) -> DataFrame:
    """Return the lines of files as one string column `LINE`."""
    schema = StructType([StructField(LINE, StringType())])
    reader = spark.read.format("text").schema(schema).options(**request.source.options)
    return reader.load(list(paths)).select(LINE)


def _paths(uris: Iterable[str]) -> list[str]:
    """Return the paths of files for a reader."""
    return [escape_glob(decode_uri(uri)) for uri in uris]


def _probe(
    spark: SparkSession, request: ScanRequest, lines: LineSyntax, filters: Sequence[StringFilter], uris: Sequence[str]
) -> tuple[dict[StringFilter, float], set[StringFilter]]:
    """Return the fraction of lines that match each filter in a sample, and the filters that a header matches.

    The sample has the first lines of some files. One query reads it and all headers.
    """
    matches = [matches_filter(spark, f.col(LINE), strings).cast("int") for strings in filters]
    uris_to_read = uris if lines.has_header else uris[:_SAMPLE_FILES]
    files = [_text_lines(spark, request, [path]) for path in _paths(uris_to_read)]
    samples = [frame.limit(_SAMPLE_LINES) for frame in files[:_SAMPLE_FILES]]
    queries = [reduce(DataFrame.unionAll, samples).agg(f.count(f.lit(1)), *map(f.sum, matches))]
    if lines.has_header:
        is_row = ~f.rlike(f.col(LINE), f.lit(BLANK))
        if lines.comment:
            is_row &= ~f.col(LINE).startswith(lines.comment.decode())
        queries += [frame.where(is_row).limit(1).select(f.lit(None), *matches) for frame in files]
    with temporary_settings(spark, _ONE_SPLIT):
        rows = reduce(DataFrame.unionAll, queries).collect()
    fractions, in_headers = {}, set()
    for lines_read, *counts in rows:
        matches_by_filter = dict(zip(filters, counts, strict=True))
        if lines_read is None:
            in_headers |= {strings for strings, count in matches_by_filter.items() if count}
        else:
            fractions = {strings: (count or 0) / max(lines_read, 1) for strings, count in matches_by_filter.items()}
    return fractions, in_headers
