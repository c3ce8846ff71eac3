"""Estimated rows of joins, relations with conditions, and sub-queries."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import JoinOptions
from pushdown_spark.optimizer.join_order.equalities import Equality, JoinColumn
from pushdown_spark.optimizer.statistics.cardinality import CardinalityEstimator, restrict_to_joined_bounds
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, KeyValues, RelationStatistics
from pushdown_spark.session import PushdownSession

DAYS, FIRST, LAST = 20_000, 8_000, 9_827
"""A calendar table covers 55 years. The sales cover five of them, with one day a week."""
SALES = 60_000


def days(kept: range) -> RelationStatistics:
    values = KeyValues(np.arange(DAYS), np.arange(kept.start, kept.stop))
    key = JoinColumnStatistics(DAYS, is_unique=True, values=values)
    return RelationStatistics(DAYS, len(kept), {("d", "day"): key})


SOLD = RelationStatistics(SALES, SALES, {("s", "day"): JoinColumnStatistics(261, bounds=(FIRST, LAST))})
ON_DAY = Equality(JoinColumn(0, ("s", "day")), JoinColumn(1, ("d", "day")))


def test_selectivity_applies_to_keys_within_the_joined_bounds() -> None:
    year = days(range(FIRST + 100, FIRST + 465))
    estimate = CardinalityEstimator([SOLD, year], [ON_DAY])
    assert estimate.rows(0b10) == 365, "the bounds apply only to joins"
    assert estimate.rows(0b11) == pytest.approx(SALES * 365 / (LAST - FIRST + 1))
    assert CardinalityEstimator([SOLD, days(range(DAYS))], [ON_DAY]).rows(0b11) == pytest.approx(SALES)
    assert CardinalityEstimator([SOLD, days(range(100))], [ON_DAY]).rows(0b11) == 1, "no sale is that old"


def test_bounds_restrict_only_known_keys() -> None:
    group = (JoinColumn(0, ("s", "day")), JoinColumn(1, ("d", "day")))
    whole = days(range(DAYS))
    assert restrict_to_joined_bounds([SOLD, whole], [group])[1].rows == LAST - FIRST + 1
    unseen = RelationStatistics(DAYS, DAYS, {("d", "day"): JoinColumnStatistics(DAYS, is_unique=True)})
    assert restrict_to_joined_bounds([SOLD, unseen], [group])[1] == unseen
    estimate = RelationStatistics(SALES, SALES, {("s", "day"): JoinColumnStatistics(261)})
    assert restrict_to_joined_bounds([estimate, whole], [group])[1] == whole


def test_conditions_on_other_columns_do_not_change_the_join_selectivity() -> None:
    customers = RelationStatistics(150_000, 30_000, {("c", "id"): JoinColumnStatistics(150_000)})
    orders = RelationStatistics(1_500_000, 1_500_000, {("o", "customer"): JoinColumnStatistics(100_000)})
    on_customer = Equality(JoinColumn(0, ("c", "id")), JoinColumn(1, ("o", "customer")))
    estimator = CardinalityEstimator([customers, orders], [on_customer])
    assert estimator.rows(0b11) == pytest.approx(300_000)


def test_conditions_on_both_keys_do_not_count_twice() -> None:
    sides = [RelationStatistics(1000, 100, {(name, "k"): JoinColumnStatistics(1000, selectivity=0.1)}) for name in "ab"]
    on_key = Equality(JoinColumn(0, ("a", "k")), JoinColumn(1, ("b", "k")))
    assert CardinalityEstimator(sides, [on_key]).rows(0b11) == pytest.approx(100)


def test_estimates_of_sampled_tables_match_actual_rows(spark: SparkSession, tmp_path: Path) -> None:
    begin = date(1960, 1, 1)
    years = [(begin + timedelta(number)).year for number in range(DAYS)]
    sold = FIRST + np.arange(SALES) * (LAST - FIRST) // SALES // 7 * 7
    tables = {
        "days": {"day": np.arange(DAYS), "year": years},
        "sales": {"day": sold, "shop": np.arange(SALES) % 50},
        "shops": {"id": np.arange(50)},
    }
    session = PushdownSession(spark)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=5_000)
        session.add_source(name, path=str(tmp_path / f"{name}.parquet"), format="parquet", reader="spark")
    query = "SELECT * FROM shops p JOIN sales s ON s.shop = p.id JOIN days d ON d.day = s.day WHERE d.year = 1984"
    result = session.sql(query, JoinOptions(min_bytes=0))
    actual = result.run(lambda frame: frame.count())
    assert result.joins()[0].before.estimated == pytest.approx(actual, rel=0.05)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("d.year = (SELECT max(year) FROM days)", 365),
        ("(SELECT max(year) FROM days) = d.year", 365),
        ("d.year > (SELECT avg(year) FROM days)", DAYS / 3),
        ("d.year IN (SELECT year FROM days)", DAYS / 2),
        ("d.year NOT IN (SELECT year FROM days)", DAYS),
        ("d.year = (SELECT max(year) FROM days i WHERE i.day = e.day)", DAYS),
        ("d.year IN (SELECT i.year FROM days i JOIN days j ON i.day = j.day WHERE j.year < d.year)", DAYS),
        ("d.year = (SELECT i.year FROM days i JOIN days j ON i.day = j.day LIMIT 1)", 365),
        ("d.year = 1984 AND d.day < (SELECT max(day) FROM days)", 366 / 3),
    ],
)
def test_comparisons_with_subqueries_have_a_guessed_selectivity(
    condition: str, kept: float, spark: SparkSession, tmp_path: Path
) -> None:
    years = [(date(1960, 1, 1) + timedelta(number)).year for number in range(DAYS)]
    pq.write_table(pa.table({"day": np.arange(DAYS), "year": years}), tmp_path / "days.parquet")
    session = PushdownSession(spark)
    session.add_source("days", path=str(tmp_path / "days.parquet"), format="parquet", reader="spark")
    query = f"SELECT d.day FROM days d JOIN days e ON d.day = e.day JOIN days g ON g.day = e.day WHERE {condition}"
    (report, *_) = session.sql(query, JoinOptions(min_bytes=0)).joins()
    (leaf,) = [node for node in report.before.nodes() if node.relation == "d"]
    assert leaf.estimated == pytest.approx(kept, rel=0.02)
