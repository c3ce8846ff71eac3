"""Counts the malformed lines of JSON and CSV files in the pass that reads their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from pushdown_spark.runtime.jvm_gateway import observation_counts

CORRUPT_OPTION = "columnnameofcorruptrecord"
"""Spark's option for the column that gets the text of a malformed line."""
_CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
_OWN_COLUMN = "__malformed_line"


class MalformedLines:
    """Every line of a source as a row, and how many of the lines are malformed.

    Spark's parser gives the text of a malformed line in a column of its own, when it can make no row of it as well as
    when it makes NULL of a value. It has to parse all fields for that, so that all columns are asked for.
    """

    def __init__(self, loaded: DataFrame, column: str, columns: Sequence[str]) -> None:
        """`loaded` has the column for the text of malformed lines beside `columns`, the ones to keep."""
        self._spark = loaded.sparkSession
        self._observation = Observation()
        names = [_quoted(name) for name in loaded.columns]
        is_any_null = reduce(or_, (f.col(name).isNull() for name in names))
        counted = loaded.observe(
            self._observation,
            f.count_if(f.col(_quoted(column)).isNotNull()).alias("malformed"),
            f.count_if(is_any_null).alias("all columns are needed"),
        )
        self.frame = counted.select(*map(_quoted, columns))
        """The rows, without the column for malformed lines unless the source has it itself."""

    def count(self) -> int | None:
        """Malformed lines among those that the first action over the frame has parsed; None before it has ended."""
        counts = observation_counts(self._spark, self._observation)
        return None if counts is None else counts["malformed"]


def corrupt_column(spark: SparkSession, options: Mapping[str, str], schema: StructType) -> str:
    """The column for the text of malformed lines: the source's own where its schema has one, else a new name."""
    name = options.get(CORRUPT_OPTION, spark.conf.get(_CORRUPT_SETTING, "_corrupt_record"))
    return name if name in schema.fieldNames() else _OWN_COLUMN


def left_for_counting(max_malformed: int | None) -> str | None:
    """Why Spark's reader has to parse every line; None where malformed lines are not counted."""
    return None if max_malformed is None else "max_malformed counts malformed lines, so that every line is parsed"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
