"""Candidate lines to rows: Spark's own parser, with the options of the source."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pushdown_spark.contract import SourceFormat
from pushdown_spark.runtime.jvm_gateway import has_jvm
from pushdown_spark.runtime.spark_internals import read_lines
from pushdown_spark.sources.request import ScanRequest

_FILE_OPTIONS = frozenset({"header", "linesep", "encoding", "charset", "compression", "codec"})
"""Options that apply to files, not to single lines."""


def parse_lines(spark: SparkSession, request: ScanRequest, lines: DataFrame) -> DataFrame:
    """Return the rows of lines, which are a DataFrame of one string column."""
    source = request.source
    reader = spark.read.schema(parser_schema(request))
    options = {key: value for key, value in source.options.items() if key not in _FILE_OPTIONS}
    if source.format is SourceFormat.CSV:
        options["header"] = "false"
    reader = reader.options(**options)
    if has_jvm(spark):
        return read_lines(reader, source.format.value, lines)
    rows: DataFrame = getattr(reader, source.format.value)(lines)
    return rows


def parser_schema(request: ScanRequest) -> StructType:
    """Return the schema for Spark's parser of lines.

    JSON has only the required columns. CSV has all columns, because they go by position. The others are strings.
    """
    read_schema = request.read_schema
    if request.source.format is not SourceFormat.CSV:
        return read_schema
    names = set(read_schema.fieldNames())
    return StructType([f if f.name in names else StructField(f.name, StringType()) for f in request.schema.fields])
