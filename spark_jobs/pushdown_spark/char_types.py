"""Tells columns of char and varchar, which are strings in Spark's schemas, by what it keeps beside them."""

from __future__ import annotations

from pyspark.sql import types as t

DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the declared type of columns of char and varchar, in the metadata of their fields."""


def is_char(field: t.StructField) -> bool:
    """Whether a field is, or has inside, a char(n): Spark pads its values and what they are compared with."""
    declared = str(field.metadata.get(DECLARED_TYPE, "")).replace("varchar(", "")
    return "char(" in declared or isinstance(field.dataType, t.CharType)
