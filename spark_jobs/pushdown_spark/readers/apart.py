"""A scan of files that are read with different schemas: one scan for each of them, brought to the table's columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pushdown_spark.contract import ConjunctReport, SourceReport
from pushdown_spark.projection.alignment import conforming
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.readers.native import NativeScan
from pushdown_spark.readers.protocol import Scan, TunedScan, unsupported


@dataclass(frozen=True)
class PartScan:
    """The scan of some files, and the schema of its frame that the table's columns are made from."""

    scan: Scan
    schema: StructType


class ApartScan:
    """Several scans that together are the scan of one source.

    `wanted` are the table's columns to deliver, `implicit` those that every part's frame has beside them.
    """

    exact = False

    def __init__(
        self, parts: Sequence[PartScan], wanted: StructType, implicit: Sequence[str], *, case_sensitive: bool
    ) -> None:
        self._parts = tuple(parts)
        self._wanted = wanted
        self._implicit = tuple(implicit)
        self._case_sensitive = case_sensitive

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The parts' scans."""
        return tuple(part.scan for part in self._parts)

    @property
    def spark_counts_bytes(self) -> bool:
        """Whether Spark's input metrics tell the bytes that were read: where they do for every part."""
        return all(part.scan.spark_counts_bytes for part in self._parts)

    @property
    def is_mixed(self) -> bool:
        """Whether Spark counts some of the rows and our readers the others."""
        return len({isinstance(part.scan, NativeScan) for part in self._parts}) > 1

    def frame(self) -> DataFrame:
        """The parts' rows, one part after the other, in the table's columns."""
        return reduce(DataFrame.unionAll, map(self._conforming, self._parts))

    def _conforming(self, part: PartScan) -> DataFrame:
        columns = conforming(part.schema, self._wanted, case_sensitive=self._case_sensitive)
        return part.scan.frame().selectExpr(*columns, *map(quote_name, self._implicit))

    def report(self) -> SourceReport:
        """The parts' reports, added up; what one of them does not know, the whole does not."""
        reports = [part.scan.report() for part in self._parts]
        readers = sorted({report.reader for report in reports})
        reasons = dict.fromkeys(report.reason for report in reports)
        return SourceReport(
            reader=" and ".join(readers),
            reason="; ".join(reasons),
            conjuncts=_conjuncts(reports),
            columns=tuple(dict.fromkeys(name for report in reports for name in report.columns)),
            files_total=sum(report.files_total for report in reports),
            files_read=_sum([report.files_read for report in reports]),
            bytes_total=sum(report.bytes_total for report in reports),
            bytes_read=_sum([report.bytes_read for report in reports]),
            bytes_searched=_sum([report.bytes_searched for report in reports]),
            rows_decoded=_sum([report.rows_decoded for report in reports]),
            skipped=_added([report.skipped for report in reports]),
            units={
                kind: _added([report.units.get(kind, {}) for report in reports])
                for kind in dict.fromkeys(kind for report in reports for kind in report.units)
            },
            bytes_by_purpose=_added([report.bytes_by_purpose for report in reports]),
            notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        )

    @property
    def settings(self) -> dict[str, str]:
        """What Spark's readers of the parts run faster under."""
        return {
            key: value for scan in self.scans if isinstance(scan, TunedScan) for key, value in scan.settings.items()
        }

    def limited(self, limit: int) -> None:
        """Spark's LIMIT stops behind the part that has enough rows."""


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _conjuncts(reports: Sequence[SourceReport]) -> tuple[ConjunctReport, ...]:
    """Each conjunct as the part tells that takes over the least of it."""
    asked = max((report.conjuncts for report in reports), key=len, default=())
    pushed = [{c.sql for c in report.conjuncts if c.pushed_as} for report in reports]
    return tuple(
        conjunct
        if all(conjunct.sql in names for names in pushed)
        else unsupported(conjunct.sql, "some files are read apart, and Spark alone filters their rows")
        for conjunct in asked
    )
