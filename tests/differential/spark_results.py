"""Rows that Spark's own reader keeps, and the errors that it raises."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Sequence

from bisection import split_failures
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

SPARK_ERRORS = (PySparkException, Py4JJavaError)
Rows = Counter[str]


def rows_by_predicate(frame: DataFrame, row_sql: str, predicates: Sequence[str]) -> dict[str, Rows]:
    """Return the rows that Spark keeps for each predicate that does not raise. `row_sql` shows a row as a string.

    Raises one of `SPARK_ERRORS` if Spark cannot read the rows.
    """

    def run(predicates: Sequence[str]) -> dict[str, Rows]:
        results = (f"({predicate}) AS `p{n}`" for n, predicate in enumerate(predicates))
        rows = frame.selectExpr(row_sql, *results).collect()
        return {
            predicate: Counter(row[0] for row in rows if row[n] is True) for n, predicate in enumerate(predicates, 1)
        }

    batches, _ = split_failures(predicates, run, SPARK_ERRORS)
    return dict(ChainMap(*batches))
