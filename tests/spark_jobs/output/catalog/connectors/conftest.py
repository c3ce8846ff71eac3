"""The catalog of Iceberg, and a table in it or in the one of Delta.

The tests need a release of Spark for which both connectors exist. `make connectors` installs one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lakehouse import CATALOG
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _settings_of_the_session() -> None:
    """Replace the check of the session's settings, because the connectors add some."""


@pytest.fixture(scope="module", autouse=True)
def _catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    settings = {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(tmp_path_factory.mktemp("lakehouse")),
        # Delta reads its log with 50 tasks otherwise.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"CREATE TABLE {CATALOG}.db.probe (id INT) USING iceberg")
        spark.sql("CREATE TABLE probe (id INT) USING delta")
    except (PySparkException, Py4JError) as problem:
        pytest.skip(f"this Spark has no connectors for Iceberg and Delta: {str(problem).splitlines()[0]}")
    yield
    spark.sql(f"DROP TABLE {CATALOG}.db.probe")
    spark.sql("DROP TABLE probe")
    for key in settings:
        spark.conf.unset(key)


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Return the name of a table that does not exist."""
    name = f"{CATALOG}.db.t" if request.param == "iceberg" else "default.delta_t"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")
