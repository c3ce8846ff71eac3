"""Projected scans: a scan with the query's own projection and filter on top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

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
