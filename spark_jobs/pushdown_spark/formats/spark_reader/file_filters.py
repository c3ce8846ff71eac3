"""The filters that Spark's file readers get from conjuncts, and whether conjuncts keep rows of NULLs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.contract import ConjunctReport, Exactness
from pushdown_spark.contract.message import shorten
from pushdown_spark.expressions.bound import Comparison, InList, Node, walk
from pushdown_spark.expressions.types import DECLARED_TYPE, GREGORIAN_DAY, GREGORIAN_MICROS, LogicalType, Value
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.jvm_gateway import class_name, elements, java_class, scala_object, scala_seq
from pushdown_spark.runtime.spark_internals import expression_column, java_expression, optimized_plan
from pushdown_spark.sources.request import unsupported_conjunct

_DATA_SOURCES = "org.apache.spark.sql.execution.datasources"
_ATTRIBUTE_SET = "org.apache.spark.sql.catalyst.expressions.AttributeSet"
_OPAQUE = "org.apache.spark.sql.catalyst.expressions.KnownNullable"
"""An expression with the value of its operand. It generates no code."""
_METADATA_KEY = "__metadata_col"
"""The key that Spark gives columns such as `_metadata`."""
_PARTITION_PRUNING = "partition pruning"
_MISSING_DAYS = range(GREGORIAN_DAY - 10, GREGORIAN_DAY)
"""The days from 1582-10-05 to 1582-10-14, which the calendar of Java's older classes lacks."""
_MAX_FILTER_LENGTH = 200
"""Maximum length of a filter in the report, in characters."""


def file_filters(
    frame: DataFrame, partitions: Sequence[str], conjuncts: Sequence[str], *, has_filters: bool = True
) -> list[ConjunctReport]:
    """Return the report of each conjunct over a DataFrame of files, with the filter that Spark derives from it.

    `partitions` are the partition columns. `has_filters` is whether the format's reader evaluates filters: Spark plans
    filters for text files too, and their reader ignores them.

    Spark optimizes all conjuncts at once, as columns of a projection. Its own `DataSourceStrategy` translates each of
    them, as `FileSourceStrategy` does when it plans the scan.
    """
    if not conjuncts:
        return []
    try:
        # The line break before the parenthesis ends a comment at the end of a conjunct.
        columns = [f"(\n{sql}\n) AS c{number}" for number, sql in enumerate(conjuncts)]
        plan = optimized_plan(frame.selectExpr(*columns))
        if class_name(plan) == "Project":
            relation = plan.collectLeaves().head()
            conditions = [alias.child() for alias in elements(plan.projectList())]
            descriptions = [
                _describe_pushdown(frame.sparkSession, relation, partitions, condition) for condition in conditions
            ]
            return [
                _report(sql, text if has_filters or text == _PARTITION_PRUNING else "")
                for sql, text in zip(conjuncts, descriptions, strict=True)
            ]
    except (PySparkException, Py4JError):
        # A constant that fails in ANSI mode, for example. The query itself raises the error.
        pass
    return [unsupported_conjunct(sql, "Spark cannot plan it") for sql in conjuncts]


def may_keep_nulls(frame: DataFrame, columns: Sequence[str], conjuncts: Sequence[str]) -> bool:
    """Return whether a row may satisfy all conjuncts if some columns are NULL."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    try:
        rows = frame.withColumns({name: f.lit(None).cast(types[name]) for name in columns})
        for sql in conjuncts:
            rows = rows.where(f"(\n{sql}\n)")
        # Spark's optimizer evaluates conjuncts over constants.
        return class_name(optimized_plan(rows)) != "LocalRelation"
    except (PySparkException, Py4JError):
        return True


def changes_constants(root: Node) -> bool:
    """Return whether the filters of Spark's readers may have other constants than a predicate.

    Their dates and timestamps have Java's older classes, with another calendar before 1582 and other rules for time
    zones before 1900.
    """
    for node in walk(root):
        match node:
            case Comparison(column=column, value=value) if _has_changed(column.type, (value,)):
                return True
            case InList(column=column, values=values) if _has_changed(column.type, values):
                return True
    return False


def _has_changed(kind: LogicalType, constants: Sequence[Value]) -> bool:
    """Return whether one of the constants that a column is compared with may be another one in a filter."""
    if kind is LogicalType.DATE:
        return any(value in _MISSING_DAYS for value in constants)
    return kind is LogicalType.TIMESTAMP and any(isinstance(v, int) and v < GREGORIAN_MICROS for v in constants)


def hide_from_filters(frame: DataFrame, names: Collection[str]) -> DataFrame:
    """Return a DataFrame with the same values. Spark pushes no filters on some of its columns into the reader.

    Columns of char(n) and varchar(n) stay as they are, because Spark needs their metadata to compare them.
    """
    spark = frame.sparkSession
    opaque = java_class(spark, _OPAQUE)
    opaque_columns = {}
    for field in frame.schema.fields:
        if field.name in names and DECLARED_TYPE not in field.metadata:
            column = expression_column(spark, opaque(java_expression(spark, f.col(quote_name(field.name)))))
            opaque_columns[field.name] = column.alias(field.name, metadata=field.metadata) if field.metadata else column
    return frame.withColumns(opaque_columns)


def _report(sql: str, pushed_as: str) -> ConjunctReport:
    if not pushed_as:
        return unsupported_conjunct(sql, "Spark does not push it into this format")
    exactness = Exactness.EXACT if pushed_as == _PARTITION_PRUNING else Exactness.INEXACT
    return ConjunctReport(sql=sql, exactness=exactness, pushed_as=pushed_as)


def _describe_pushdown(
    spark: SparkSession, relation: JavaObject, partitions: Sequence[str], condition: JavaObject
) -> str:
    """Return what Spark's scan does with an optimized condition, or an empty string if it does nothing."""
    columns = list(elements(condition.references().toSeq()))
    data = [column for column in columns if str(column.name()) not in partitions]
    if columns and not data and condition.deterministic():
        return _PARTITION_PRUNING
    file_columns = [column for column in data if not column.metadata().contains(_METADATA_KEY)]
    if not file_columns:
        return ""
    strategy = scala_object(spark, f"{_DATA_SOURCES}.DataSourceStrategy")
    column_set = scala_object(spark, _ATTRIBUTE_SET).apply(scala_seq(spark, file_columns))
    # The part of the condition that is about the columns of the files.
    part = strategy.extractPredicatesWithinOutputSet(condition, column_set)
    if part.isEmpty():
        return ""
    source_filter = strategy.translateFilter(part.get(), _takes_members(spark, relation))
    if source_filter.isEmpty():
        return ""
    return f"Spark's reader: {shorten(str(source_filter.get().toString()), _MAX_FILTER_LENGTH)}"


def _takes_members(spark: SparkSession, relation: JavaObject) -> bool:
    """Return whether Spark pushes filters on struct members into the format."""
    if relation.nodeName() == "DataSourceV2Relation":
        return True
    utils = scala_object(spark, f"{_DATA_SOURCES}.DataSourceUtils")
    return bool(utils.supportNestedPredicatePushdown(relation.relation()))
