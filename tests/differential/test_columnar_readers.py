"""The pushdown readers of Avro, ORC and Parquet return the rows of Spark's own readers without pushdown."""

from __future__ import annotations

from typing import Any

import pytest
from avro_comparison import AvroComparison
from columnar_cases import ReaderComparison, check_seeds
from orc_comparison import OrcComparison
from parquet_comparison import ParquetComparison
from pyspark.sql import SparkSession
from seeds import few_and_many

MANY = (150, 3)


@pytest.mark.parametrize(("cases", "scans"), few_and_many((4, 2), MANY))
@pytest.mark.parametrize(
    "comparison_class",
    [AvroComparison, OrcComparison, ParquetComparison],
    ids=lambda comparison_class: comparison_class.source_format,
)
def test_scans_of_random_files_return_sparks_rows(
    spark: SparkSession, comparison_class: type[ReaderComparison[Any]], cases: int, scans: int
) -> None:
    """`scans` is the number of predicates of each case that run in a session."""
    comparison = comparison_class(spark)
    check_seeds(cases, lambda seed, rng, directory: comparison.check_case(seed, rng, directory, scans))
    comparison.check_compared()
    tally = comparison.tally
    assert tally["scans"] > tally["given up"] + tally["left to Spark"], tally
    assert tally["by pushdown in sessions"] > 0, tally
    # The cases depend on Spark's version. A few of them need not have each outcome, such as pruning by a Bloom filter.
    assert cases < MANY[0] or all(comparison.outcomes().values()), comparison.metrics
