"""The names of partition directories that mean the same values.

Spark writes the values of partition columns into the names of directories, and casts names to the types of the
columns. Other programs write `month=01`, `day=2026-1-1` or `rate=1` where Spark writes `month=1`, `day=2026-01-01` and
`rate=1.0`. Spark also ignores the case of the columns, unless the session is case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.output.files.layout import unescape_name
from pushdown_spark.output.stored_rows import NULL_PARTITION

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = f"{_DATE} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}"
_OWN_VALUES: dict[type[t.DataType], re.Pattern[str]] = {
    t.StringType: re.compile(r"(?s:.*)"),
    t.BinaryType: re.compile(r"(?s:.*)"),
    t.BooleanType: re.compile(r"true|false"),
    t.IntegralType: re.compile(r"-?[1-9][0-9]*|0"),
    t.DateType: re.compile(_DATE),
    t.TimestampType: re.compile(_TIME),
    t.TimestampNTZType: re.compile(_TIME),
}
"""Values that Spark writes as they are. Outputs with only such values need no query that casts."""
_CHAR = re.compile(r"char\(([0-9]+)\)")
_MORE_DIGITS = 10
"""Fractional digits beyond those of a type, to recognize numbers that a cast would round."""


class PartitionNames:
    """Spark's names of partitions, by the names and types of the partition columns.

    `is_declared` is whether a table declares the types. Otherwise Spark infers them from the directories.
    """

    def __init__(self, spark: SparkSession, schema: t.StructType, *, is_declared: bool) -> None:
        self._spark = spark
        self._is_declared = is_declared
        self._key = session_name_rule(spark).key
        self._fields = {self._key(field.name): field for field in schema.fields}

    def of(self, partitions: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the names that Spark gives to the values of partitions, by the directories of the partitions."""
        names = {partition: unescaped_names(partition) for partition in partitions}
        own = self._cast({name for directories in names.values() for name in directories})
        return {partition: tuple(own[name] for name in directories) for partition, directories in names.items()}

    def _cast(self, names: Iterable[str]) -> dict[str, str]:
        """Return Spark's names for unescaped names of directories."""
        own = {name: name for name in names}
        foreign: dict[t.DataType, list[tuple[str, str, str]]] = {}
        for name in own:
            key, _, value = name.partition("=")
            field = self._fields.get(self._key(key))
            if field is None:
                continue
            own[name] = f"{field.name}={_padded(value, field)}"
            if not _is_own_value(value, field.dataType):
                foreign.setdefault(field.dataType, []).append((name, field.name, value))
        for kind, rows in foreign.items():
            frame = self._spark.createDataFrame(rows, "name string, key string, value string")
            value_or_text = f.coalesce(self._value_text(f.col("value"), kind), "value")
            own.update(frame.select("name", f.concat("key", f.lit("="), value_or_text)).collect())
        return own

    def _value_text(self, value: Column, kind: t.DataType) -> Column:
        """Return the string that Spark writes for the value of another program's string, or NULL if there is none.

        A number that Spark would round is not the same number. A time of a day is not the same date, unless a table
        declares a date: Spark would infer timestamps.
        """
        own = value.try_cast(kind)
        if isinstance(kind, t.IntegralType | t.DecimalType):
            scale = kind.scale if isinstance(kind, t.DecimalType) else 0
            number = value.try_cast(t.DecimalType(38, min(38, scale + _MORE_DIGITS)))
            own = f.when(number.try_cast(kind) == number, number.try_cast(kind))
        elif isinstance(kind, t.DateType) and not self._is_declared:
            own = f.when(value.try_cast(t.TimestampType()) == own.cast(t.TimestampType()), own)
        return own.cast("string")


def unescaped_names(partition: str) -> tuple[str, ...]:
    """Return the names of the directories of a partition without escapes.

    >>> unescaped_names("month=01/kind=a%20b")
    ('month=01', 'kind=a b')
    """
    return tuple(map(unescape_name, partition.split("/")))


def _padded(value: str, field: t.StructField) -> str:
    """Return the value of a column, which has the type CHAR by its metadata, as Spark pads it."""
    kind = _CHAR.fullmatch(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return value if kind is None or value == NULL_PARTITION else value.ljust(int(kind[1]))


def _is_own_value(value: str, kind: t.DataType) -> bool:
    matches = (pattern.fullmatch(value) for base, pattern in _OWN_VALUES.items() if isinstance(kind, base))
    return value == NULL_PARTITION or any(matches)
