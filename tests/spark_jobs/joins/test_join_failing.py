"""Casts that Spark adds to conditions are found wherever they are, and those that no value fails are none."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.joins.failing import casts_may_fail

NUMBERS = "range(3) a"
TEXTS = "(SELECT cast(id AS string) AS word, id FROM range(3)) t"


@pytest.mark.parametrize(
    ("query", "may_fail"),
    [
        (f"SELECT * FROM {NUMBERS} WHERE id = 1", False),
        (f"SELECT * FROM {NUMBERS} WHERE id = 1 + 2 AND id > 0.5 AND id <> cast(NULL AS int)", False),
        (f"SELECT * FROM {NUMBERS} WHERE id * 1.5 > 2", False),
        (f"SELECT * FROM {TEXTS} WHERE word = 1", True),
        (f"SELECT * FROM {TEXTS} WHERE word = 'cast(1 as int)'", False),
        (f"SELECT * FROM {TEXTS} WHERE id = 'cast(' AND word = ')'", False),
        (f"SELECT * FROM {TEXTS} WHERE word = 'two\\nlines' AND word = id", True),
        (f"SELECT * FROM {TEXTS} WHERE word = 'two\\nlines' AND word > 'x'", False),
        (f"SELECT cast(word AS int) FROM {TEXTS}", False),
        (f"SELECT * FROM {NUMBERS} JOIN {TEXTS} ON a.id = t.word", True),
        (f"SELECT * FROM {NUMBERS} JOIN {TEXTS} ON cast(a.id AS string) = t.word", False),
        (f"SELECT * FROM {NUMBERS} JOIN {TEXTS} ON a.id = cast(cast(t.id AS int) AS bigint)", True),
        (f"SELECT * FROM {NUMBERS} WHERE EXISTS (SELECT 1 FROM {TEXTS} WHERE t.id = a.id AND word = 3)", True),
        (f"SELECT * FROM {NUMBERS} WHERE id IN (SELECT id FROM {TEXTS} WHERE word = '3')", False),
        (f"WITH c AS (SELECT * FROM {TEXTS} WHERE word < 7) SELECT * FROM c x JOIN c y USING (id)", True),
    ],
)
def test_casts_in_conditions(spark: SparkSession, query: str, may_fail: bool) -> None:
    assert casts_may_fail(spark.sql(query)) is may_fail
