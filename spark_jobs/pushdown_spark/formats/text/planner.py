"""The planner of byte-search scans: it decides whether byte search is sound and pays, and chooses the pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, ReaderChoice, SourceFormat
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
from pushdown_spark.formats.text.cost import check_cost, check_size, sample
from pushdown_spark.formats.text.text_options import (
    TextOptions,
    ambiguous_csv,
    ambiguous_json,
    check_options,
    check_settings,
    text_options,
    uses_current_date_rules,
)
from pushdown_spark.relations.listing import InputFile, input_uris
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.storage import storage_for

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
        check_size(spark, request.source, files)
    options = _text_options(spark, request)
    patterns = _patterns(spark, request, fold, options)
    if unsupported := next((file.path for file in files if file.compression is None), None):
        raise UnsupportedError(f"{unsupported} may have a compression that only Spark supports")
    if request.source.format is SourceFormat.JSON:
        ambiguous = ambiguous_json(parsed_schema(request))
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
    return text_options(source.format, source.options, parsed_schema(request), legacy_dates=legacy, today=today)


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
    if request.source.reader is ReaderChoice.AUTO:
        check_cost(spark, request.source, stored, sampled, share, reason)
    if request.source.reader is ReaderChoice.PUSHDOWN:
        reason = f"asked for with reader='pushdown'; {reason}"
    return TextPlan(files, required, ambiguous, options, reason, conjunct_reports)


def _conjunct_reports(conjuncts: Sequence[Pushdown[BytePattern]], chosen: BytePattern) -> tuple[ConjunctReport, ...]:
    """Return reports of the conjuncts that the chosen pattern covers: one of them, or all if it combines several."""
    is_combined = all(conjunct.artifact != chosen for conjunct in conjuncts)
    reports = []
    for conjunct in conjuncts:
        if conjunct.artifact is not None and conjunct.artifact != chosen and not is_combined:
            conjunct = Pushdown.unsupported(conjunct.conjunct, "another conjunct's pattern matches fewer lines")
        reports.append(conjunct.report(f"byte pattern {chosen.label}"))
    return tuple(reports)


def parsed_schema(request: ScanRequest) -> StructType:
    """Return the schema with which Spark parses lines.

    JSON has only the required columns. CSV has all columns, because they go by position. The others are strings.
    """
    required = request.read_schema
    if request.source.format is not SourceFormat.CSV:
        return required
    names = set(required.fieldNames())
    return StructType([f if f.name in names else StructField(f.name, StringType()) for f in request.schema.fields])
