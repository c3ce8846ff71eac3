"""Spark's own ORC reader: its row filter (`orc.sarg.to.filter`), and what makes it lose values.

The row filter compares doubles as Java's primitives, for which NaN equals nothing, or by their bits, for which -0.0 is
not 0.0. It compares dates in the Julian calendar before 1582. In Spark, NaN equals itself and is the largest number,
-0.0 is 0.0, and all dates are in the Gregorian calendar.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import BadSpecError, PushdownError, UnsupportedError
from pushdown_spark.expressions.bound import Comparison, InList, Node, walk
from pushdown_spark.expressions.predicate import UNPARSED
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.types import FLOATING, GREGORIAN_DAY, GREGORIAN_MICROS, LogicalType, Value
from pushdown_spark.formats.bound_predicate import bound_conjuncts
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.spark_internals import reader_configuration
from pushdown_spark.sources.file_loader import FileLoader
from pushdown_spark.sources.request import ScanRequest

SARG_TO_FILTER = "orc.sarg.to.filter"
"""The setting for the row filter."""
_USE_SELECTED = "orc.filter.use.selected"
_FIRST_ALIKE = {
    LogicalType.DATE: GREGORIAN_DAY,
    LogicalType.TIMESTAMP: GREGORIAN_MICROS,
    LogicalType.TIMESTAMP_NTZ: GREGORIAN_MICROS,
}
"""The first constants that ORC compares with dates and timestamps as Spark does."""


class RowFilterError(UnsupportedError):
    """Spark's own ORC reader with its row filter takes a scan, because it is estimated to be the fastest."""


def with_row_filter(
    spark: SparkSession, request: ScanRequest, problem: UnsupportedError, loader: FileLoader
) -> ScanRequest:
    """Return the request with the row filter on or off.

    The source, a setting or the estimate turns it on, unless it loses rows.
    """
    switch = request.source.orc.sarg_to_filter
    if switch is None and reader_configuration(spark, request.source.options).getBoolean(SARG_TO_FILTER, False):
        switch = True
    if switch is None and not isinstance(problem, RowFilterError):
        return request
    obstacle = _obstacle_of_request(spark, request) if switch else None
    setting = str(switch is not False and obstacle is None).lower()
    note = f"{SARG_TO_FILTER} is {setting}{'' if obstacle is None else f': {obstacle}'}"
    return request.with_listing(loader.load({SARG_TO_FILTER: setting})).with_notes(note)


def check_lost_columns(request: ScanRequest, reason: str) -> None:
    """Raise BadSpecError for columns that Spark's ORC reader (4.3) silently returns as NULL."""
    name = next((name for name in request.read_schema.fieldNames() if "`" in name), None)
    if name is not None:
        raise BadSpecError(
            f"columns: Spark's ORC reader returns NULL for {quote_name(name)}, because its name has a backtick; set "
            f"reader='pushdown' (not used now: {reason})"
        )


def check_use_selected(configuration: JavaObject) -> None:
    """Raise PushdownError for a setting that makes Spark's reader lose rows."""
    if configuration.getBoolean(_USE_SELECTED, False):
        raise PushdownError(
            f"{_USE_SELECTED}=true makes Spark's ORC reader return no rows at all; take it out of the configuration, "
            "or give use_selected=True with reader='pushdown'",
            code=ErrorCode.UNSAFE_SETTING,
        )


def _obstacle_of_request(spark: SparkSession, request: ScanRequest) -> str | None:
    """Return why the row filter may lose rows of a request, or None if it keeps them."""
    if request.predicate is None:
        return None
    if request.predicate.tree is None:
        return UNPARSED
    return row_filter_obstacle(bound_conjuncts(spark, request))


def row_filter_obstacle(conjuncts: Sequence[Pushdown[Node]]) -> str | None:
    """Return why the row filter may lose rows that satisfy the conjuncts, or None if it keeps them."""
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
