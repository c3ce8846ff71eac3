"""The planner of scans that search lines before Spark parses them, by Python workers or inside the JVM.

It decides whether a search is sound and faster than Spark's reader, where the search runs, and what it searches for.

Filtering raw bytes before parsing follows Sparser (Palkar et al., VLDB 2018). Spark parses the candidates with the same
options and re-evaluates the predicate, so a search only has to keep every line that may satisfy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import attrgetter

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.contract.report_text import human_percent
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.expressions.session_settings import is_enabled, setting
from pushdown_spark.formats.text.ambiguous_lines import ambiguous_csv, ambiguous_json
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_costs import TextCosts, check_size
from pushdown_spark.formats.text.line_filter import LineFilterTask, LineQuery, LineSyntax, TextMetrics
from pushdown_spark.formats.text.line_parser import parse_lines, parser_schema
from pushdown_spark.formats.text.line_patterns import LinePatterns, line_patterns
from pushdown_spark.formats.text.line_reader import header_lines
from pushdown_spark.formats.text.line_sample import LineMarks, LineSample, LineSampler, LineSearches
from pushdown_spark.formats.text.text_options import (
    TextOptions,
    check_settings,
    check_text_options,
    text_options,
    uses_current_date_rules,
    zone_offsets,
)
from pushdown_spark.formats.worker_scan import WorkerScan
from pushdown_spark.projection.nested_types import count_leaves
from pushdown_spark.scan.packing import Task
from pushdown_spark.scan.partition_directories import listed_files
from pushdown_spark.scan.plan import PUSHDOWN_REQUESTED, ReaderDecision, ScanPlan
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.hadoop_storage import HadoopStorage
from pushdown_spark.sources.stores.listing import InputFile
from pushdown_spark.sources.stores.storage import storage_for

CARRIERS = frozenset({"workers", "jvm"})
"""Where lines may be searched. Tests and benchmarks replace it to compare the two."""
NO_STRING = "no conjunct implies a string that a line must contain"
_GENERAL_PATTERN_FRACTION = 0.01
"""If more than this fraction of the lines match the short form of a pattern, its general form is sampled too.

The short form matches every line with an unusual spelling.
"""
_MAX_HEADERS = 1_000
"""Maximum number of files whose headers the driver reads."""


@dataclass(frozen=True)
class TextPlan(ScanPlan):
    """A planned scan by Python workers, which search bytes."""

    query: LineQuery


class TextScan(WorkerScan[TextPlan, TextMetrics]):
    """A byte-search scan of one source by Python workers. Its rows are the candidate lines, parsed by Spark."""

    carrier = "workers"

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None, skip: tuple[int, ...]) -> DataFrame:
        """Return the rows of some tasks. Each task skips `skip` candidates and returns the next `cap` candidates."""
        task = LineFilterTask(tasks, self._plan.query, self._counter(batch), cap, skip)
        lines = self._map(task, "value string")
        return self._with_constants(parse_lines(self._spark, self._request, lines), tasks)

    def is_complete(self, batch: int, number: int, cap: int) -> bool:
        """Return whether a task of a batch reached the end of its splits: it found fewer candidates than `cap`.

        Spark runs no task if its optimizer finds that no row satisfies the predicate.
        """
        files = self._counts.value.get((batch, number), {})
        return sum(file.rows_decoded for file in files.values()) < cap


@dataclass(frozen=True)
class JvmTextPlan(ScanPlan):
    """A planned scan inside the JVM, which searches lines for strings.

    A line that matches `ambiguous` may parse differently as a string.
    """

    syntax: LineSyntax
    strings: StringFilter
    ambiguous: BytePattern


@dataclass(frozen=True)
class _SourceFiles:
    """The files of a scan. `jvm_only_reason` is the reason why Python workers cannot read them, or None if they can."""

    files: tuple[InputFile, ...]
    jvm_only_reason: str | None = None


def plan_text(spark: SparkSession, request: ScanRequest) -> TextPlan | JvmTextPlan:
    """Plan a scan that searches lines before they are parsed. Reads a sample of the files.

    Raises UnsupportedError if the search is unsound or too expensive.
    """
    check_request(spark, request)
    source_files = _list_files(spark, request)
    options = request_options(spark, request)
    sampler = LineSampler(source_files.files, options.lines, _marks(request, options))
    if request.source.reader is ReaderChoice.AUTO and source_files.files:
        check_size(spark, request.source, source_files.files, sampler)
    patterns = line_patterns(spark, request, options)
    return _CarrierChoice(
        spark, request, source_files=source_files, options=options, patterns=patterns, sampler=sampler
    ).plan()


def check_request(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError if only Spark's reader can read the source."""
    source = request.source
    if source.format not in (SourceFormat.JSON, SourceFormat.CSV) and source.reader is not ReaderChoice.SPARK:
        raise UnsupportedError(f"format {source.format} is read by Spark only")
    request.check_pushdown()
    if request.predicate is None:
        raise UnsupportedError("no predicate to push")
    if source.schema is None and source.format is SourceFormat.JSON and not request.schema.fields:
        raise UnsupportedError("the files have no columns")
    check_settings(spark, request)
    check_text_options(source.format, source.options, request.schema, skips_fields=_skips_fields(spark, request))


