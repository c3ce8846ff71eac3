"""Scans of tables and views that only Spark reads. Spark's optimizer pushes the predicate, and the report shows how."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pushdown_spark.contract import ConjunctReport, Exactness, Skipped, SourceReport
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS, MAX_PLANNED_LENGTH
from pushdown_spark.runtime.jvm_gateway import class_name, java_string
from pushdown_spark.runtime.query_metrics import QueryWatch
from pushdown_spark.runtime.spark_internals import analyzed_plan, physical_plan
from pushdown_spark.scan.base_scan import Scan, SparkCount
from pushdown_spark.sources.catalog import is_plain_table, tables_in_plan
from pushdown_spark.sources.request import ScanRequest, unsupported_conjunct

_MAX_PLANNED_CONJUNCTS = 8
"""Maximum number of conjuncts that Spark plans for the report. A connector may read the log of its table for each."""
_SCAN_FILTERS = re.compile(
    r"PushedFilters: \[(?P<file>.*?)\](?:, |$)|PartitionFilters: \[(?P<partition>.*?)\](?:, |$)"
    r"|\bfilters=(?P<iceberg>.*?), (?:runtimeFilters|groupedBy)=",
    re.MULTILINE,
)
"""The filters of a scan in the text of Spark's plan, in file sources and in Iceberg."""
_FILTER = re.compile(r"^[\s:|+*()\d-]*Filter ", re.MULTILINE)
"""The nodes of a plan that evaluate a condition for each row."""
_VECTORED_READS = re.compile(r"\bFormat: (?:ORC|Parquet)\b")
"""The scans of a plan whose bytes Spark does not count completely."""
_IDENTIFIER = re.compile(r"#\d+L?")
"""The number that Spark gives a column in a plan."""

_FILES_READ = ("number of files read", "number of result data files")
"""Names of the metric of scans in Spark's file sources (also of Delta) and in Iceberg."""
_FILES_SKIPPED = "number of skipped data files"
_MANIFESTS = {"total": "total data manifests", "skipped": "number of skipped data manifests"}


@dataclass(frozen=True)
class _PlannedFilters:
    """The filters that the scans of a plan have, and the number of nodes that evaluate conditions after them."""

    scan_filters: frozenset[str]
    filter_nodes: int

    @classmethod
    def of(cls, frame: DataFrame) -> _PlannedFilters:
        """Plan a DataFrame."""
        plan = java_string(frame.sparkSession, physical_plan(frame))
        filters = (text for match in _SCAN_FILTERS.finditer(plan) for text in match.groups() if text)
        return cls(frozenset(_IDENTIFIER.sub("", text) for text in filters), len(_FILTER.findall(plan)))


