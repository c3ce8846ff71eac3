"""Tells what Spark's Avro reader does about dates and times before the calendars agreed."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

_REBASE_MODE = "spark.sql.avro.datetimeRebaseModeInRead"


def rebase_mode(spark: SparkSession, options: Mapping[str, str]) -> str:
    """`CORRECTED` takes them as they are, `LEGACY` moves them, `EXCEPTION` fails; options have lower-case names."""
    return (options.get("datetimerebasemode") or spark.conf.get(_REBASE_MODE) or "EXCEPTION").strip().upper()
