"""Spark sessions of the benchmarks: two threads on this machine, no UI, and only errors in the log."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "4g",
}


def benchmark_session(settings: dict[str, str] | None = None) -> SparkSession:
    """Start a session, with further settings if given."""
    return SparkSession.builder.master("local[2]").config(map={**_SETTINGS, **(settings or {})}).getOrCreate()


def jdbc_session(packages: str) -> SparkSession:
    """Start a session with JDBC drivers from Maven Central, given their coordinates."""
    return benchmark_session(
        {
            "spark.jars.packages": packages,
            "spark.jars.ivy": str(Path(".cache/ivy").absolute()),
            "spark.driver.memory": "2g",
            "spark.sql.session.timeZone": "UTC",
        }
    )
