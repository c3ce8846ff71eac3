"""Operations on the JVM that PySpark does not offer."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.runtime.jvm_gateway import java_array, java_class, java_string, java_strings


@pytest.mark.parametrize(("letter", "count"), [("a", 3), ("é", 5000), ("🙂", 4001), ("x", 1995)])
def test_java_strings_of_any_length_are_complete(spark: SparkSession, letter: str, count: int) -> None:
    actual = java_string(spark, java_class(spark, "scala.Some")(letter * count + "\n"))
    assert len(actual) == count + len("Some(\n)")
    assert actual.strip("Some(\n)") == letter * count


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_java_arrays_of_any_length_become_lists_of_strings(spark: SparkSession, count: int) -> None:
    strings = [f'{number} "é" \\ 🙂 \n' for number in range(count)]
    assert java_strings(spark, java_array(java_class(spark, "java.lang.String"), strings)) == strings
