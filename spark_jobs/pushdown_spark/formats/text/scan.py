"""The pushdown reader for JSON lines and CSV: search the raw bytes, let Spark parse only the candidate lines.

Filtering raw bytes before parsing follows Sparser (Palkar et al., VLDB 2018). Spark parses the candidates with the same
options and evaluates the predicate again, so this reader can drop only lines that provably fail it.
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
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import TRUE, Column, conjunction
from pushdown_spark.expressions.byte_patterns.csv import csv_patterns
from pushdown_spark.expressions.byte_patterns.facts import AllOf, InRange, facts_of
from pushdown_spark.expressions.byte_patterns.json import json_patterns
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.expressions.predicate import UNPARSED
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
    text_options,
    unsafe_option,
)
from pushdown_spark.formats.text.text_settings import current_dates, unsafe_settings
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import Compression, InputFile, Task, input_uris
from pushdown_spark.relations.request import Refusal, ScanRequest
from pushdown_spark.relations.storage import storage_for
from pushdown_spark.runtime.worker_startup import startup_cost
from pushdown_spark.scan.base import IncrementalScan, Scan
from pushdown_spark.scan.incremental import batch_size
from pushdown_spark.scan.metrics import TaskCounts, by_file, most_read
from pushdown_spark.scan.tasks import tasks_of, with_constants

_LINE_SCHEMA = "value string"


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem; only their ratios matter for the choice of a reader.

    `spark_per_byte`: Spark's reader with its own pushdown; `spark_cold_per_byte` in a JVM that has just started.
    `search_per_byte`: reading and searching. `parse_per_byte` and `per_line`: handing a candidate line over and parsing
    it. `fixed`: starting the Python side.
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
_MARGIN = 0.9
"""Our reader must promise to be at least this much cheaper."""
_UNUSUAL = 0.01
"""From this share of lines on, a pattern that takes unusual spellings on trust is held against its general form."""


@dataclass(frozen=True)
class TextPlan:
    """A byte-search scan, ready to run: files, what to search for, and what the sample promised."""

    files: tuple[InputFile, ...]
    wanted: Searcher
    forbidden: Searcher
    options: TextOptions
    reason: str
    conjuncts: tuple[ConjunctReport, ...]


def plan_text(spark: SparkSession, request: ScanRequest, fold: Fold) -> TextPlan | Refusal:
    """Decide whether byte search is sound and pays, and prepare it. Reads a sample of the files, nothing else."""
    refusal = _refusal(spark, request)
    if refusal:
        return Refusal(refusal)
    storage = storage_for(spark, input_uris(request.native), request.source.options)
    files = () if isinstance(storage, str) else listed_files(request, storage)
    if request.source.reader is ReaderChoice.AUTO and files and (small := _too_small(spark, request.source, files)):
        return Refusal(small)
    options = _options(spark, request)
    patterns = _patterns(spark, request, fold, options)
    if not patterns.candidates:
        return Refusal("no conjunct implies bytes that a line must hold")
    if isinstance(storage, str):
        return Refusal(storage)
    if coded := next((file.path for file in files if file.compression is None), None):
        return Refusal(f"{coded} may be compressed in a way that only Spark reads")
    if request.source.format is SourceFormat.JSON:
        forbidden = ambiguous_json(_read_schema(request))
    else:
        forbidden = ambiguous_csv(options.csv, skips_fields=_skips_fields(spark, request))
    return _chosen(spark, request, files, patterns, forbidden, options)


def _refusal(spark: SparkSession, request: ScanRequest) -> str | None:
    source = request.source
    if source.reader is ReaderChoice.SPARK:
        return "asked for with reader='spark'"
    if source.format not in (SourceFormat.JSON, SourceFormat.CSV):
        return f"format {source.format} is read by Spark alone"
    if not source.filter_pushdown:
        return "filter_pushdown=False"
    if request.predicate is None:
        return "no predicate to push"
    if request.predicate.tree is None:
        return UNPARSED
    if source.schema is None and request.source.format is SourceFormat.JSON and not request.schema.fields:
        return "the files have no columns"
    return (
        request.spark_only
        or unsafe_settings(spark, request)
        or unsafe_option(source.format, source.options, request.schema, skips_fields=_skips_fields(spark, request))
    )


def _skips_fields(spark: SparkSession, request: ScanRequest) -> bool:
    """Whether Spark's reader would have its CSV parser skip fields; ours has it read all of them."""
    if request.source.format is not SourceFormat.CSV or len(request.read_schema) == len(request.schema):
        return False
    return is_enabled(spark, "spark.sql.csv.parser.columnPruning.enabled", default=True)


