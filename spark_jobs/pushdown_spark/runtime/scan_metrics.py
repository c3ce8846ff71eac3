"""Metrics of the scans in the plans that Spark ran: the files and manifests that a source read and skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pushdown_spark.runtime.query_metrics import QueryWatch, query_number

_FILES_READ = ("number of files read", "number of result data files")
"""Names of the metric in Spark's file sources (also of Delta) and in Iceberg."""
_FILES_SKIPPED = ("number of skipped data files",)
_MANIFESTS_TOTAL = ("total data manifests",)
_MANIFESTS_SKIPPED = ("number of skipped data manifests",)


@dataclass(frozen=True)
class ScanMetrics:
    """The sums of the metrics of some scans, None for a metric that none of them has."""

    files_read: int | None
    files_skipped: int | None
    manifests_total: int | None
    manifests_skipped: int | None

    @classmethod
    def of(cls, values: Mapping[str, int]) -> ScanMetrics:
        """Return the metrics, given the values by name."""

        def total(names: Collection[str]) -> int | None:
            known = [values[name] for name in names if name in values]
            return sum(known) if known else None

        return cls(total(_FILES_READ), total(_FILES_SKIPPED), total(_MANIFESTS_TOTAL), total(_MANIFESTS_SKIPPED))


class ScanWatch:
    """The scans of some tables in the queries that start after the creation of the watch."""

    def __init__(self, spark: SparkSession, tables: Collection[str]) -> None:
        """`tables` are names of tables as Spark's plans show them, or the starts of their paths."""
        self._watch = QueryWatch(spark)
        self._tables = tuple(tables)

    def metrics(self) -> ScanMetrics | None:
        """Return the metrics of the last query whose scans count files, None if there was none.

        Other queries with such scans read the log of a Delta table.
        """
        try:
            for query in reversed(self._watch.queries()):
                metrics = ScanMetrics.of(self._values(query_number(query)))
                if metrics.files_read is not None:
                    return metrics
        except Py4JError:
            # The store may have dropped the query already. A missing count must not fail the query.
            return None
        return None

    def _values(self, query: int) -> Counter[str]:
        """Return the sums of the integer metrics of the scans, by their names."""
        values: Counter[str] = Counter()
        for node in (node for root in self._watch.plan(query) for node in root.nodes()):
            if "Scan " in node.name and any(table in node.description for table in self._tables):
                counts = {metric: node.count(metric) for metric in node.metrics}
                values.update({metric: count for metric, count in counts.items() if count is not None})
        return values
