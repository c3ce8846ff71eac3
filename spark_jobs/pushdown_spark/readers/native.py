"""Spark's own readers: any format, with Spark's filter pushdown on or off."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness, ReaderChoice, SourceFormat, SourceReport
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.readers.avro.rebase import rebase_mode
from pushdown_spark.readers.files import decoded, input_files, input_uris
from pushdown_spark.readers.protocol import ScanRequest, undivided, unsupported
from pushdown_spark.readers.storage import LOCAL

_LONGEST_ASKED = 10_000
"""Characters of a conjunct that Spark's planner is asked about: thousands of values take it a third of a second."""
_MOST_ASKED = 32
"""Conjuncts that it is asked about: each takes some milliseconds."""
_MANY_CONSTANTS = 500
"""Constants of a predicate from which on Spark's filter behind the reader is the faster: the readers that build row by
row compare them one by one for each row, the filter looks values up. TPC-H's lineitem, 16 columns."""
_FILTERS = {
    SourceFormat.JSON: "spark.sql.json.filterPushdown.enabled",
    SourceFormat.CSV: "spark.sql.csv.filterPushdown.enabled",
    SourceFormat.AVRO: "spark.sql.avro.filterPushdown.enabled",
    SourceFormat.ORC: "spark.sql.orc.filterPushdown",
    SourceFormat.PARQUET: "spark.sql.parquet.filterPushdown",
}
"""What switches filters in Spark's readers."""
_ROW_BY_ROW = frozenset({SourceFormat.JSON, SourceFormat.CSV, SourceFormat.AVRO})
"""Formats whose readers apply the filters to each row."""
_DECIDES = "as it decides"


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

    @property
    def settings(self) -> Mapping[str, str]:
        """What keeps Spark's reader from filtering, where it should not."""
        return {} if self._unfiltered is None else {_FILTERS[self._request.source.format]: "false"}

    @cached_property
    def _unfiltered(self) -> str | None:
        """Why Spark's reader should not filter, None where it may."""
        source, predicate = self._request.source, self._request.predicate
        if source.format not in _FILTERS:
            return None
        if not source.filter_pushdown:
            return "turned off"
        if self._request.malformed is not None:
            return "every line is parsed, since malformed ones are counted"
        if source.reader is ReaderChoice.SPARK:
            return None
        if reason := undivided(predicate):
            return reason
        if source.format not in _ROW_BY_ROW or predicate is None or predicate.tree is None or self._spares_failures():
            return None
        if sum(1 for _ in predicate.tree.find_all(exp.Literal)) < _MANY_CONSTANTS:
            return None
        return "Spark's filter looks many constants up faster than its reader compares them"

    def _spares_failures(self) -> bool:
        """Whether values that fail a scan may stand in rows that filters in the reader leave out."""
        options, spark = self._request.source.options, self._request.native.sparkSession
        if self._request.source.format is not SourceFormat.AVRO:
            return options.get("mode", "").upper() == "FAILFAST"
        return rebase_mode(spark, options) == "EXCEPTION"

    def frame(self) -> DataFrame:
        """Spark's frame, with the implicit columns asked for computed from file metadata."""
        request = self._request
        if request.fill is None:
            return request.native
        added = request.fill.by_metadata(request.implicit, list(map(decoded, input_uris(request.native))))
        return request.native.selectExpr(*map(quote_name, request.native.columns), *added)

    def report(self) -> SourceReport:
        """The plan: what Spark's planner says it pushed. Executed figures are added from Spark's task metrics."""
        malformed = self._request.malformed
        if malformed is None:
            return self._planned
        return self._planned.model_copy(update={"malformed_lines": malformed.count()})

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
        predicate = self._request.predicate
        texts = enumerate(() if predicate is None else predicate.conjunct_texts)
        return tuple(self._conjunct(sql, is_asked=number < _MOST_ASKED) for number, sql in texts)

    def _conjunct(self, sql: str, *, is_asked: bool = True) -> ConjunctReport:
        if self._unfiltered is not None:
            return unsupported(sql, self._unfiltered)
        pushed = self._pushed(sql) if is_asked else _DECIDES
        if not pushed:
            return unsupported(sql, "Spark does not push it into this format")
        return ConjunctReport(sql=sql, exactness=Exactness.INEXACT, pushed_as=f"Spark's reader: {pushed}")

    def _pushed(self, sql: str) -> str:
        """What Spark's planner pushes for one conjunct alone; null checks that it adds by itself do not count."""
        if len(sql) > _LONGEST_ASKED:
            return _DECIDES
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
