"""Spark's own readers: any format, with Spark's filter pushdown on or off."""

from __future__ import annotations

from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_jobs.contract import ConjunctReport, Exactness, SourceFormat, SourceReport
from spark_jobs.predicates.parse import conjuncts
from spark_jobs.projection.paths import quote_name
from spark_jobs.readers.files import decoded, input_files, input_uris
from spark_jobs.readers.protocol import ScanRequest
from spark_jobs.readers.storage import LOCAL

_LONGEST_ASKED = 10_000
"""Characters of a conjunct that Spark's planner is asked about: thousands of values take it a third of a second."""


class NativeScan:
    """A scan by Spark's reader. The reason says why it was taken."""

    exact = False

    def __init__(self, request: ScanRequest, reason: str, notes: tuple[str, ...] = ()) -> None:
        self._request = request
        self._reason = reason
        self._notes = notes

    @property
    def spark_counts_bytes(self) -> bool:
        """Not of ORC files: Spark leaves out what they read by vectored reads, which is nearly all."""
        return self._request.source.format is not SourceFormat.ORC

    def frame(self) -> DataFrame:
        """Spark's frame, with the implicit columns asked for computed from file metadata."""
        request = self._request
        if request.fill is None:
            return request.native
        added = request.fill.by_metadata(request.implicit, list(map(decoded, input_uris(request.native))))
        return request.native.selectExpr(*map(quote_name, request.native.columns), *added)

    def report(self) -> SourceReport:
        """The plan: what Spark's planner says it pushed. Executed figures are added from Spark's task metrics."""
        return self._planned

    @cached_property
    def _planned(self) -> SourceReport:
        """Worked out once: asking Spark's planner about every conjunct takes tens of milliseconds."""
        request = self._request
        files = input_files(request.native, LOCAL)
        return SourceReport(
            reader="spark",
            reason=self._reason,
            conjuncts=self._conjuncts(),
            columns=request.columns,
            files_total=len(files),
            bytes_total=sum(file.size for file in files),
            notes=self._notes,
        )

    def limited(self, limit: int) -> None:
        """Spark's LIMIT stops the JVM readers early by itself."""

    def _conjuncts(self) -> tuple[ConjunctReport, ...]:
        request = self._request
        if request.where is None:
            return ()
        if request.predicate is None:
            return (self._conjunct(request.where),)
        return tuple(self._conjunct(part.sql(dialect="spark", copy=False)) for part in conjuncts(request.predicate))

    def _conjunct(self, sql: str) -> ConjunctReport:
        pushed = self._pushed(sql)
        if pushed:
            return ConjunctReport(sql=sql, exactness=Exactness.INEXACT, pushed_as=f"Spark's reader: {pushed}")
        reason = "Spark does not push it into this format" if self._request.source.filter_pushdown else "turned off"
        return ConjunctReport(sql=sql, exactness=Exactness.UNSUPPORTED, reason=reason)

    def _pushed(self, sql: str) -> str:
        """What Spark's planner pushes for one conjunct alone; null checks that it adds by itself do not count."""
        if not self._request.source.filter_pushdown:
            return ""
        if len(sql) > _LONGEST_ASKED:
            return "as it decides"
        try:
            plan = self.frame().where(sql)._jdf.queryExecution().executedPlan().toString()
        except PySparkException:
            # A constant that ANSI mode refuses to evaluate: the query itself will say so.
            return ""
        for line in str(plan).splitlines():
            _, found, rest = line.partition("PushedFilters: [")
            if found:
                text = rest.partition("], ")[0]
                return "" if text.startswith("IsNotNull") and "), " not in text and "," not in text else text
        return ""
