"""The scope that a predicate is bound to: the columns of the source with their types, and the session settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Column
from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.expressions.types import DECLARED_TYPE, LogicalType, Path

Fold = Callable[[str], object]
"""Evaluates a constant Spark SQL expression. Returns None where Spark finds no value."""

_TYPES: dict[type[t.DataType], LogicalType] = {
    t.BooleanType: LogicalType.BOOLEAN,
    t.ByteType: LogicalType.INTEGER,
    t.ShortType: LogicalType.INTEGER,
    t.IntegerType: LogicalType.INTEGER,
    t.LongType: LogicalType.INTEGER,
    t.FloatType: LogicalType.FLOAT,
    t.DoubleType: LogicalType.DOUBLE,
    t.DecimalType: LogicalType.DECIMAL,
    t.VarcharType: LogicalType.STRING,
    t.BinaryType: LogicalType.BINARY,
    t.DateType: LogicalType.DATE,
    t.TimestampType: LogicalType.TIMESTAMP,
    t.TimestampNTZType: LogicalType.TIMESTAMP_NTZ,
}
_STORAGE = {
    LogicalType.DATE: pa.int32(),
    LogicalType.TIMESTAMP: pa.int64(),
    LogicalType.TIMESTAMP_NTZ: pa.int64(),
    LogicalType.STRING: pa.string(),
    LogicalType.OTHER: pa.null(),
}
"""Arrow types that values have in comparisons, for columns of another Arrow type."""


@dataclass(frozen=True)
class Scope:
    """The meaning of names and literals in a predicate.

    `has_plain_strings` is False where strings are not compared by their bytes (collations), or where the text of a
    literal may differ from its value (backslashes). Without `fold`, constants that only Spark can evaluate are
    unsupported. `is_for_text` binds a predicate to find facts about the text of a row, and not to evaluate it. The
    bound tree may then be true for more rows than the predicate, and its columns may be values of maps and elements of
    arrays.
    """

    schema: t.StructType
    _: KW_ONLY
    has_plain_strings: bool
    name_rule: NameRule = ANY_CASE
    fold: Fold | None = None
    is_for_text: bool = False

    def column(self, path: Path) -> Column:
        """Resolve a column or struct member. Raises UnsupportedError where it is missing, ambiguous or has a default.

        A default replaces missing values, so that stored data prove nothing about the column.
        """
        fields: list[t.StructField] = []
        for part in path:
            fields.append(self.member(fields[-1].dataType if fields else self.schema, part, path))
        # Spark pads char(n) values, and what they are compared with.
        kind = t.CharType(1) if any(map(is_char, fields)) else fields[-1].dataType
        return column_of_type(tuple(field.name for field in fields), kind)

    def member(self, parent: t.DataType, name: str, path: Path) -> t.StructField:
        """Return a member of a struct. `path` is the whole reference. Raises UnsupportedError as `column` does."""
        members = parent.fields if isinstance(parent, t.StructType) else []
        matches = [field for field in members if self.name_rule.same(field.name, name)]
        if len(matches) != 1:
            raise UnsupportedError(f"{'.'.join(path)} is not the name of exactly one struct member")
        if any("DEFAULT" in key for key in matches[0].metadata):
            raise UnsupportedError(f"{'.'.join(path)} has a default for missing values")
        return matches[0]


def column_of_type(path: Path, data_type: t.DataType) -> Column:
    """Return the column with a path and a Spark type."""
    logical = logical_type(data_type)
    return Column(path, logical, _STORAGE[logical] if logical in _STORAGE else to_arrow_type(data_type))


def logical_type(data_type: t.DataType) -> LogicalType:
    """Return how values of a Spark type compare. Strings with a collation are OTHER."""
    if type(data_type) is t.StringType:
        return LogicalType.STRING if data_type == t.StringType() else LogicalType.OTHER
    return _TYPES.get(type(data_type), LogicalType.OTHER)


def is_char(field: t.StructField) -> bool:
    """Return whether a field is a char(n) or contains one."""
    declared_type = str(field.metadata.get(DECLARED_TYPE, "")).replace("varchar(", "")
    return "char(" in declared_type or isinstance(field.dataType, t.CharType)
