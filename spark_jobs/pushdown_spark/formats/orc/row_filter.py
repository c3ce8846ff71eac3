"""Whether the row filter of Spark's ORC reader (`orc.sarg.to.filter`) keeps all rows that Spark keeps.

The filter compares doubles as Java's primitives, for which NaN equals nothing, or by their bits, for which -0.0 is not
0.0. It compares dates in the Julian calendar before 1582. In Spark, NaN equals itself and is the largest number, -0.0
is 0.0, and all dates are in the Gregorian calendar.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from pushdown_spark.expressions.bound import Comparison, InList, Node, walk
from pushdown_spark.expressions.predicate import UNPARSED
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.types import FLOATING, GREGORIAN_DAY, GREGORIAN_MICROS, LogicalType, Value
from pushdown_spark.formats.bound_predicate import bound_conjuncts
from pushdown_spark.relations.request import ScanRequest

_FIRST_ALIKE = {
    LogicalType.DATE: GREGORIAN_DAY,
    LogicalType.TIMESTAMP: GREGORIAN_MICROS,
    LogicalType.TIMESTAMP_NTZ: GREGORIAN_MICROS,
}
"""The first constants that ORC compares with dates and timestamps as Spark does."""


def obstacle_of_request(spark: SparkSession, request: ScanRequest) -> str | None:
    """Return why ORC's row filter may lose rows of a request, or None if it keeps them."""
    if request.predicate is None:
        return None
    if request.predicate.tree is None:
        return UNPARSED
    return row_filter_obstacle(bound_conjuncts(spark, request))


def row_filter_obstacle(conjuncts: Sequence[Pushdown[Node]]) -> str | None:
    """Return why ORC's row filter may lose rows that satisfy the conjuncts, or None if it keeps them."""
    for conjunct in conjuncts:
        if not conjunct.is_exact:
            return f"ORC may compare other values than Spark: {conjunct.reason}"
        assert conjunct.artifact is not None
        for node in walk(conjunct.artifact):
            match node:
                case Comparison(column=column, value=value):
                    problem = _problem(column.type, (value,))
                case InList(column=column, values=values):
                    problem = _problem(column.type, values)
                case _:
                    continue
            if problem is not None:
                return f"{'.'.join(column.path)} {problem}"
    return None


def _problem(kind: LogicalType, values: Sequence[Value]) -> str | None:
    if kind in FLOATING:
        return "may be NaN or -0.0, which ORC compares otherwise than Spark"
    first = _FIRST_ALIKE.get(kind)
    if first is not None and any(isinstance(value, int) and value < first for value in values):
        return "is compared with a time of another calendar or time zone"
    return None