def _options(spark: SparkSession, request: ScanRequest) -> TextOptions:
    source, today = request.source, datetime.now(UTC).date()
    legacy = not current_dates(spark)
    return text_options(source.format, source.options, _read_schema(request), legacy_dates=legacy, today=today)


@dataclass(frozen=True)
class _Patterns:
    """The byte pattern of each conjunct, and the patterns to choose from, which include those of several conjuncts."""

    conjuncts: tuple[Pushdown[BytePattern], ...]
    candidates: tuple[BytePattern, ...]


def _patterns(spark: SparkSession, request: ScanRequest, fold: Fold, options: TextOptions) -> _Patterns:
    assert request.predicate is not None
    scope = scope_of(spark, request, fold)
    bound = [bind(conjunct, scope) for conjunct in request.predicate.conjuncts]
    roots = [TRUE if conjunct.artifact is None else conjunct.artifact for conjunct in bound]
    # Two half-open ranges of one column together are one narrow range.
    together = facts_of(conjunction(roots))
    whole = _encoded(together, request, options)
    if len(bound) == 1:
        # Encoding thousands of values takes time, so it is done once.
        return _Patterns((_outcome(bound[0].conjunct, whole),), tuple(dict.fromkeys(whole)))
    ranges = {
        fact.column: fact
        for fact in together.parts
        if isinstance(fact, InRange) and _encoded(AllOf((fact,)), request, options)
    }
    facts = [facts_of(root) for root in roots]
    outcomes = [
        _outcome(conjunct.conjunct, _encoded(of_conjunct, request, options))
        for conjunct, of_conjunct in zip(bound, facts, strict=True)
    ]
    candidates = [
        outcome.artifact
        for outcome, of_conjunct in zip(outcomes, facts, strict=True)
        if outcome.artifact is not None and not _is_narrowed(of_conjunct, ranges)
    ]
    return _Patterns(tuple(outcomes), tuple(dict.fromkeys([*candidates, *whole])))


def _outcome(conjunct: exp.Expr, patterns: Sequence[BytePattern]) -> Pushdown[BytePattern]:
    smallest = min(patterns, key=lambda pattern: pattern.size, default=None)
    if smallest is None:
        return Pushdown.unsupported(conjunct, "implies no bytes that a line must hold")
    return Pushdown.inexact(conjunct, smallest, "Spark parses the lines that match")


def _is_narrowed(facts: AllOf, ranges: Mapping[Column, InRange]) -> bool:
    """Whether other conjuncts narrow all ranges of a conjunct, so that its own pattern need not be compiled."""
    return bool(facts.parts) and all(
        isinstance(fact, InRange) and ranges.get(fact.column, fact) != fact for fact in facts.parts
    )


def _encoded(facts: AllOf, request: ScanRequest, options: TextOptions) -> list[BytePattern]:
    if request.source.format is SourceFormat.CSV:
        return csv_patterns(facts, options.csv, request.schema.fieldNames())
    return json_patterns(facts, plain_dates=options.plain_dates, plain_timestamps=options.plain_timestamps)


