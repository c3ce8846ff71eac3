"""What Spark can broadcast decides which rows a join moves, and so which order is the cheapest."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.joins.broadcast import is_small, threshold_bytes
from pushdown_spark.joins.order import CostModel, cheapest


@pytest.mark.parametrize("text", ["10MB", "10485760", "10485760b", "10m", " 10MiB ", "1g", "20kb", "-1", "-1b"])
def test_the_threshold_is_read_as_spark_reads_it(spark: SparkSession, text: str) -> None:
    key = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(key)
    try:
        spark.conf.set(key, text.strip())
        its = spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()
    finally:
        spark.conf.set(key, before or "10MB")
    assert threshold_bytes(text) == max(its, -1)


def test_what_is_no_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="'ten' is no size"):
        threshold_bytes("ten")


@pytest.mark.parametrize(
    ("at_most", "share", "hinted"),
    [(100, 1, True), (101, 1, False), (200, 0.126, False), (200, 0.124, True), (201, 0.001, False), (None, 0, False)],
)
def test_hints_need_a_bound_that_holds_whatever_conditions_keep(
    at_most: float | None, share: float, hinted: bool
) -> None:
    assert is_small(at_most, share, 100) is hinted


def test_a_large_relation_meets_small_ones_before_it_is_shuffled() -> None:
    large, left, right = 0, 1, 2
    sizes = {0b001: 1e6, 0b010: 1e3, 0b100: 1e4, 0b011: 1e5, 0b110: 1e3, 0b111: 1e4}
    edges = [0b110, 0b101, 0b011]
    rows = lambda mask: sizes.get(mask, 1e5)  # noqa: E731
    by_rows = cheapest(edges, CostModel(rows))
    assert {by_rows.shape.left, by_rows.shape.right} >= {large}  # type: ignore[union-attr]
    by_moves = cheapest(edges, CostModel(rows, lambda mask: mask in (0b010, 0b100)))
    assert large not in {by_moves.shape.left, by_moves.shape.right}  # type: ignore[union-attr]
    assert {left, right} & {by_moves.shape.left, by_moves.shape.right}  # type: ignore[union-attr]
