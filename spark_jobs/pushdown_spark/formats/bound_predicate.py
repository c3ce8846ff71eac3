"""The conjuncts of a scan's predicate, bound to the columns of its table, and the filter that they make."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node, conjunction
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.session_settings import check_meaning, session_name_rule, setting
from pushdown_spark.sources.request import ScanRequest


def scope_of(spark: SparkSession, request: ScanRequest) -> Scope:
    """Return the scope for binding the predicate of a request."""
    has_backslashes = request.predicate is not None and request.predicate.has_backslashes
    collation = setting(spark, "spark.sql.session.collation.default", "UTF8_BINARY")
    return Scope(
        request.schema,
        name_rule=session_name_rule(spark),
        has_plain_strings=not has_backslashes and collation == "UTF8_BINARY",
        fold=request.fold,
    )


def bound_conjuncts(spark: SparkSession, request: ScanRequest) -> list[Pushdown[Node]]:
    """Bind each conjunct of the predicate. The list is empty without a predicate that the parser can read."""
    predicate = request.predicate
    if predicate is None:
        return []
    try:
        check_meaning(spark, predicate.sql)
    except UnsupportedError as problem:
        return [Pushdown.unsupported(conjunct, str(problem)) for conjunct in predicate.conjuncts]
    scope = scope_of(spark, request)
    return [bind(conjunct, scope) for conjunct in predicate.conjuncts]


def combine_conjuncts(conjuncts: Sequence[Pushdown[Node]]) -> ArrowFilter | None:
    """Return the filter of all supported conjuncts, or None if there is none."""
    roots = [conjunct.artifact for conjunct in conjuncts if conjunct.artifact is not None]
    return ArrowFilter(conjunction(roots)) if roots else None


def first_reason(conjuncts: Sequence[Pushdown[Node]]) -> str:
    """Return why the first unsupported conjunct is unsupported."""
    return next((conjunct.reason or "" for conjunct in conjuncts if conjunct.artifact is None), "there is none")


def is_exact(conjuncts: Sequence[Pushdown[Node]]) -> bool:
    """Return whether the combined filter keeps exactly the rows that pass the predicate."""
    return all(conjunct.is_exact for conjunct in conjuncts)
