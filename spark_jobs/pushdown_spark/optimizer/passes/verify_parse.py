"""Verify the parse of a query: withdraw all predicates if Spark reads the query differently from sqlglot."""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException

from pushdown_spark.optimizer.query_context import QueryContext, QueryPlan
from pushdown_spark.runtime.error_classification import typed_error


def verify_parse(context: QueryContext, plan: QueryPlan) -> QueryPlan:
    """Return the plan with scans, without all predicates if Spark does not read the query as sqlglot does.

    This has Spark analyze the query. Raises typed errors for mistakes that Spark finds in it.
    """
    try:
        plan = context.with_scans(plan, context.by_view)
        context.register(plan.scans)
        context.analyze(context.query.sql)
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about="query") from problem
    if not plan.predicates or context.is_lossless:
        return plan
    return context.with_scans(replace(plan, predicates={}), context.by_view)
