"""Queries that Spark parses to the same plan are the same query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.optimizer.catalyst import has_same_parse, is_same_query


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("SELECT id AS a, id + 1 b FROM t", "select  id a, (id + 1) AS b from t", True),
        ("SELECT (SELECT max(id) AS m FROM t) AS a", "SELECT (SELECT max(id) m FROM t) a", True),
        ("WITH w AS (SELECT id AS a FROM t) SELECT a FROM w", "WITH w AS (SELECT id a FROM t) SELECT a FROM w", True),
        ("SELECT 1 FROM t WHERE id = 1", "SELECT 1 FROM t WHERE id = '1'", False),
        ("SELECT 1 FROM t WHERE id = 1", "SELECT 1 FROM t WHERE id = 1L", False),
        ("SELECT id AS a FROM t", "SELECT id AS b FROM t", False),
        ("SELECT id FROM t ORDER BY id", "SELECT id FROM t ORDER BY id NULLS LAST", False),
        ("SELECT a.id FROM t a, t b", "SELECT b.id FROM t a, t b", False),
        ("SELECT * FROM t LIMIT 1", "SELECT * FROM t LIMIT 2", False),
        ("SELECT /*+ BROADCAST(t) */ * FROM t", "SELECT * FROM t", False),
    ],
)
def test_equal_parses_are_equal_queries(spark: SparkSession, left: str, right: str, expected: bool) -> None:
    spark.range(3).createOrReplaceTempView("t")
    try:
        assert has_same_parse(spark, left, right) is expected
        # Hints change no rows, so they are equal after the analysis.
        assert is_same_query(spark.sql(left), spark.sql(right)) or not expected
    finally:
        spark.catalog.dropTempView("t")
