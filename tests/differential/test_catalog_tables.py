"""Rows of the pushdown readers over random tables of the catalog equal those of `spark.table`, as multisets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from catalog_tables import Table, TableMaker
from oracle import row_text
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from random_predicates import leaves, predicate
from seeds import few_and_many
from session_settings import PUSHDOWN_OFF, session_settings

from pushdown_spark.errors import PushdownError
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.session import PushdownSession

QUERIES = 5


def rows_of(frame: DataFrame) -> Counter[str]:
    """Return the rows as strings, which Spark makes: Python has no dates before the year 1."""
    return Counter(row[0] for row in frame.selectExpr(row_text(frame.schema)).collect())


def expected_rows(
    spark: SparkSession, table: Table, where: str, columns: list[str], settings: Mapping[str, str]
) -> Counter[str] | None:
    """Return the rows of `spark.table` with some settings, or None if Spark fails."""
    try:
        with session_settings(spark, settings):
            return rows_of(spark.table(table.name).where(where).select(*columns))
    except (PySparkException, Py4JError):
        return None


def check_query(spark: SparkSession, rng: random.Random, table: Table, tally: Counter[str], about: str) -> None:
    """Compare a query with a random predicate and random columns."""
    where = predicate(rng, list(leaves(table.schema)), mixed=False)
    names = [quote_name(name) for name in table.schema.fieldNames()]
    columns = names if rng.random() < 0.4 else rng.sample(names, rng.randint(1, len(names)))
    expected = expected_rows(spark, table, where, columns, PUSHDOWN_OFF)
    session = PushdownSession(spark)
    session.add_table("t", table.name, reader="pushdown")
    about = f"{about}: {where} of {columns}"
    if expected is None:
        # A reader may skip the value that Spark fails on, or fail as well.
        with suppress(PushdownError, PySparkException, Py4JError):
            session.scan("t", columns=columns, where=where).run(rows_of)
        return
    result = session.scan("t", columns=columns, where=where)
    actual = result.run(rows_of)
    report = result.report()["t"]
    if report.reader == "spark":
        # Spark's own pushdown loses rows, for example those with a date between 1582-10-05 and 1582-10-14.
        expected = expected_rows(spark, table, where, columns, {})
        assert expected is not None, about
    assert actual == expected, f"{about}: {report}\nmissing {expected - actual}\nmore {actual - expected}"
    tally[report.reader] += 1
    if report.reader == "spark":
        tally[report.reason] += 1


def check_seeds(spark: SparkSession, seeds: range) -> Counter[str]:
    tally = Counter[str]()
    for seed in seeds:
        rng = random.Random(seed)
        with TemporaryDirectory() as directory:
            table = TableMaker(spark, rng, Path(directory)).table()
            for _ in range(QUERIES):
                check_query(spark, rng, table, tally, f"seed {seed}")
            for left in spark.catalog.listTables():
                spark.sql(f"DROP TABLE {left.name}")
    return tally


@pytest.mark.parametrize("seeds", few_and_many(range(4), range(1_000, 1_150)), ids=str)
def test_rows_of_tables_are_those_of_spark(spark: SparkSession, seeds: range) -> None:
    tally = check_seeds(spark, seeds)
    assert tally["pushdown"] > len(seeds) * QUERIES / 3, tally
