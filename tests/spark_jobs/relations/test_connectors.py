"""Iceberg and Delta tables: their connectors get the conjuncts, and the report shows the files that they skipped.

The tests need a release of Spark for which both connectors exist. `make connectors` installs one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import Exactness, JoinOptions, SourceReport
from pushdown_spark.errors import BadSpecError, PushdownError, UnknownColumnError
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.catalog import source_directories

pytestmark = pytest.mark.nightly

CATALOG = "lake"
FILES = 12
"""Files of each table: four inserts, each into three partitions."""


@pytest.fixture(scope="module", autouse=True)
def _settings_of_the_session() -> None:
    """Replace the check of the session's settings, because the connectors add some."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create the tables `lake.db.events` (Iceberg) and `deltas` (Delta), and return the directory of Iceberg's tables.

    The tables have 4,000 rows. Two of them were deleted later, without rewriting all files.
    """
    place = tmp_path_factory.mktemp("lake")
    settings = {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(place),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    columns = "(id BIGINT, v STRING, p INT)"
    deletes = "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    try:
        spark.sql(f"CREATE TABLE {CATALOG}.db.events {columns} USING iceberg PARTITIONED BY (p) {deletes}")
        spark.sql(f"CREATE TABLE deltas {columns} USING delta PARTITIONED BY (p) {vectors}")
    except (PySparkException, Py4JError) as problem:
        for key in settings:
            spark.conf.unset(key)
        pytest.skip(f"this Spark has no connectors for Iceberg and Delta: {str(problem).splitlines()[0]}")
    for start in range(0, 4_000, 1_000):
        rows = spark.range(start, start + 1_000, 1, 1).selectExpr("id", "'v' || id AS v", "CAST(id % 3 AS INT) AS p")
        rows.writeTo(f"{CATALOG}.db.events").append()
        rows.write.format("delta").mode("append").saveAsTable("deltas")
    for table in (f"{CATALOG}.db.events", "deltas"):
        spark.sql(f"DELETE FROM {table} WHERE id IN (5, 6)")
    yield place
    spark.sql("DROP TABLE deltas")
    spark.sql(f"DROP TABLE {CATALOG}.db.events")
    for key in settings:
        spark.conf.unset(key)


@pytest.fixture
def session(spark: SparkSession, lake: Path) -> PushdownSession:
    """Return a session with both tables, each by name and by path."""
    session = PushdownSession(spark)
    session.add_table("iceberg", f"{CATALOG}.db.events")
    session.add_table("delta", "deltas")
    session.add_source("iceberg_path", path=str(lake / "db" / "events"), format="iceberg")
    delta = spark.sql("DESCRIBE DETAIL deltas").first()
    assert delta is not None
    session.add_source("delta_path", path=str(delta["location"]), format="delta")
    return session


def scan(session: PushdownSession, name: str, where: str | None, **query: object) -> tuple[list[str], SourceReport]:
    """Return sorted rows of a scan as strings, and the report."""
    result = session.scan(name, where=where, **query)  # type: ignore[arg-type]
    rows = result.run(sorted_rows)
    return rows, result.report()[name]


@pytest.mark.parametrize("name", ["iceberg", "delta", "iceberg_path", "delta_path"])
def test_conjuncts_reach_the_connector(session: PushdownSession, name: str) -> None:
    rows, report = scan(session, name, "id = 8 AND p = 2 AND upper(v) = 'V8'", columns=["v"])
    assert rows == ["Row(v='v8')"]
    by_id, by_partition, by_function = report.conjuncts
    # Spark filters the rows of Delta's deletion vectors, so its plan does not show that the source applies a conjunct.
    exactness = Exactness.EXACT if name.startswith("iceberg") else Exactness.INEXACT
    assert (by_id.exactness, by_partition.exactness) == (Exactness.INEXACT, exactness)
    assert by_function.exactness is not Exactness.EXACT
    assert "p = 2" in str(by_partition.pushed_as)
    assert report.files_read == 1
    assert report.files_total >= FILES
    assert report.skipped == {"files": report.files_total - 1}
    assert report.rows_returned == 1
    assert report.rows_decoded is not None
    assert report.rows_decoded < 1_000
    # Delta reads its Parquet files with Spark's reader, whose vectored reads Spark does not count.
    assert bool(report.bytes_read) is name.startswith("iceberg")


@pytest.mark.parametrize("name", ["iceberg", "delta", "iceberg_path", "delta_path"])
def test_rows_are_those_of_the_connector(spark: SparkSession, session: PushdownSession, name: str) -> None:
    expected = spark.table("deltas")
    for where in ("id < 20", "p = 1 AND id BETWEEN 100 AND 110", "v IN ('v5', 'v7')", "id = 5 OR v LIKE 'v399_'"):
        rows, _ = scan(session, name, where)
        assert rows == sorted_rows(expected.where(where))
    rows, report = scan(session, name, None, columns=["id"], limit=3)
    assert len(rows) == 3
    assert report.conjuncts == ()


def test_iceberg_reports_manifests(session: PushdownSession) -> None:
    _, report = scan(session, "iceberg", "id = 3999")
    assert report.units["manifests"]["total"] >= 4
    assert report.reason == "it is a table of iceberg, which Spark reads with its connector"


@pytest.mark.usefixtures("lake")
def test_an_option_selects_an_older_version(spark: SparkSession) -> None:
    session = PushdownSession(spark)
    session.add_table("old", "deltas", options={"versionAsOf": "1"})
    assert session.scan("old").run(lambda frame: frame.count()) == 1_000


def test_views_over_tables_report_their_files(spark: SparkSession, session: PushdownSession) -> None:
    spark.sql("CREATE OR REPLACE VIEW recent AS SELECT id, v FROM deltas WHERE p = 2")
    session.add_table("recent", "recent")
    rows, report = scan(session, "recent", "id = 8")
    assert rows == ["Row(id=8, v='v8')"]
    assert report.files_read == 1
    spark.sql("DROP VIEW recent")


def test_one_query_joins_iceberg_delta_and_files(spark: SparkSession, session: PushdownSession, tmp_path: Path) -> None:
    spark.range(100).selectExpr("id", "id * 2 AS twice").write.json(str(tmp_path / "json"))
    path, schema = str(tmp_path / "json"), "id BIGINT, twice BIGINT"
    session.add_source("files", path=path, format="json", schema=schema, reader="spark")
    query = (
        "SELECT i.v, d.p, f.twice FROM iceberg i JOIN delta d ON i.id = d.id JOIN files f ON f.id = i.id WHERE i.id = 8"
    )
    result = session.sql(query, JoinOptions(reorder=False))
    assert result.run(lambda frame: frame.collect()) == [("v8", 2, 16)]
    reports = result.report()
    for name in ("iceberg", "delta"):
        assert reports[name].pushed == ("id = 8",)
        assert reports[name].skipped["files"] >= 8


def test_directories_of_the_tables_are_known(spark: SparkSession, lake: Path) -> None:
    (iceberg,) = source_directories(spark.table(f"{CATALOG}.db.events"))
    assert iceberg.removeprefix("file:") == str(lake / "db" / "events")
    (delta,) = source_directories(spark.table("deltas"))
    assert delta.endswith("/deltas")


def test_errors_name_the_parameter(session: PushdownSession, tmp_path: Path) -> None:
    with pytest.raises(UnknownColumnError, match="nope"):
        session.scan("iceberg", columns=["nope"])
    with pytest.raises(UnknownColumnError, match="no implicit columns such as filename"):
        session.scan("delta", columns=["filename"])
    for name in ("iceberg", "delta"):
        session.add_source("missing", path=str(tmp_path), format=name)
        with pytest.raises(PushdownError, match=r"^path of source 'missing': "):
            session.scan("missing")
    with pytest.raises(BadSpecError, match="schema: format delta does not have it"):
        session.add_source("t", path=str(tmp_path), format="delta", schema="a INT")
