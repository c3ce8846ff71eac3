"""Subqueries over files in directories `key=value` return Spark's rows at every place of a query.

The pushdown readers find the values of directories by the number of a task, which Spark accepts in some places only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_rows import sorted_rows

from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

FORMATS = ("parquet", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("json", "csv", "avro", "orc")))
SCHEMAS = {"t": "k bigint, v bigint, p int", "u": "k bigint, v bigint"}
LARGEST = "(SELECT max(p) FROM t WHERE v < 30)"
KEYS = "(SELECT p FROM t WHERE v < 2)"
QUERIES = {
    "a column": f"SELECT k, {LARGEST} AS m FROM u",
    "a correlated column": "SELECT k, (SELECT max(p) FROM t WHERE t.k = u.k AND v < 30) AS m FROM u",
    "WHERE": f"SELECT k FROM u WHERE k IN {KEYS} OR v > 3",
    "EXISTS": "SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND p = 1 AND t.v > 9)",
    "ON": f"SELECT u.k, w.v FROM u JOIN u w ON u.k = w.k AND w.v > {LARGEST}",
    "ON of an outer join": f"SELECT u.k, w.v FROM u LEFT JOIN u w ON u.k = w.k AND w.v IN {KEYS}",
    "GROUP BY": f"SELECT k IN {KEYS} AS b, count(*) AS n FROM u GROUP BY 1",
    "HAVING": f"SELECT v, count(*) AS n FROM u GROUP BY v HAVING count(*) > {LARGEST}",
    "FILTER": f"SELECT count(*) FILTER (WHERE k IN {KEYS}) AS n FROM u",
    "an aggregate": f"SELECT max(CASE WHEN k > {LARGEST} THEN 1 END) AS m FROM u",
    "a window": f"SELECT rank() OVER (ORDER BY {LARGEST} + k) AS r FROM u",
    "ORDER BY": f"SELECT k FROM u ORDER BY {LARGEST}, k LIMIT 3",
    "LATERAL": "SELECT * FROM u, LATERAL (SELECT p, v AS w FROM t WHERE t.k = u.k AND t.v < 30) AS x",
    "LATERAL with a limit": "SELECT * FROM u, LATERAL (SELECT p FROM t WHERE t.k = u.k ORDER BY v LIMIT 1) AS x",
    "LATERAL over values": "SELECT * FROM VALUES (1), (2) AS w(k), LATERAL (SELECT p FROM t WHERE t.k = w.k AND v < 9)",
    "the only source": f"SELECT max(c + {LARGEST}) AS m FROM VALUES (1), (2) AS w(c)",
}


@pytest.fixture(scope="module", params=FORMATS)
def tables(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PushdownSession]:
    """Register views with Spark's readers, and return a session with the same files."""
    root, file_format = tmp_path_factory.mktemp("subqueries"), str(request.param)
    options = {"header": "true"}
    frames = {"t": spark.range(40).selectExpr("id % 10 AS k", "id AS v", "int(id % 3) AS p")}
    frames["u"] = spark.range(12).selectExpr("id AS k", "id % 5 AS v")
    session = PushdownSession(spark)
    for name, frame in frames.items():
        writer = frame.coalesce(1).write.format(spark_format(file_format)).options(**options)
        (writer.partitionBy("p") if name == "t" else writer).save(str(root / name))
        source = {"schema": SCHEMAS[name], "options": options}
        session.add_source(name, path=str(root / name), format=file_format, reader="pushdown", **source)
        reader = spark.read.format(spark_format(file_format)).schema(SCHEMAS[name]).options(**options)
        reader.load(str(root / name)).createOrReplaceTempView(name)
    yield session
    for name in frames:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("place", QUERIES)
def test_subqueries_return_sparks_rows(spark: SparkSession, tables: PushdownSession, place: str) -> None:
    with pushdown_off(spark):
        expected = sorted_rows(spark.sql(QUERIES[place]))
    result = tables.sql(QUERIES[place])
    assert sorted_rows(result.df) == expected
    assert tables.sql(QUERIES[place]).run(sorted_rows) == expected
    assert expected


def test_spark_reads_the_sources_of_a_query_that_it_rejects_over_other_readers(tables: PushdownSession) -> None:
    result = tables.sql(QUERIES["ORDER BY"])
    assert result.run(sorted_rows)
    assert {report.reader for report in result.report().values()} == {"spark"}
    assert all("accepts the query only over its own readers" in report.reason for report in result.report().values())
    result = tables.sql(QUERIES["WHERE"])
    assert result.run(sorted_rows)
    assert result.report()["t"].reader == "pushdown"
