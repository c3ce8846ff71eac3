"""Filters of Spark's readers that the planner does not know, and the columns that they must not reach.

Spark derives filters from a whole query: from HAVING, from both sides of a join, from sub-queries, and from expressions
that its optimizer simplifies. The planner only knows the filters of conjuncts that it can bind. Other filters may lose
rows or hide failures, so the columns where that is possible are hidden from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType
from sqlglot import exp

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import InList, Node, walk
from pushdown_spark.expressions.conjuncts import nodes_of
from pushdown_spark.expressions.literals import is_never_null
from pushdown_spark.expressions.parser import has_same_tokens
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import logical_type
from pushdown_spark.expressions.session_settings import rejects_old_dates
from pushdown_spark.expressions.types import FLOATING, LogicalType
from pushdown_spark.formats.bound_predicate import bound_conjuncts, is_exact
from pushdown_spark.formats.calendars import DATETIMES
from pushdown_spark.projection.nested_types import has_datetime
from pushdown_spark.runtime.fallback import recoverable_errors_as_unsupported
from pushdown_spark.sources.request import ScanRequest

_COLUMNAR = (SourceFormat.ORC, SourceFormat.PARQUET)
_OLD_YEAR = re.compile(r"(?<!\d)(?:0\d{3}|1[0-8]\d{2})(?!\d)")
"""A year before 1900 in a text."""
_LIST = re.compile(r"\bIN\b|\$\{", re.IGNORECASE)
"""A comparison with a list, or a variable of the text that may have one."""
_OLD_TYPES = frozenset({LogicalType.DATE, LogicalType.TIMESTAMP})


def unsafe_columns(spark: SparkSession, request: ScanRequest, columns: Sequence[str]) -> list[str]:
    """Return those columns of files that must be hidden from filters which the planner does not know."""
    source, required_columns = request.source, set(request.columns)
    if source.reader is ReaderChoice.SPARK:
        return []
    columns = [name for name in columns if name in required_columns]
    may_list_null = source.format is SourceFormat.ORC and _may_list_null(spark, request)
    needs_all = request.sql_function is not None or request.needs_every_row
    if may_list_null or needs_all or _may_lose_lines(spark, request):
        return columns
    text, fields = _text_of_unknown_filters(spark, request), request.spark_frame.schema.fields
    unsafe = {field.name for field in fields if is_unsafe(field, source.format, text)}
    return [name for name in columns if name in unsafe]


def _may_lose_lines(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether any filter of a query may lose lines, or hide a failure.

    A malformed JSON line has NULLs, and one with a key twice has its last value.
    """
    may_lose = request.source.format is SourceFormat.JSON and request.predicate is None
    return request.query is not None and (may_lose or may_hide_failures(spark, request))


def may_hide_failures(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether filters in a reader of rows may hide values that fail the scan."""
    options = request.source.options
    if request.source.format is SourceFormat.AVRO:
        return DATETIMES.rebase_mode(spark, "avro", options) not in ("CORRECTED", "LEGACY")
    if request.source.format not in (SourceFormat.JSON, SourceFormat.CSV):
        return False
    is_strict = options.get("mode", "").upper() == "FAILFAST"
    return is_strict or (rejects_old_dates(spark) and has_datetime(request.read_schema))


def is_unsafe(field: StructField, source_format: SourceFormat, text: str | None) -> bool:
    """Return whether filters of a format on a column may lose rows or fail, if Spark derives them from a text.

    Without a text, all filters are known, and those on timestamps without time zone still fail in ORC.

    >>> from pyspark.sql.types import DateType, DoubleType
    >>> column = StructField("s", StructType([StructField("x", DoubleType()), StructField("day", DateType())]))
    >>> [is_unsafe(column, SourceFormat.PARQUET, text) for text in ("s.x > 3", "s.day > '1850-01-01'", "k = 1", None)]
    [True, True, False, False]
    """
    if isinstance(field.dataType, StructType):
        # Spark reads all members of a hidden struct, so it stays visible to a text without the names of these members.
        members = [member for member in field.dataType.fields if _may_name(text, member.name)]
        return any(is_unsafe(member, source_format, text) for member in members)
    kind = logical_type(field.dataType)
    if source_format is SourceFormat.ORC and kind is LogicalType.TIMESTAMP_NTZ:
        return True
    if text is None:
        return False
    return (kind in FLOATING and source_format in _COLUMNAR) or (kind in _OLD_TYPES and bool(_OLD_YEAR.search(text)))


def _may_list_null(spark: SparkSession, request: ScanRequest) -> bool:
    """Return whether a list of values may have a NULL. Spark's filter for such a list fails in ORC.

    Conjuncts that are bound know the values of their lists. In others, and in a whole query, all values other than
    literals may be NULL. In SQL that only Spark can parse, every list may have one.
    """
    if request.query is not None:
        tree = request.query_tree
        is_readable = tree is not None and has_same_tokens(request.query)
        return _tree_may_list_null(tree) if tree is not None and is_readable else bool(_LIST.search(request.query))
    if request.predicate is None:
        return False
    if request.predicate.tree is None:
        return _LIST.search(request.predicate.sql) is not None
    conjuncts = known_conjuncts(spark, request)
    if conjuncts is None:
        return _tree_may_list_null(request.predicate.tree)
    return any(
        any(isinstance(node, InList) and node.has_null for node in walk(conjunct.artifact))
        if conjunct.is_exact and conjunct.artifact is not None
        else _tree_may_list_null(conjunct.conjunct)
        for conjunct in conjuncts
    )


def _tree_may_list_null(tree: exp.Expr) -> bool:
    return any(not is_never_null(item) for node in nodes_of(tree, exp.In) for item in node.expressions)


def _may_name(text: str | None, member: str) -> bool:
    # SQL writes a backtick in a name twice.
    return text is None or ".*" in text or "`" in member or member.lower() in text.lower()


def _text_of_unknown_filters(spark: SparkSession, request: ScanRequest) -> str | None:
    """Return the SQL from which Spark may derive filters that the planner does not know, or None if it knows all."""
    if request.query is not None:
        return request.query
    if request.predicate is None:
        return None
    conjuncts = known_conjuncts(spark, request)
    return None if conjuncts and is_exact(conjuncts) else request.predicate.sql


def known_conjuncts(spark: SparkSession, request: ScanRequest) -> list[Pushdown[Node]] | None:
    """Return the bound conjuncts of the predicate, or None if they cannot be bound. Spark then reads alone."""
    try:
        with recoverable_errors_as_unsupported():
            return bound_conjuncts(spark, request)
    except UnsupportedError:
        return None
