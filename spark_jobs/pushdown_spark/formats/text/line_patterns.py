"""The byte patterns of a predicate over lines of JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import TRUE, Column, conjunction
from pushdown_spark.expressions.byte_patterns.csv import csv_patterns
from pushdown_spark.expressions.byte_patterns.facts import AllOf, AnyOf, InRange, NotNull, facts_of
from pushdown_spark.expressions.byte_patterns.json import json_patterns
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.expressions.conjuncts import column_path, operands
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.session_settings import is_enabled
from pushdown_spark.formats.bound_predicate import scope_of
from pushdown_spark.formats.text.text_options import TextOptions
from pushdown_spark.sources.request import ScanRequest


@dataclass(frozen=True)
class LinePatterns:
    """The byte pattern of each conjunct, and the candidate patterns. A candidate may combine several conjuncts.

    For each candidate, `early_keys` has the key that lets Spark's JSON parser reject a line before its end, or None if
    there is none.
    """

    conjuncts: tuple[Pushdown[BytePattern], ...]
    candidates: tuple[BytePattern, ...]
    early_keys: tuple[str | None, ...]

    def reports(self, pattern: BytePattern, kind: str) -> tuple[ConjunctReport, ...]:
        """Return reports of the conjuncts that the chosen pattern covers: one of them, or all if it combines several.

        `kind` is what the reader derives from the pattern.
        """
        is_combined = all(conjunct.artifact != pattern for conjunct in self.conjuncts)
        reports = []
        for conjunct in self.conjuncts:
            if conjunct.artifact is not None and conjunct.artifact != pattern and not is_combined:
                conjunct = Pushdown.unsupported(conjunct.conjunct, "another conjunct's pattern matches fewer lines")
            reports.append(conjunct.report(f"{kind} {pattern.label}"))
        return tuple(reports)


def line_patterns(spark: SparkSession, request: ScanRequest, options: TextOptions) -> LinePatterns:
    """Return the byte patterns of the predicate. Raises UnsupportedError if there are none."""
    assert request.predicate is not None
    scope = replace(scope_of(spark, request), is_for_text=True)
    bound_conjuncts = [bind(conjunct, scope) for conjunct in request.predicate.conjuncts]
    roots = [TRUE if conjunct.artifact is None else conjunct.artifact for conjunct in bound_conjuncts]

    # Encoding thousands of values takes time, so each set of facts is encoded once.
    @cache
    def encode(facts: AllOf) -> list[BytePattern]:
        return _encode(facts, request, options)

    # Two half-open ranges of one column combine to one narrow range.
    combined_facts = facts_of(conjunction(roots))
    ranges = {
        fact.column: fact for fact in combined_facts.parts if isinstance(fact, InRange) and encode(AllOf((fact,)))
    }
    conjunct_facts = [facts_of(root) for root in roots]
    pushdowns = [
        _conjunct_pushdown(conjunct.conjunct, encode(facts))
        for conjunct, facts in zip(bound_conjuncts, conjunct_facts, strict=True)
    ]
    is_json = request.source.format is SourceFormat.JSON
    spark_rejects_early = is_json and is_enabled(spark, "spark.sql.json.filterPushdown.enabled", default=True)
    early_keys: dict[BytePattern, str] = {}
    candidates: list[BytePattern] = []
    for pushdown, facts in zip(pushdowns, conjunct_facts, strict=True):
        if pushdown.artifact is None:
            continue
        if spark_rejects_early and (key := _early_key(pushdown.conjunct, facts)) is not None:
            early_keys[pushdown.artifact] = key
        if not _is_narrowed(facts, ranges):
            candidates.append(pushdown.artifact)
    unique = tuple(dict.fromkeys([*candidates, *encode(combined_facts)]))
    if not unique:
        raise UnsupportedError("no conjunct implies bytes that a line must contain")
    return LinePatterns(tuple(pushdowns), unique, tuple(map(early_keys.get, unique)))


def _conjunct_pushdown(conjunct: exp.Expr, patterns: Sequence[BytePattern]) -> Pushdown[BytePattern]:
    smallest = min(patterns, key=lambda pattern: pattern.size, default=None)
    if smallest is None:
        return Pushdown.unsupported(conjunct, "implies no bytes that a line must contain")
    return Pushdown.inexact(conjunct, smallest, "the pattern may match other lines too")


def _is_narrowed(facts: AllOf, ranges: Mapping[Column, InRange]) -> bool:
    """Return whether other conjuncts narrow all ranges of a conjunct. Its own pattern is not needed then."""
    return bool(facts.parts) and all(
        isinstance(fact, InRange) and ranges.get(fact.column, fact) != fact for fact in facts.parts
    )


def _encode(facts: AllOf, request: ScanRequest, options: TextOptions) -> list[BytePattern]:
    if request.source.format is SourceFormat.CSV:
        return csv_patterns(facts, options.csv, request.schema.fieldNames())
    return json_patterns(facts, options.calendar)


def _early_key(conjunct: exp.Expr, facts: AllOf) -> str | None:
    """Return the top-level column by which a conjunct decides alone, or None. A test for NULL seldom decides.

    Spark pushes no functions of a column.
    """
    if all(column_path(node) is None for node in (conjunct, *operands(conjunct))):
        return None
    paths = {fact.column.path for fact in facts.parts if not isinstance(fact, AnyOf | NotNull)}
    if not len(paths) == len(facts.parts) == 1:
        return None
    (path,) = paths
    return path[0] if len(path) == 1 else None
