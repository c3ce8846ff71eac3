"""Cases that nightly runs found, identified by their seeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from avro_comparison import AvroComparison
from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", [2648])
def test_decimals_with_redundant_bytes_are_found_after_the_branch_of_a_union(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    AvroComparison(spark).check_case(seed, random.Random(seed + 1), tmp_path, 3)
