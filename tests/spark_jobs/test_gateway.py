"""What PySpark has no function for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.gateway import jvm, text_of


@pytest.mark.parametrize(("letter", "count"), [("a", 3), ("é", 5000), ("🙂", 4001), ("x", 1995)])
def test_long_texts_come_whole(spark: SparkSession, letter: str, count: int) -> None:
    found = text_of(spark, jvm(spark).scala.Some(letter * count + "\n"))
    assert len(found) == count + len("Some(\n)")
    assert found.strip("Some(\n)") == letter * count
