"""The pushdown reader for JSON lines and CSV: it searches the raw bytes, and Spark parses only the candidate lines.

Filtering raw bytes before parsing follows Sparser (Palkar et al., VLDB 2018). Spark parses the candidates with the same
options and re-evaluates the predicate, so this reader only has to keep every line that may satisfy it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, FileReport, ReaderChoice, SourceFormat, SourceReport
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import TRUE, Column, conjunction
from pushdown_spark.expressions.byte_patterns.csv import csv_patterns
from pushdown_spark.expressions.byte_patterns.facts import AllOf, InRange, facts_of
from pushdown_spark.expressions.byte_patterns.json import json_patterns
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Fold
from pushdown_spark.expressions.session_settings import is_enabled
from pushdown_spark.formats.columnar import listed_files, scope_of
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineFilterTask
from pushdown_spark.formats.text.line_sample import LineSample, sample
from pushdown_spark.formats.text.metrics import TextTask, total
from pushdown_spark.formats.text.text_options import (
    TextOptions,
    ambiguous_csv,
    ambiguous_json,
    check_options,
    text_options,
)
from pushdown_spark.formats.text.text_settings import check_settings, uses_current_date_rules
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import Compression, InputFile, Task, input_uris
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.storage import storage_for
from pushdown_spark.runtime.worker_startup import startup_cost
from pushdown_spark.scan.base import IncrementalScan, Scan
from pushdown_spark.scan.incremental import batch_size
from pushdown_spark.scan.metrics import TaskCounts, by_file, most_read
from pushdown_spark.scan.tasks import tasks_of, with_constants

_LINE_SCHEMA = "value string"


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem. Only their ratios matter for the choice of a reader.

    - `spark_per_byte`: Spark's reader with its own pushdown.
    - `spark_cold_per_byte`: the same in a JVM that has just started.
    - `search_per_byte`: reading and searching.
    - `parse_per_byte` and `per_line`: passing a candidate line to Spark and parsing it.
    - `fixed`: starting the Python workers.
    """

    spark_per_byte: float
    spark_cold_per_byte: float
    search_per_byte: float
    parse_per_byte: float
    per_line: float
    fixed: float


_COSTS = {
    SourceFormat.JSON: Costs(3.1e-9, 6.2e-9, 0.5e-9, 8.0e-9, 2.0e-6, 0.5),
    SourceFormat.CSV: Costs(9.0e-9, 9.5e-9, 0.6e-9, 15.0e-9, 2.0e-6, 0.5),
}
_MAX_COST_RATIO = 0.9
"""Maximum estimated cost of our reader, relative to Spark's reader."""
_GENERAL_PATTERN_SHARE = 0.01
"""Share of matching lines from which the general form of a pattern is sampled too.

The short form matches every line with an unusual spelling.
"""


@dataclass(frozen=True)
class TextPlan:
    """A planned byte-search scan. Fields are as in `LineFilterTask`."""

    files: tuple[InputFile, ...]
    required: Searcher
    ambiguous: Searcher
    options: TextOptions
    reason: str
    conjuncts: tuple[ConjunctReport, ...]


def plan_text(spark: SparkSession, request: ScanRequest, fold: Fold) -> TextPlan:
    """Plan a byte-search scan. Reads a sample of the files.

    Raises UnsupportedError if byte search is unsound or too expensive.
    """
    _check_request(spark, request)
    try:
        storage = storage_for(spark, input_uris(request.native), request.source.options)
    except UnsupportedError:
        # If there are no patterns either, that is the reason to report.
        _patterns(spark, request, fold, _text_options(spark, request))
        raise
    files = listed_files(request, storage)
    if request.source.reader is ReaderChoice.AUTO and files:
        _check_size(spark, request.source, files)
    options = _text_options(spark, request)
    patterns = _patterns(spark, request, fold, options)
    if unsupported := next((file.path for file in files if file.compression is None), None):
        raise UnsupportedError(f"{unsupported} may have a compression that only Spark supports")
    if request.source.format is SourceFormat.JSON:
        ambiguous = ambiguous_json(_parsed_schema(request))
    else:
        ambiguous = ambiguous_csv(options.csv, skips_fields=_skips_fields(spark, request))
    return _choose_pattern(spark, request, files, patterns, ambiguous, options)


