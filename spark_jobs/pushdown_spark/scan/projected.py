"""Projected scans: a scan with the query's own projection and filter on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.scan.base import Scan


@dataclass(frozen=True)
class ProjectedScan:
    """A scan, and the function that turns its rows into the rows of the query."""

    scan: Scan
    project: Callable[[DataFrame], DataFrame]

    def frame(self) -> DataFrame:
        """Return all rows of the query as a lazy DataFrame."""
        return self.project(self.scan.frame())

    def limited(self, limit: int) -> DataFrame:
        """Return at most `limit` rows of the query as a lazy DataFrame."""
        limited = self.scan.limited_frame(limit)
        return self.frame().limit(limit) if limited is None else self.project(limited)

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the rows of the query, at most `limit`, to the driver; None if a Spark job is faster."""
        rows = self.scan.fetch_local(limit)
        return None if rows is None else self.project(rows)

    @contextmanager
    def running(self, spark: SparkSession) -> Iterator[None]:
        """Set the scan's session settings for a run, then restore them and close the scan."""
        before = {key: spark.conf.get(key, None) for key in self.scan.session_conf}
        try:
            for key, value in self.scan.session_conf.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value_before in before.items():
                if value_before is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, value_before)
            self.scan.close()
