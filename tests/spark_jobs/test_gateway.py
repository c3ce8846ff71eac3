"""What PySpark has no function for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.gateway import java_class, text_of, texts_of


@pytest.mark.parametrize(("letter", "count"), [("a", 3), ("é", 5000), ("🙂", 4001), ("x", 1995)])
def test_long_texts_come_whole(spark: SparkSession, letter: str, count: int) -> None:
    found = text_of(spark, java_class(spark, "scala.Some")(letter * count + "\n"))
    assert len(found) == count + len("Some(\n)")
    assert found.strip("Some(\n)") == letter * count


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_arrays_of_texts_come_as_they_are(spark: SparkSession, count: int) -> None:
    texts = [f'{number} "é" \\ 🙂 \n' for number in range(count)]
    array = spark.sparkContext._gateway.new_array(java_class(spark, "java.lang.String"), count)
    for number, text in enumerate(texts):
        array[number] = text
    assert texts_of(spark, array) == texts