def _check_request(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError if Spark's reader must take the scan."""
    source = request.source
    if source.format not in (SourceFormat.JSON, SourceFormat.CSV) and source.reader is not ReaderChoice.SPARK:
        raise UnsupportedError(f"format {source.format} is read by Spark only")
    request.check_allowed()
    if request.predicate is None:
        raise UnsupportedError("no predicate to push")
    if source.schema is None and source.format is SourceFormat.JSON and not request.schema.fields:
        raise UnsupportedError("the files have no columns")
    request.check_any_reader()
    check_settings(spark, request)
    check_options(source.format, source.options, request.schema, skips_fields=_skips_fields(spark, request))


def _skips_fields(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether the CSV parser of Spark's reader would skip fields. With our reader, it parses all of them."""
    if request.source.format is not SourceFormat.CSV or len(request.read_schema) == len(request.schema):
        return False
    return is_enabled(spark, "spark.sql.csv.parser.columnPruning.enabled", default=True)


def _text_options(spark: SparkSession, request: ScanRequest) -> TextOptions:
    source, today = request.source, datetime.now(UTC).date()
    legacy = not uses_current_date_rules(spark)
    return text_options(source.format, source.options, _parsed_schema(request), legacy_dates=legacy, today=today)


@dataclass(frozen=True)
class _Patterns:
    """The byte pattern of each conjunct, and the candidate patterns. A candidate may combine several conjuncts."""

    conjuncts: tuple[Pushdown[BytePattern], ...]
    candidates: tuple[BytePattern, ...]


def _patterns(spark: SparkSession, request: ScanRequest, fold: Fold, options: TextOptions) -> _Patterns:
    """Return the byte patterns of the predicate. Raises UnsupportedError if there are none."""
    patterns = _encode_predicate(spark, request, fold, options)
    if not patterns.candidates:
        raise UnsupportedError("no conjunct implies bytes that a line must contain")
    return patterns


def _encode_predicate(spark: SparkSession, request: ScanRequest, fold: Fold, options: TextOptions) -> _Patterns:
    assert request.predicate is not None
    scope = scope_of(spark, request, fold)
    bound = [bind(conjunct, scope) for conjunct in request.predicate.conjuncts]
    roots = [TRUE if conjunct.artifact is None else conjunct.artifact for conjunct in bound]
    # Two half-open ranges of one column combine to one narrow range.
    combined_facts = facts_of(conjunction(roots))
    combined_patterns = _encode(combined_facts, request, options)
    if len(bound) == 1:
        # Encoding thousands of values takes time, so it is done once.
        pushdown = _conjunct_pushdown(bound[0].conjunct, combined_patterns)
        return _Patterns((pushdown,), tuple(dict.fromkeys(combined_patterns)))
    ranges = {
        fact.column: fact
        for fact in combined_facts.parts
        if isinstance(fact, InRange) and _encode(AllOf((fact,)), request, options)
    }
    conjunct_facts = [facts_of(root) for root in roots]
    pushdowns = [
        _conjunct_pushdown(conjunct.conjunct, _encode(facts, request, options))
        for conjunct, facts in zip(bound, conjunct_facts, strict=True)
    ]
    candidates = [
        pushdown.artifact
        for pushdown, facts in zip(pushdowns, conjunct_facts, strict=True)
        if pushdown.artifact is not None and not _is_narrowed(facts, ranges)
    ]
    return _Patterns(tuple(pushdowns), tuple(dict.fromkeys([*candidates, *combined_patterns])))


def _conjunct_pushdown(conjunct: exp.Expr, patterns: Sequence[BytePattern]) -> Pushdown[BytePattern]:
    smallest = min(patterns, key=lambda pattern: pattern.size, default=None)
    if smallest is None:
        return Pushdown.unsupported(conjunct, "implies no bytes that a line must contain")
    return Pushdown.inexact(conjunct, smallest, "Spark parses the lines that match")


def _is_narrowed(facts: AllOf, ranges: Mapping[Column, InRange]) -> bool:
    """Return whether other conjuncts narrow all ranges of a conjunct. Its own pattern is not needed then."""
    return bool(facts.parts) and all(
        isinstance(fact, InRange) and ranges.get(fact.column, fact) != fact for fact in facts.parts
    )


def _encode(facts: AllOf, request: ScanRequest, options: TextOptions) -> list[BytePattern]:
    if request.source.format is SourceFormat.CSV:
        return csv_patterns(facts, options.csv, request.schema.fieldNames())
    return json_patterns(facts, plain_dates=options.plain_dates, plain_timestamps=options.plain_timestamps)


def _choose_pattern(
    spark: SparkSession,
    request: ScanRequest,
    files: tuple[InputFile, ...],
    patterns: _Patterns,
    ambiguous_pattern: BytePattern,
    options: TextOptions,
) -> TextPlan:
    """Return a plan with the pattern that matches the fewest sampled lines.

    Raises UnsupportedError if it would cost too much.
    """
    searchers = [Searcher(pattern) for pattern in patterns.candidates]
    ambiguous = Searcher(ambiguous_pattern)
    sampled = sample(files, searchers, ambiguous, options.lines)
    share, required = min(zip(sampled.shares, searchers, strict=True), key=lambda pair: (pair[0], pair[1].pattern.size))
    conjunct_reports = _conjunct_reports(patterns.conjuncts, required.pattern)
    if required.pattern.general and share > _GENERAL_PATTERN_SHARE:
        general = Searcher(required.pattern.general)
        general_share = sample(files, [general], ambiguous, options.lines).shares[0]
        if general_share < share / 2:
            share, required = general_share, general
    stored = sum(file.size for file in files)
    reason = f"about {share:.2%} of the lines can match (sample of {sampled.lines:,} lines)"
    if request.source.reader is ReaderChoice.AUTO and not _pays(spark, request.source, stored, sampled, share):
        raise UnsupportedError(f"{_too_expensive(request.source, stored)}: {reason}")
    if request.source.reader is ReaderChoice.PUSHDOWN:
        reason = f"asked for with reader='pushdown'; {reason}"
    return TextPlan(files, required, ambiguous, options, reason, conjunct_reports)


def _check_size(spark: SparkSession, source: Source, files: Sequence[InputFile]) -> None:
    """Raise UnsupportedError if byte search costs too much for any predicate.

    This uses only the sizes of the files. Compressed files may have any size after decompression.
    """
    stored = sum(file.size for file in files)
    if any(file.compression is not Compression.NONE for file in files):
        return
    if _COSTS[source.format].fixed + startup_cost(spark, source) >= _MAX_COST_RATIO * _spark_seconds(source, stored):
        raise UnsupportedError(f"{_too_expensive(source, stored)}, whatever can match")


def _too_expensive(source: Source, stored: int) -> str:
    session = " in a session that has just begun" if source.cold else ""
    return f"byte search would not pay for {stored:,} bytes{session}"


def _spark_seconds(source: Source, size: float) -> float:
    """Return the estimated cost of Spark's reader."""
    costs = _COSTS[source.format]
    return size * (costs.spark_cold_per_byte if source.cold else costs.spark_per_byte)


def _pays(spark: SparkSession, source: Source, stored: int, sampled: LineSample, share: float) -> bool:
    """Return whether byte search is estimated to be cheaper than Spark's reader, with a margin."""
    costs = _COSTS[source.format]
    size = stored * sampled.inflation
    candidates = size / max(sampled.line_bytes, 1.0) * share
    search_seconds = costs.fixed + startup_cost(spark, source) + size * costs.search_per_byte
    parse_seconds = candidates * (costs.per_line + sampled.line_bytes * costs.parse_per_byte)
    return search_seconds + parse_seconds < _MAX_COST_RATIO * _spark_seconds(source, size)


def _conjunct_reports(conjuncts: Sequence[Pushdown[BytePattern]], chosen: BytePattern) -> tuple[ConjunctReport, ...]:
    """Return reports of the conjuncts that the chosen pattern covers: one of them, or all if it combines several."""
    is_combined = all(conjunct.artifact != chosen for conjunct in conjuncts)
    reports = []
    for conjunct in conjuncts:
        if conjunct.artifact is not None and conjunct.artifact != chosen and not is_combined:
            conjunct = Pushdown.unsupported(conjunct.conjunct, "another conjunct's pattern matches fewer lines")
        reports.append(conjunct.report(f"byte pattern {chosen.label}"))
    return tuple(reports)


def _parsed_schema(request: ScanRequest) -> StructType:
    """Return the schema with which Spark parses lines.

    JSON has only the required columns. CSV has all columns, because they go by position. The others are strings.
    """
    required = request.read_schema
    if request.source.format is not SourceFormat.CSV:
        return required
    names = set(required.fieldNames())
    return StructType([f if f.name in names else StructField(f.name, StringType()) for f in request.schema.fields])


class TextScan(Scan):
    """A byte-search scan of one source."""

    def __init__(
        self,
        spark: SparkSession,
        request: ScanRequest,
        plan: TextPlan,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._notes = notes
        self._spark = spark
        self._request = request
        self._plan = plan
        self._counts = spark.sparkContext.accumulator({}, TaskCounts[TextTask]())
        self._tasks = tasks_of(spark, request, plan.files)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The scan's tasks, in file order."""
        return self._tasks

    def frame(self) -> DataFrame:
        """Return the candidate lines, parsed by Spark, with the requested implicit columns."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.run_tasks(self._tasks, 0, (), None)

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, skip: tuple[int, ...], cap: int | None) -> DataFrame:
        """Return the rows of some tasks. Each task skips `skip` candidates and returns the next `cap` candidates."""
        counts = self._counts

        def report(number: int, count: TextTask) -> None:
            counts.add({(batch, number): count})

        plan = self._plan
        scan = LineFilterTask(tasks, plan.required, plan.ambiguous, plan.options.lines, report, skip, cap)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        lines = numbers.mapInArrow(scan, _LINE_SCHEMA)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(self._parse(lines), self._request, uris)

    def is_exhausted(self, batch: int, number: int) -> bool:
        """Return whether a task of a batch reached the end of its splits."""
        return self._counts.value[batch, number].is_exhausted

    def report(self) -> SourceReport:
        """Return the plan, and the counts of the tasks that have run."""
        plan, request = self._plan, self._request
        tasks = self._counts.value.values()
        files = {path: total(counts) for path, counts in by_file(task.files for task in tasks).items()}
        sums = total(files.values())
        has_run = bool(self._counts.value)
        size = sum(file.size for file in plan.files)
        return SourceReport(
            reader="pushdown",
            reason=plan.reason,
            conjuncts=plan.conjuncts,
            columns=request.columns,
            files_total=len(plan.files),
            files_read=len(files) if has_run else None,
            bytes_total=size,
            bytes_read=sums.bytes_read if has_run else None,
            bytes_searched=sums.bytes_searched if has_run else None,
            rows_decoded=sums.candidate_lines if has_run else None,
            skipped={
                "files": len([f for f in plan.files if f.size]) - len(files),
                "bytes never parsed": sums.bytes_searched - sums.candidate_bytes,
            }
            if has_run
            else {},
            files=most_read(
                FileReport(path=path, bytes_read=count.bytes_read, rows_decoded=count.candidate_lines)
                for path, count in files.items()
            ),
            notes=self._notes,
        )

    def incremental(self, limit: int) -> IncrementalScan:
        """Return the scan in batches of tasks."""
        return _TextBatches(self, limit)

    def _parse(self, lines: DataFrame) -> DataFrame:
        source = self._request.source
        reader = self._spark.read.schema(_parsed_schema(self._request))
        options = {key: value for key, value in source.options.items() if key not in _FILE_OPTIONS}
        if source.format is SourceFormat.JSON:
            return reader.options(**options).json(lines)
        return reader.options(**options, header="false").csv(lines)


_FILE_OPTIONS = frozenset({"header", "linesep", "encoding", "charset", "compression", "codec"})
"""Options that apply to files, not to single lines."""


class _TextBatches(IncrementalScan):
    """A scan in growing batches of tasks, in file order. An early stop does not have to kill workers."""

    def __init__(self, scan: TextScan, limit: int) -> None:
        self._scan = scan
        self._pending = [_TaskSlice(task, 0, max(limit, 1)) for task in scan.tasks]
        self._batch = 0
        self._running: list[_TaskSlice] = []

    def next_frame(self) -> DataFrame | None:
        """Return the rows of the next batch, None after the last. Batches grow and begin with unfinished tasks."""
        self._requeue()
        if not self._pending:
            return None
        size = batch_size(self._batch)
        self._running, self._pending = self._pending[:size], self._pending[size:]
        self._batch += 1
        cap = max(part.cap for part in self._running)
        tasks = tuple(part.task for part in self._running)
        return self._scan.run_tasks(tasks, self._batch, tuple(part.skip for part in self._running), cap)

    def _requeue(self) -> None:
        """Put the unfinished tasks of the last batch first, with a higher cap."""
        cap = max((part.cap for part in self._running), default=0)
        unfinished = [
            replace(part, skip=part.skip + cap, cap=cap * 8)
            for number, part in enumerate(self._running)
            if not self._scan.is_exhausted(self._batch, number)
        ]
        self._pending = unfinished + self._pending
        self._running = []


@dataclass(frozen=True)
class _TaskSlice:
    """A task, the number of candidates that earlier batches returned, and the maximum for the next batch."""

    task: Task
    skip: int
    cap: int
