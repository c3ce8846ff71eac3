"""Random projections of nested schemas equal Spark's SELECT of the same paths, with every reader."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from evolving_files import write_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from projection_tables import NESTING, OURS, format_name
from pyspark.sql import SparkSession
from random_trees import ROW, random_path, random_row, random_schema
from typed_results import rows_of

from pushdown_spark.projection.schema_alignment import ddl
from pushdown_spark.session import PushdownSession

HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.nightly
@settings(max_examples=400, deadline=None, suppress_health_check=HEALTH)
@given(st.sampled_from(NESTING), st.randoms(use_true_random=False))
def test_random_projections_equal_those_of_spark(spark: SparkSession, source_format: str, rng: random.Random) -> None:
    compare(spark, source_format, rng)


def compare(spark: SparkSession, source_format: str, rng: random.Random) -> None:
    """Compare both readers with Spark's SELECT for one schema, its rows in two files, and some paths."""
    schema = random_schema(rng)
    operands = [random_path(rng, schema) for _ in range(rng.randint(1, 5))]
    where = None if rng.random() < 0.3 else f"{ROW} IN ({', '.join(map(str, rng.sample(range(8), 5)))})"
    with tempfile.TemporaryDirectory() as directory:
        for number in range(2):
            rows = [random_row(rng, schema, 4 * number + row) for row in range(4)]
            write_file(source_format, Path(directory) / f"p{number}.{source_format}", ddl(schema), rows)
        frame = spark.read.format(format_name(source_format)).schema(schema).load(directory)
        frame = frame if where is None else frame.where(where)
        expected = rows_of(frame.selectExpr(*(f"{one.expression} AS o{n}" for n, one in enumerate(operands))))
        columns = [f"{one.path} AS o{number}" for number, one in enumerate(operands)]
        for reader in ("spark", "pushdown") if source_format in OURS else ("spark",):
            session = PushdownSession(spark)
            session.add_source("data", path=directory, format=source_format, schema=ddl(schema), reader=reader)
            actual = session.scan("data", columns=columns, where=where).run(rows_of)
            assert actual == expected, (source_format, reader, ddl(schema), columns, where)
