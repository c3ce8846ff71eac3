"""Analysis of queries by Spark before they run, so that its errors name the parameter that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from pushdown_spark.contract import QuerySpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import shorten_lists
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.spark_internals import sql_parser

T = TypeVar("T")


def analyze(query: Callable[[], T], parameter: str) -> T:
    """Return the result of a call that lets Spark analyze a query. Raises typed errors that name the parameter."""
    try:
        return query()
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about=parameter) from problem


def parses(spark: SparkSession, where: str | None) -> bool:
    """Return whether Spark parses a predicate as an expression without an alias: `k ISNULL` is `k AS ISNULL`."""
    if where is None:
        return True
    try:
        expression = sql_parser(spark).parseExpression(shorten_lists(where))
    except ParseException:
        return False
    return str(expression.getClass().getSimpleName()) != "Alias"


def check_interval(spark: SparkSession, query: QuerySpec) -> None:
    """Parse the column of an interval, and `where`, each on its own.

    Raises BadPredicateError for a predicate, and BadSpecError for a column, that Spark cannot parse.
    """
    if query.interval is None:
        return
    parser = sql_parser(spark)
    column, where = query.interval.column, query.where
    try:
        parser.parseMultipartIdentifier(column)
    except ParseException as problem:
        raise BadSpecError(
            f"data_interval: {column!r} is not the name of a column; give the column with the time of a row"
        ) from problem
    if where is not None:
        analyze(lambda: parser.parseExpression(shorten_lists(where)), "where")
