"""Rows as a table stores them, so that checks and merges see the stored values."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import analyzed_statement, java_type, plan_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def check_stored_types(spark: SparkSession, rows: StructType, table: StructType) -> None:
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
