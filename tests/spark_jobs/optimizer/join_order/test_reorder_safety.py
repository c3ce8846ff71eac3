"""Conditions that may fail on a value: explicit operations and implicit casts."""

from __future__ import annotations

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes, casts_may_fail, may_fail

NUMBERS = "range(3) a"
WORDS = "(SELECT cast(id AS string) AS word, id FROM range(3)) t"


@pytest.mark.parametrize(
    ("query", "may_fail"),
    [
        (f"SELECT * FROM {NUMBERS} WHERE id = 1", False),
        (f"SELECT * FROM {NUMBERS} WHERE id = 1 + 2 AND id > 0.5 AND id <> cast(NULL AS int)", False),
        (f"SELECT * FROM {NUMBERS} WHERE id * 1.5 > 2", False),
        (f"SELECT * FROM {WORDS} WHERE word = 1", True),
        (f"SELECT * FROM {WORDS} WHERE word = 'cast(1 as int)'", False),
        (f"SELECT * FROM {WORDS} WHERE id = 'cast(' AND word = ')'", False),
        (f"SELECT * FROM {WORDS} WHERE word = 'two\\nlines' AND word = id", True),
        (f"SELECT * FROM {WORDS} WHERE word = 'two\\nlines' AND word > 'x'", False),
        (f"SELECT cast(word AS int) FROM {WORDS}", False),
        (f"SELECT * FROM {NUMBERS} JOIN {WORDS} ON a.id = t.word", True),
        (f"SELECT * FROM {NUMBERS} JOIN {WORDS} ON cast(a.id AS string) = t.word", False),
        (f"SELECT * FROM {NUMBERS} JOIN {WORDS} ON a.id = cast(cast(t.id AS int) AS bigint)", True),
        (f"SELECT * FROM {NUMBERS} WHERE EXISTS (SELECT 1 FROM {WORDS} WHERE t.id = a.id AND word = 3)", True),
        (f"SELECT * FROM {NUMBERS} WHERE id IN (SELECT id FROM {WORDS} WHERE word = '3')", False),
        (f"WITH c AS (SELECT * FROM {WORDS} WHERE word < 7) SELECT * FROM c x JOIN c y USING (id)", True),
    ],
)
def test_casts_that_may_fail_are_found(spark: SparkSession, query: str, may_fail: bool) -> None:
    assert casts_may_fail(spark.sql(query)) is may_fail


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("a.x = b.x OR a.y IN (1, -2)", False),
        ("substring(a.s, 1, 5) <> left(b.s, 5)", False),
        ("concat(a.s, b.s) || 'x' = 'yx' AND length(trim(a.s)) > 3", False),
        ("CASE WHEN a.x > b.x THEN a.s ELSE nullif(b.s, 'z') END = 'y'", False),
        ("a.s LIKE 'x%'", False),
        ("a.s LIKE b.pattern", True),
        ("-a.x > b.x", True),
        ("a.x / b.x > 1", True),
        ("CASE WHEN b.x > 0 THEN a.x / b.x END > 1", True),
        ("element_at(a.list, b.x) = 1", True),
        ("a.d + 5 > b.d", False),
        ("b.d < a.d - 5", False),
        ("a.d - b.x > b.d", True),
        ("a.x + 5 > b.x", True),
        ("b.d + 5 > a.d", True),
    ],
)
def test_conditions_that_may_fail_are_found(condition: str, fails: bool) -> None:
    types = ColumnTypes({"a": t.StructType().add("d", t.DateType()).add("x", t.IntegerType())}, name_rule=ANY_CASE)
    assert may_fail(sqlglot.parse_one(condition, dialect="spark"), types) is fails


def test_date_arithmetic_never_fails(spark: SparkSession) -> None:
    ends = spark.createDataFrame([(2**31 - 1, -(2**31))], "last int, first int")
    dates = ends.selectExpr("date_from_unix_date(last) AS last", "date_from_unix_date(first) AS first")
    assert dates.selectExpr("last + 5 < first - 7", "last + 2147483647 IS NULL").count() == 1
    assert dates.selectExpr("unix_date(last + 5)", "unix_date(first - 7)").first() == (4 - 2**31, 2**31 - 7)
