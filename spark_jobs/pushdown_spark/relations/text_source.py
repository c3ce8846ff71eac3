"""The files of a source as lines, read by Spark's text source over the listing of the source."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from pushdown_spark.projection.paths import quote_name
from pushdown_spark.relations.listing import file_index
from pushdown_spark.relations.request import Directories, ScanRequest
from pushdown_spark.runtime.jvm_gateway import java_class, scala_map, scala_object

_DATASOURCES = "org.apache.spark.sql.execution.datasources"


def text_lines(spark: SparkSession, request: ScanRequest, column: str) -> DataFrame:
    """Return the lines of the files of a request as one string column. Pruned partitions are not read.

    The DataFrame shares the listing of Spark's own DataFrame over the source, so that nothing is listed again and both
    read the same files.
    """
    session = spark._jsparkSession
    index = file_index(request.native)
    schema = session.parseDataType(StructType([StructField(column, StringType())]).json())
    # They include Hadoop's settings of the file system.
    options = scala_map(spark, request.source.options)
    source = java_class(spark, f"{_DATASOURCES}.text.TextFileFormat")()
    no_buckets = scala_object(spark, "scala.None")
    relation = java_class(spark, f"{_DATASOURCES}.HadoopFsRelation")(
        index, index.partitionSchema(), schema, no_buckets, source, options, session
    )
    lines = DataFrame(session.baseRelationToDataFrame(relation), spark)
    if request.directories is not None and request.directories.conjuncts:
        lines = lines.where(_in_directories(request.directories))
    return lines.select(quote_name(column))


def _in_directories(directories: Directories) -> Column:
    """Return whether a row is in one of the remaining partitions. Spark prunes partitions by it."""
    names = directories.fields.fieldNames()
    partitions = dict.fromkeys(directories.values.values())
    return reduce(or_, [_equals(names, values) for values in partitions], f.lit(False))


def _equals(names: list[str], values: tuple[str, ...]) -> Column:
    pairs = zip(names, values, strict=True)
    return reduce(and_, [f.col(quote_name(name)).eqNullSafe(f.expr(value)) for name, value in pairs])