class SparkPlanScan(Scan):
    """A scan by Spark's plan of a table or view. `request.spark_only_reason` is the reason for it."""

    is_by_spark = True

    def __init__(self, request: ScanRequest) -> None:
        self._request = request
        self._watch = QueryWatch(request.spark_frame.sparkSession)
        self._tables = tables_in_plan(request.spark_frame)

    @cached_property
    def spark_counts(self) -> frozenset[SparkCount]:
        """The counts that Spark's metrics have. They omit vectored reads, which are most reads of ORC and Parquet."""
        spark_frame = self._request.spark_frame
        has_bytes = _VECTORED_READS.search(java_string(spark_frame.sparkSession, physical_plan(spark_frame))) is None
        return frozenset(SparkCount) if has_bytes else frozenset({SparkCount.DECODED_ROWS})

    @property
    def session_conf(self) -> Mapping[str, str]:
        """The settings that switch filter pushdown off in Spark's file readers, if it must be off."""
        return {} if self._request.source.filter_pushdown else dict.fromkeys(FILTER_SETTINGS.values(), "false")

    def frame(self) -> DataFrame:
        """Return Spark's DataFrame over the table. Its plan gets the columns, the predicate and the limit."""
        return self._request.spark_frame

    def report(self) -> SourceReport:
        """Return the filters that Spark pushes and, after a run, the files that the table's scans read and skipped."""
        report, metrics = self._plan_report, self._scan_metrics()
        if not metrics:
            return report
        files_read = sum(metrics[name] for name in _FILES_READ)
        total, files_skipped = report.files_total, metrics.get(_FILES_SKIPPED)
        if files_skipped is None and total:
            files_skipped = max(total - files_read, 0)
        manifests = {outcome: metrics[name] for outcome, name in _MANIFESTS.items() if name in metrics}
        return report.model_copy(
            update={
                "files_read": files_read,
                "files_total": total if files_skipped is None else files_read + files_skipped,
                "skipped": {} if files_skipped is None else {Skipped.FILES: files_skipped},
                "units": {"manifests": manifests} if manifests else {},
            }
        )

    def _scan_metrics(self) -> Counter[str]:
        """Return the sums of the metrics of the tables' scans in the last query that counts files, or none without one.

        Other queries with such scans read the log of a Delta table.
        """
        # The store may have dropped the query already. A missing count must not fail the query.
        with suppress(Py4JError):
            for query in reversed(self._watch.queries()):
                metrics: Counter[str] = Counter()
                for node in (node for root in self._watch.plan(query) for node in root.nodes()):
                    if "Scan " in node.name and any(table in node.description for table in self._tables):
                        counts = {metric: node.count(metric) for metric in node.metrics}
                        metrics.update({metric: count for metric, count in counts.items() if count is not None})
                if any(name in metrics for name in _FILES_READ):
                    return metrics
        return Counter()

    @cached_property
    def _plan_report(self) -> SourceReport:
        """The plan, computed once because Spark plans every conjunct."""
        request = self._request
        files_total, bytes_total = _delta_files(request.spark_frame)
        conjuncts = () if request.predicate is None else request.predicate.conjunct_texts
        return SourceReport(
            reader="spark",
            reason=request.spark_only_reason or "",
            conjuncts=tuple(
                self._conjunct(sql, is_planned=n < _MAX_PLANNED_CONJUNCTS) for n, sql in enumerate(conjuncts)
            ),
            columns=request.columns,
            files_total=files_total,
            bytes_total=bytes_total,
            notes=request.notes,
        )

    @cached_property
    def _own_filters(self) -> _PlannedFilters:
        """The filters without the query's predicate, which only views have."""
        if is_plain_table(self._request.spark_frame):
            return _PlannedFilters(frozenset(), 0)
        return _PlannedFilters.of(self._request.spark_frame)

    def _conjunct(self, sql: str, *, is_planned: bool) -> ConjunctReport:
        """Return the report of a conjunct. Spark plans the scan with it alone, which shows the filters that it adds."""
        if not self._request.source.filter_pushdown:
            return unsupported_conjunct(sql, "turned off")
        if not is_planned or len(sql) > MAX_PLANNED_LENGTH:
            return unsupported_conjunct(sql, "not planned for the report")
        try:
            filters = _PlannedFilters.of(self._request.spark_frame.where(sql))
        except (PySparkException, Py4JError):
            # The query itself raises the error.
            return unsupported_conjunct(sql, "Spark cannot plan it")
        new_filters = ", ".join(sorted(filters.scan_filters - self._own_filters.scan_filters))
        if not new_filters:
            return unsupported_conjunct(sql, "Spark does not push it into the scan")
        is_exact = filters.filter_nodes == self._own_filters.filter_nodes
        return ConjunctReport(
            sql=sql,
            exactness=Exactness.EXACT if is_exact else Exactness.INEXACT,
            pushed_as=f"filter of Spark's scan: {new_filters}",
        )


def _delta_files(frame: DataFrame) -> tuple[int, int]:
    """Return the number and the bytes of the files of a Delta table, 0 if its log has no sums of them."""
    leaf = analyzed_plan(frame).collectLeaves().head()
    # The classes are internals of the connector. A missing count must not fail the query.
    with suppress(Py4JError):
        if class_name(leaf) == "LogicalRelation" and class_name(leaf.relation().location()) == "TahoeLogFileIndex":
            snapshot = leaf.relation().location().snapshotAtAnalysis()
            count, size = snapshot.numOfFilesIfKnown(), snapshot.sizeInBytesIfKnown()
            if count.isDefined() and size.isDefined():
                return int(count.get()), int(size.get())
    return 0, 0