def _chosen(
    spark: SparkSession,
    request: ScanRequest,
    files: tuple[InputFile, ...],
    patterns: _Patterns,
    forbidden: BytePattern,
    options: TextOptions,
) -> TextPlan | Refusal:
    searchers = [Searcher(pattern) for pattern in patterns.candidates]
    refused = Searcher(forbidden)
    seen = sample(files, searchers, refused, options.lines)
    share, wanted = min(zip(seen.shares, searchers, strict=True), key=lambda pair: (pair[0], pair[1].pattern.size))
    conjunct_reports = _conjunct_reports(patterns.conjuncts, wanted.pattern)
    if wanted.pattern.general and share > _UNUSUAL:
        general = Searcher(wanted.pattern.general)
        less = sample(files, [general], refused, options.lines).shares[0]
        if less < share / 2:
            share, wanted = less, general
    stored = sum(file.size for file in files)
    verdict = f"about {share:.2%} of the lines can match (sample of {seen.lines:,} lines)"
    if request.source.reader is ReaderChoice.AUTO and not _pays(spark, request.source, stored, seen, share):
        return Refusal(f"{_not_paying(request.source, stored)}: {verdict}")
    if request.source.reader is ReaderChoice.PUSHDOWN:
        verdict = f"asked for with reader='pushdown'; {verdict}"
    return TextPlan(files, wanted, refused, options, verdict, conjunct_reports)


def _too_small(spark: SparkSession, source: Source, files: Sequence[InputFile]) -> str | None:
    """Why no predicate could make byte search pay, told by sizes alone; what is compressed may hold any number."""
    stored = sum(file.size for file in files)
    if any(file.compression is not Compression.NONE for file in files):
        return None
    if _COSTS[source.format].fixed + startup_cost(spark, source) < _MARGIN * _spark_seconds(source, stored):
        return None
    return f"{_not_paying(source, stored)}, whatever can match"


def _not_paying(source: Source, stored: int) -> str:
    begins = " in a session that has just begun" if source.cold else ""
    return f"byte search would not pay for {stored:,} bytes{begins}"


def _spark_seconds(source: Source, size: float) -> float:
    costs = _COSTS[source.format]
    return size * (costs.spark_cold_per_byte if source.cold else costs.spark_per_byte)


def _pays(spark: SparkSession, source: Source, stored: int, seen: LineSample, share: float) -> bool:
    costs = _COSTS[source.format]
    size = stored * seen.inflation
    lines = size / max(seen.line_bytes, 1.0) * share
    ours = costs.fixed + startup_cost(spark, source) + size * costs.search_per_byte
    ours += lines * (costs.per_line + seen.line_bytes * costs.parse_per_byte)
    return ours < _MARGIN * _spark_seconds(source, size)


def _conjunct_reports(conjuncts: Sequence[Pushdown[BytePattern]], chosen: BytePattern) -> tuple[ConjunctReport, ...]:
    """Report which conjuncts the chosen pattern stands for: all of them, if it is of no single conjunct."""
    together = all(conjunct.artifact != chosen for conjunct in conjuncts)
    reports = []
    for conjunct in conjuncts:
        if conjunct.artifact is not None and conjunct.artifact != chosen and not together:
            conjunct = Pushdown.unsupported(conjunct.conjunct, "another conjunct's pattern lets fewer lines through")
        reports.append(conjunct.report(f"byte pattern {chosen.label}"))
    return tuple(reports)


