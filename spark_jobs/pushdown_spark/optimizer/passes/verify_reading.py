"""Verify the reading of a query: withdraw all predicates if Spark reads the query differently from sqlglot."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException

from pushdown_spark.optimizer.catalyst import is_lossless
from pushdown_spark.optimizer.query_context import QueryContext
from pushdown_spark.runtime.error_classification import typed_error


def verify_reading(context: QueryContext) -> None:
    """Withdraw all predicates if Spark does not read the query as sqlglot does.

    This has Spark analyze the query. Raises typed errors for mistakes that Spark finds in it.
    """
    try:
        original = context.analyze(context.query.sql)
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about="query") from problem
    if not is_lossless(original, context.query.generated_sql, context.analyze):
        context.predicates = {}
        context.plan_scans()
