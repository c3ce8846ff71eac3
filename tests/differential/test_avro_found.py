"""Cases that nightly runs found, identified by their seeds."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from test_avro import Tally, check_case


@pytest.mark.parametrize("seed", [2648])
def test_decimals_with_redundant_bytes_are_found_after_the_branch_of_a_union(spark: SparkSession, seed: int) -> None:
    check_case(spark, seed, 3, Tally())