def _read_schema(request: ScanRequest) -> StructType:
    """JSON is read by name, so only what is wanted; CSV is read by position, where the rest is text as it stands."""
    wanted = request.read_schema
    if request.source.format is not SourceFormat.CSV:
        return wanted
    names = set(wanted.fieldNames())
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
        """Candidate lines parsed by Spark, with the implicit columns asked for."""
        return self._all_rows

    @cached_property
    def _all_rows(self) -> DataFrame:
        return self.wave(self._tasks, 0, (), None)

    def wave(self, tasks: tuple[Task, ...], wave: int, skip: tuple[int, ...], cap: int | None) -> DataFrame:
        """The rows of some tasks; of each task at most `cap` candidates behind the first `skip`."""
        counts = self._counts

        def report(number: int, count: TextTask) -> None:
            counts.add({(wave, number): count})

        plan = self._plan
        scan = LineFilterTask(tasks, plan.wanted, plan.forbidden, plan.options.lines, report, skip, cap)
        numbers = self._spark.range(0, len(tasks), 1, max(len(tasks), 1))
        lines = numbers.mapInArrow(scan, _LINE_SCHEMA)
        uris = [plan.files[task.file].uri for task in tasks]
        return with_constants(self._parsed(lines), self._request, uris)

    def exhausted(self, wave: int, number: int) -> bool:
        """Whether a task of a wave came to the end of its splits."""
        return self._counts.value[wave, number].exhausted

    def report(self) -> SourceReport:
        """The plan, and the figures of the tasks that have run."""
        plan, request = self._plan, self._request
        tasks = self._counts.value.values()
        files = {path: total(each) for path, each in by_file(task.files for task in tasks).items()}
        done = total(files.values())
        ran = bool(self._counts.value)
        size = sum(file.size for file in plan.files)
        return SourceReport(
            reader="pushdown",
            reason=plan.reason,
            conjuncts=plan.conjuncts,
            columns=request.columns,
            files_total=len(plan.files),
            files_read=len(files) if ran else None,
            bytes_total=size,
            bytes_read=done.bytes_read if ran else None,
            bytes_searched=done.bytes_searched if ran else None,
            rows_decoded=done.candidate_lines if ran else None,
            skipped={
                "files": len([f for f in plan.files if f.size]) - len(files),
                "bytes never parsed": done.bytes_searched - done.candidate_bytes,
            }
            if ran
            else {},
            files=most_read(
                FileReport(path=path, bytes_read=count.bytes_read, rows_decoded=count.candidate_lines)
                for path, count in files.items()
            ),
            notes=self._notes,
        )

    def incremental(self, limit: int) -> IncrementalScan:
        """Return the scan in batches of tasks."""
        return _Waves(self, limit)

    def _parsed(self, lines: DataFrame) -> DataFrame:
        source = self._request.source
        reader = self._spark.read.schema(_read_schema(self._request))
        options = {key: value for key, value in source.options.items() if key not in _FILE_OPTIONS}
        if source.format is SourceFormat.JSON:
            return reader.options(**options).json(lines)
        return reader.options(**options, header="false").csv(lines)


_FILE_OPTIONS = frozenset({"header", "linesep", "encoding", "charset", "compression", "codec"})
"""Options about files, not about the text of a line."""


class _Waves(IncrementalScan):
    """Runs a scan's tasks front to back in growing waves, so that an early stop needs no worker to be killed."""

    def __init__(self, scan: TextScan, limit: int) -> None:
        self._scan = scan
        self._pending = [_Piece(task, 0, max(limit, 1)) for task in scan.tasks]
        self._wave = 0
        self._running: list[_Piece] = []

    def next_frame(self) -> DataFrame | None:
        """The next wave's rows: twice as many tasks each time, and unfinished tasks first."""
        self._requeue()
        if not self._pending:
            return None
        size = batch_size(self._wave)
        self._running, self._pending = self._pending[:size], self._pending[size:]
        self._wave += 1
        cap = max(piece.cap for piece in self._running)
        tasks = tuple(piece.task for piece in self._running)
        return self._scan.wave(tasks, self._wave, tuple(piece.skip for piece in self._running), cap)

    def _requeue(self) -> None:
        cap = max((piece.cap for piece in self._running), default=0)
        unfinished = [
            replace(piece, skip=piece.skip + cap, cap=cap * 8)
            for number, piece in enumerate(self._running)
            if not self._scan.exhausted(self._wave, number)
        ]
        self._pending = unfinished + self._pending
        self._running = []


@dataclass(frozen=True)
class _Piece:
    """A task, the candidates of it that earlier waves took, and how many the next wave may take."""

    task: Task
    skip: int
    cap: int