def _skips_fields(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether Spark's reader would skip fields of CSV lines. The pushdown reader parses all of them."""
    if request.source.format is not SourceFormat.CSV or len(request.read_schema) == len(request.schema):
        return False
    return is_enabled(spark, "spark.sql.csv.parser.columnPruning.enabled", default=True)


def request_options(spark: SparkSession, request: ScanRequest) -> TextOptions:
    """Return the options of the source of a request for byte search."""
    source, today = request.source, datetime.now(UTC).date()
    legacy = not uses_current_date_rules(spark)
    zone = source.options.get("timezone") or setting(spark, "spark.sql.session.timeZone", "UTC")
    offsets = zone_offsets(spark, zone)
    schema = parser_schema(request)
    return text_options(source.format, source.options, schema, has_legacy_dates=legacy, today=today, offsets=offsets)


def _marks(request: ScanRequest, options: TextOptions) -> LineMarks:
    """Return the bytes that are counted in a sample to estimate the number of values of a line."""
    if request.source.format is SourceFormat.JSON:
        return LineMarks(b'":')
    return LineMarks(options.csv.sep.encode(), options.csv.quote.encode())


def _list_files(spark: SparkSession, request: ScanRequest) -> _SourceFiles:
    """Return the files of a scan, and whether only the JVM can read them."""
    options = request.source.options
    try:
        files = listed_files(request, storage_for(spark, request.uris, options))
    except UnsupportedError as problem:
        return _SourceFiles(listed_files(request, HadoopStorage(spark, options)), str(problem))
    if jvm_only_path := next((file.path for file in files if file.compression is None), None):
        storage = HadoopStorage(spark, options)
        files = tuple(replace(file, storage=storage) for file in files)
        return _SourceFiles(files, f"{jvm_only_path} may have a compression that only Spark supports")
    return _SourceFiles(files)


def ambiguous_pattern(spark: SparkSession, request: ScanRequest, options: TextOptions) -> BytePattern:
    """Return the pattern of lines that Spark may parse differently as strings."""
    if request.source.format is SourceFormat.JSON:
        return ambiguous_json(parser_schema(request))
    return ambiguous_csv(options.csv, skips_fields=_skips_fields(spark, request))


def string_filters(patterns: LinePatterns) -> Iterator[StringFilter]:
    """Yield the string filters of the patterns of lines."""
    for pattern in patterns.candidates:
        for form in (pattern, pattern.general):
            if form is not None and (strings := StringFilter.of(form)) is not None:
                yield replace(strings, pattern=pattern)


@dataclass(frozen=True)
class _PossiblePlan:
    """A possible plan: its carrier, its cost in CPU seconds, the reason for it, and the function that builds it."""

    carrier: str
    seconds: float
    reason: str
    build: Callable[[ReaderDecision], TextPlan | JvmTextPlan]


class _CarrierChoice:
    """The choice between Python workers and the JVM, and of the pattern that each would search for."""

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        *,
        source_files: _SourceFiles,
        options: TextOptions,
        patterns: LinePatterns,
        sampler: LineSampler,
    ) -> None:
        self._spark = spark
        self._request = request
        self._source_files = source_files
        self._syntax = options.lines
        self._patterns = patterns
        self._sampler = sampler
        self._ambiguous = ambiguous_pattern(spark, request, options)
        uses_workers = source_files.jvm_only_reason is None and "workers" in CARRIERS
        self._searchers = [Searcher(pattern) for pattern in patterns.candidates] if uses_workers else []
        self._filters = list(string_filters(patterns)) if "jvm" in CARRIERS else []

    @cached_property
    def _line_sample(self) -> LineSample:
        """The fractions of lines that match what may be searched for."""
        return self._sample(self._searchers, self._filters)

    def _sample(self, searchers: Sequence[Searcher], filters: Sequence[StringFilter]) -> LineSample:
        """Sample what byte patterns of workers and string filters of the JVM match."""
        keys = [key for key in self._patterns.early_keys if key is not None]
        return self._sampler.sample(LineSearches(searchers, Searcher(self._ambiguous), filters, keys))

    @cached_property
    def _costs(self) -> TextCosts:
        return TextCosts(
            self._spark,
            self._request.source,
            sum(file.size for file in self._source_files.files),
            self._line_sample,
            query_values=sum(count_leaves(field.dataType) for field in self._request.read_schema.fields),
            spark_fraction=self._spark_fraction(),
        )

    def plan(self) -> TextPlan | JvmTextPlan:
        """Return the plan. With reader='auto', it is the cheapest one, and cheaper than Spark's reader.

        Raises UnsupportedError if there is no such plan.
        """
        plans = [*self._worker_plans(), *self._jvm_plans()]
        is_auto = self._request.source.reader is ReaderChoice.AUTO
        if is_auto:
            plans.sort(key=attrgetter("seconds"))
        predicted = {plan.carrier: plan.seconds for plan in plans} | {"spark": self._costs.spark()}
        problems = []
        for plan in plans:
            try:
                if is_auto:
                    self._costs.check_cost(plan.seconds, plan.reason)
                    return plan.build(ReaderDecision(plan.reason, predicted))
                return plan.build(ReaderDecision(f"{PUSHDOWN_REQUESTED}; {plan.reason}"))
            except UnsupportedError as problem:
                problems.append(str(problem))
        if not plans:
            problems = [*filter(None, [self._source_files.jvm_only_reason]), NO_STRING]
        raise UnsupportedError("; ".join(problems), predicted)

    def _worker_plans(self) -> Iterator[_PossiblePlan]:
        """Yield the plan with the cheapest pattern, unless workers cannot run."""
        if not self._searchers:
            return
        cost = self._costs.workers

        def rank(candidate: tuple[float, float, Searcher]) -> tuple[float, int]:
            fraction, hits, searcher = candidate
            return cost(fraction, hits=hits), searcher.pattern.size

        fraction, hits, searcher = min(
            zip(self._line_sample.fractions, self._line_sample.hits, self._searchers, strict=True), key=rank
        )
        pattern = searcher.pattern
        if pattern.general and fraction > _GENERAL_PATTERN_FRACTION:
            general = Searcher(pattern.general)
            sample = self._sample([general], [])
            if sample.fractions[0] < fraction / 2:
                fraction, hits, searcher = sample.fractions[0], sample.hits[0], general
        reason = (
            f"about {human_percent(fraction, 1)} of the lines can match (sample of {self._line_sample.lines:,} lines)"
        )
        conjuncts = self._patterns.reports(pattern, "byte pattern")

        def build(decision: ReaderDecision) -> TextPlan:
            query = LineQuery(searcher, Searcher(self._ambiguous), self._syntax)
            return TextPlan(self._source_files.files, decision, conjuncts, query)

        yield _PossiblePlan("workers", cost(fraction, hits=hits), reason, build)

    def _jvm_plans(self) -> Iterator[_PossiblePlan]:
        """Yield the plan with the string filter of the lowest cost, if there is one."""
        fractions = dict(zip(self._filters, self._line_sample.filter_fractions, strict=True))
        if not fractions:
            return
        strings = min(fractions, key=lambda strings: self._costs.jvm(fractions[strings], strings.searches))
        fraction = fractions[strings]
        cause = (
            self._source_files.jvm_only_reason
            or "Spark's text source is estimated to take less time than Python workers"
        )
        sample_note = f"sample of {self._line_sample.lines:,} lines"
        reason = f"about {human_percent(fraction, 1)} of the lines have the strings ({sample_note}); {cause}"
        seconds = self._costs.jvm(fraction, strings.searches)
        yield _PossiblePlan("jvm", seconds, reason, partial(self._jvm_plan, strings))

    def _jvm_plan(self, strings: StringFilter, decision: ReaderDecision) -> JvmTextPlan:
        self._check_headers(strings)
        conjuncts = self._patterns.reports(strings.pattern, "strings of")
        return JvmTextPlan(self._source_files.files, decision, conjuncts, self._syntax, strings, self._ambiguous)

    def _check_headers(self, strings: StringFilter) -> None:
        """Raise UnsupportedError if a header may pass the filter. Spark's text source has no headers."""
        lines = self._syntax
        if not lines.has_header:
            return
        if len(self._source_files.files) > _MAX_HEADERS:
            raise UnsupportedError(
                f"more than {_MAX_HEADERS:,} files have headers, which Spark's text source reads as rows"
            )
        for file in self._source_files.files:
            if any(map(strings.matches, header_lines(file, lines.comment, ends_at_returns=lines.ends_at_returns))):
                raise UnsupportedError(f"the header of {file.path} has a string of the predicate")

    def _spark_fraction(self) -> float:
        """Return the fraction of the bytes that Spark's reader parses before its own pushdown rejects a line.

        For CSV, Spark splits every line, and this is the fraction of the lines whose values it converts.
        """
        sample = self._line_sample
        if self._request.source.format is SourceFormat.CSV:
            is_pushed = is_enabled(self._spark, "spark.sql.csv.filterPushdown.enabled", default=True)
            return min((*sample.fractions, *sample.filter_fractions), default=1.0) if is_pushed else 1.0
        # The JSON parser reads matching lines to their end, and others up to the key that rejects them.
        fractions = {
            strings.pattern: fraction for strings, fraction in zip(self._filters, sample.filter_fractions, strict=True)
        }
        fractions |= {
            searcher.pattern: fraction for searcher, fraction in zip(self._searchers, sample.fractions, strict=True)
        }
        positions = iter(sample.key_positions)
        spark_fraction = 1.0
        for pattern, key in zip(self._patterns.candidates, self._patterns.early_keys, strict=True):
            if key is not None:
                fraction = fractions.get(pattern, 0.0)
                spark_fraction = min(spark_fraction, fraction + (1 - fraction) * next(positions))
        return spark_fraction
