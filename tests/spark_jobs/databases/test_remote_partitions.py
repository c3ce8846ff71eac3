"""Partitions of remote tables: ranges of keys and pages, and the snapshot that they share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from databases import Server, wait_until
from pyspark.sql import SparkSession
from remote_scans import KINDS, MYSQLS, Connection, count, numbers, quote_of, rows_of, scanner

from pushdown_spark.errors import BadSpecError


@pytest.mark.parametrize("kind", KINDS)
def test_key_ranges_return_every_row_once(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    connection = fill(*numbers(quote_of(kind)))
    cut = {"table": "numbers", "partition_column": "k", "num_partitions": 4, "consistent": kind == "postgresql"}
    for bounds in ({}, {"lower_bound": 100, "upper_bound": 300}):
        result = scanner(spark, connection, **cut, **bounds)(columns=["s"])
        assert sorted(str(row["s"]) for row in rows_of(result)) == sorted(f"s{k}" for k in range(1000))
        assert result.report()["source"].units["partitions"]["read"] == 4


@pytest.mark.parametrize("kind", [*MYSQLS, "sqlite"])
def test_without_snapshots_one_connection_reads_by_default(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers", partition_column="k", num_partitions=4)()
    assert count(result) == 1000
    report = result.report()["source"]
    assert report.units["partitions"]["read"] == 1
    assert any("no snapshot" in note for note in report.notes)


def test_page_ranges_of_postgresql_return_every_row_once(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="public.numbers", num_partitions=3)(columns=["s"])
    assert sorted(str(row["s"]) for row in rows_of(result)) == sorted(f"s{k}" for k in range(1000))
    report = result.report()["source"]
    assert report.units["partitions"]["read"] == 3
    assert any("ranges of" in note and "pages" in note for note in report.notes)


def test_key_ranges_follow_postgresqls_histogram(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS skewed",
        "CREATE TABLE skewed AS SELECT i + CASE WHEN i > 900 THEN 1000000 ELSE 0 END AS k "
        "FROM generate_series(1, 1000) i",
        "ANALYZE skewed",
    )
    scan = scanner(spark, postgresql_server.connection(), table="skewed", partition_column="k", num_partitions=4)
    result = scan()
    sizes = result.run(lambda frame: frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect())
    assert sum(sizes) == 1000
    assert max(sizes) < 300
    assert any("histogram" in note for note in result.report()["source"].notes)


def test_a_key_that_is_not_finite_needs_bounds(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS odd_keys",
        "CREATE TABLE odd_keys AS SELECT k::float8 FROM unnest(ARRAY['-Infinity', '1', '2', '3', 'NaN']) k",
    )
    cut = {"table": "odd_keys", "partition_column": "k", "num_partitions": 3}
    with pytest.raises(BadSpecError, match=r"partition_column: k has the value '-inf', and ranges need finite numbers"):
        scanner(spark, postgresql_server.connection(), **cut)().run(rows_of)
    result = scanner(spark, postgresql_server.connection(), **cut, lower_bound=1, upper_bound=3)()
    assert sorted(str(row["k"]) for row in rows_of(result)) == ["-inf", "1.0", "2.0", "3.0", "nan"]


def test_a_table_with_children_is_split_by_their_values_too(postgresql_server: Server, spark: SparkSession) -> None:
    """PostgreSQL has two histograms of such a table: one of its own rows, one of all rows."""
    postgresql_server.execute(
        "DROP TABLE IF EXISTS parent CASCADE",
        "CREATE TABLE parent AS SELECT i AS k FROM generate_series(1, 2000, 2) i",
        "CREATE TABLE child () INHERITS (parent)",
        "INSERT INTO child SELECT generate_series(2, 2000, 2)",
        "ANALYZE parent",
    )
    scan = scanner(spark, postgresql_server.connection(), table="parent", partition_column="k", num_partitions=4)
    assert sorted(row["k"] for row in rows_of(scan())) == list(range(1, 2001))


def test_all_partitions_read_one_snapshot(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="numbers", num_partitions=4)()
    frame = result.df
    postgresql_server.execute("UPDATE numbers SET g = 100", "DELETE FROM numbers WHERE s < 's5'")
    assert frame.groupBy("g").count().count() == 10
    assert frame.count() == 1000
    del result
    with pytest.raises(Exception, match="keep the result of the query while its frame is used"):
        frame.count()


def test_a_snapshot_is_released_after_the_action(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="numbers", num_partitions=4)()
    assert count(result) == 1000
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow_pushdown'"
    assert wait_until(lambda: postgresql_server.execute(query).strip() == "0")
