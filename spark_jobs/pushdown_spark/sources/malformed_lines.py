"""Malformed lines of JSON and CSV files, counted by the job that reads the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.spark_internals import observation_counts

CORRUPT_OPTION = "columnnameofcorruptrecord"
"""Spark's option for the column that gets the text of a malformed line."""
_CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
_OWN_COLUMN = "__malformed_line"


class MalformedLines:
    """The lines of a source as rows, with a count of malformed lines.

    Spark's parser returns the text of a malformed line in a separate column. A line is malformed if it is not a row, or
    if a value that is not null becomes NULL. Spark must parse all fields to know, so the DataFrame requires all
    columns.
    """

    def __init__(self, lines: DataFrame, column: str, columns: Sequence[str]) -> None:
        """`lines` has the column for the text of malformed lines, and `columns`, which stay in the result."""
        self._spark = lines.sparkSession
        self._observation = Observation()
        names = [quote_name(name) for name in lines.columns]
        is_any_null = reduce(or_, (f.col(name).isNull() for name in names))
        counted_lines = lines.observe(
            self._observation,
            f.count_if(f.col(quote_name(column)).isNotNull()).alias("malformed"),
            f.count_if(is_any_null).alias("all columns are needed"),
        )
        self.frame = counted_lines.select(*map(quote_name, columns))
        """The rows, without the column for malformed lines unless it is a column of the source."""

    def count(self) -> int | None:
        """Return the number of malformed lines in the first action over the DataFrame, or None before it ends."""
        counts = observation_counts(self._spark, self._observation)
        return None if counts is None else counts["malformed"]


def corrupt_column(spark: SparkSession, options: Mapping[str, str], schema: StructType) -> str:
    """Return the column for the text of malformed lines: the source's own if its schema has one, else a new name."""
    name = declared_corrupt_column(spark, options)
    return name if name in schema.fieldNames() else _OWN_COLUMN


def names_corrupt_column(frame: DataFrame, options: Mapping[str, str]) -> bool:
    """Return whether a DataFrame has the column for the text of malformed lines."""
    return declared_corrupt_column(frame.sparkSession, options) in frame.columns


def declared_corrupt_column(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the name of the column that gets the text of malformed lines if the schema has it."""
    return options.get(CORRUPT_OPTION) or str(spark.conf.get(_CORRUPT_SETTING, "_corrupt_record"))
