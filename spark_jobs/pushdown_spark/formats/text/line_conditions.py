"""Conditions on lines as columns that Spark evaluates in the JVM.

Spark's `contains` and `rlike` look at one byte after another. Java's `String.contains` compares 16 or 32 bytes at once,
so the conditions call it through Catalyst's `Invoke`, which becomes a direct call in the code that Spark generates.
A session of Spark Connect cannot build such calls, and uses Spark's `contains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.runtime.jvm_gateway import has_jvm, java_class, scala_object, scala_seq
from pushdown_spark.runtime.spark_internals import expression_column, java_expression

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_TYPES = "org.apache.spark.sql.types"
_REPLACEMENT = "\ufffd"
"""The character that Java reads invalid UTF-8 as."""


def matches_filter(spark: SparkSession, line: Column, strings: StringFilter) -> Column:
    """Return whether a line may match the pattern of a filter."""
    text = _line_text(spark, line)
    conditions = [text.contains(string) for string in strings.strings]
    if strings.on_backslash:
        conditions.append(text.contains("\\") & _matches(line, strings.on_backslash))
    if strings.on_non_ascii:
        conditions.append(text.is_not_ascii() & _matches(line, strings.on_non_ascii))
    if strings.finds_invalid_utf8:
        conditions.append(text.may_be_invalid())
    return reduce(or_, conditions)


def contains_string(spark: SparkSession, line: Column, string: str) -> Column:
    """Return whether a line contains a string."""
    return _line_text(spark, line).contains(string)


def matches_pattern(spark: SparkSession, line: Column, pattern: BytePattern) -> Column:
    """Return whether a line matches a pattern. The fields of matches are ignored."""
    text = _line_text(spark, line)
    conditions = []
    if pattern.always:
        conditions.append(_matches(line, pattern.always))
    if pattern.on_backslash:
        conditions.append(text.contains("\\") & _matches(line, pattern.on_backslash))
    if pattern.on_non_ascii:
        # Lines of invalid bytes only are as long as their text.
        is_other = text.is_not_ascii() | text.may_be_invalid()
        conditions.append(is_other & _matches(line, pattern.on_non_ascii))
    return reduce(or_, conditions)


def _matches(line: Column, expressions: Sequence[str]) -> Column:
    """Return whether the bytes of a line, with a terminator, match one of the expressions.

    Latin-1 has a character for each byte, so that Java evaluates expressions over bytes. Java would repeat a group by
    recursion, and a long line would exhaust the stack of the executor. With the possessive quantifier, it uses a loop.
    What follows a repeated group in these expressions never starts like the group, so that both match alike.
    """
    characters = f.concat(f.decode(line.cast("binary"), "ISO-8859-1"), f.lit("\n"))
    pattern = "|".join(expressions).replace(")*", ")*+")
    return f.rlike(characters, f.lit(f"(?sd){pattern}"))


def _line_text(spark: SparkSession, column: Column) -> _LineText:
    return _JavaLineText(spark, column) if has_jvm(spark) else _LineText(column)


class _LineText:
    """A string column in which Spark's functions search."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def contains(self, string: str) -> Column:
        """Return whether the text contains a string."""
        return self._column.contains(f.lit(string))

    def is_not_ascii(self) -> Column:
        """Return whether the text has fewer characters than bytes, as non-ASCII text in valid UTF-8 has."""
        return f.length(self._column) < f.octet_length(self._column)

    def may_be_invalid(self) -> Column:
        """Return whether the text may have bytes that are not UTF-8."""
        return ~f.is_valid_utf8(self._column)


class _JavaLineText(_LineText):
    """A string column that is searched as a `java.lang.String`."""

    def __init__(self, spark: SparkSession, column: Column) -> None:
        super().__init__(column)
        self._spark = spark
        string_type = self._object_type("java.lang.String")
        self._text = self._invoke(java_expression(spark, column), "toString", string_type, [])

    def contains(self, string: str) -> Column:
        literal = scala_object(self._spark, f"{_CATALYST}.Literal")
        argument = literal.fromObject(string, self._object_type("java.lang.CharSequence"))
        boolean = scala_object(self._spark, f"{_TYPES}.BooleanType")
        return expression_column(self._spark, self._invoke(self._text, "contains", boolean, [argument]))

    def is_not_ascii(self) -> Column:
        integer = scala_object(self._spark, f"{_TYPES}.IntegerType")
        characters = expression_column(self._spark, self._invoke(self._text, "length", integer, []))
        return characters < f.octet_length(self._column)

    def may_be_invalid(self) -> Column:
        return self.contains(_REPLACEMENT)

    def _invoke(self, target: JavaObject, method: str, result: JavaObject, arguments: list[JavaObject]) -> JavaObject:
        none = scala_seq(self._spark, [])
        invoke = java_class(self._spark, f"{_CATALYST}.objects.Invoke")
        return invoke(target, method, result, scala_seq(self._spark, arguments), none, False, False, True)

    def _object_type(self, name: str) -> JavaObject:
        java_type = java_class(self._spark, "java.lang.Class").forName(name)
        return java_class(self._spark, f"{_TYPES}.ObjectType")(java_type)
