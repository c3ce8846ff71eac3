"""Rows as an output stores them, so that checks and merges see the stored values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import SchemaConflictError, UnwritableValueError
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import analyzed_statement, java_type, plan_dataframe

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value in the directory of NULL, and in the catalog."""


def check_stored_types(spark: SparkSession, rows: t.StructType, table: t.StructType) -> None:
    """Raise SchemaConflictError if the type of a column does not fit under the ANSI rules of Spark's INSERT.

    Delta would cast each value, and fail for one that has no value in the other type. Both schemas have the same names.
    """
    types = {name: field.dataType for field in table.fields for name in (field.name.lower(), field.name)}
    cast = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Cast")
    for field in rows.fields:
        kind = types.get(field.name) or types[field.name.lower()]
        # Spark finds the members of structs by their names, also those in arrays and maps.
        if type(kind) is type(field.dataType):
            continue
        if not cast.canANSIStoreAssign(java_type(spark, field.dataType), java_type(spark, kind)):
            raise SchemaConflictError(
                f"output_table: column {field.name} is {field.dataType.simpleString()} in the rows and "
                f"{kind.simpleString()} in the table; cast it in the query"
            )


def stored_rows(spark: SparkSession, rows: DataFrame, table: str) -> DataFrame:
    """Return rows as Spark's INSERT would store them: columns by name, with its casts and checks of lengths.

    `table` is a qualified name in SQL. Raises typed errors for columns that do not fit.
    """
    view = f"airflow_pushdown_{uuid.uuid4().hex}"
    rows.createTempView(view)
    try:
        statement = f"INSERT INTO {table} BY NAME TABLE {quote_name(view)}"
        return plan_dataframe(spark, analyzed_statement(spark, statement).query())
    except (AnalysisException, ParseException) as problem:
        raise typed_error(problem, about="output_table", text_error=ErrorCode.SCHEMA_CONFLICT) from problem
    finally:
        spark.catalog.dropTempView(view)


def with_stored_partitions(rows: DataFrame, partition_by: Iterable[str]) -> DataFrame:
    """Return rows with the values of partition columns that Spark and Delta read from the names of directories.

    NULL and empty strings share a directory, and become NULL. A timestamp is local time there. The plan raises
    UnwritableValueError for one that the end of daylight saving time makes ambiguous, because its hour would change,
    and for bytes that are not UTF-8, because Java replaces them in the name.
    """
    key = session_name_rule(rows.sparkSession).key
    names = set(map(key, partition_by))
    for field in rows.schema.fields:
        column = f.col(quote_name(field.name))
        if key(field.name) not in names:
            continue
        if isinstance(field.dataType, t.StringType | t.BinaryType):
            text = column.cast("string")
            is_stored = (f.length(column) > 0) & (text != NULL_PARTITION)
            problem = "has bytes that are not UTF-8; convert the column with hex or base64 in the query"
            exact = _with_check(f.is_valid_utf8(text), field, problem)
            rows = rows.withColumn(field.name, f.when(is_stored, exact))
        elif isinstance(field.dataType, t.TimestampType):
            problem = (
                "has a time that occurs twice at the end of daylight saving time. Its directory is named by local "
                "time; set spark.sql.session.timeZone to UTC, or cast the column in the query"
            )
            is_same = column.isNull() | (column.cast("string").cast("timestamp") == column)
            rows = rows.withColumn(field.name, _with_check(is_same, field, problem))
    return rows


def _with_check(condition: Column, field: t.StructField, problem: str) -> Column:
    """Return a column whose plan raises UnwritableValueError where a condition is not true."""
    message = UnwritableValueError.plan_message(f"partition column {field.name} {problem}")
    error = f.raise_error(f.lit(message)).cast(field.dataType)
    return f.when(condition, f.col(quote_name(field.name))).otherwise(error)
