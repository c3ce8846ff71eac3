"""Chooses the scan of a source's files: our reader where it is sound and pays, Spark's own otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import ConjunctReport, SourceFormat
from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.expressions.constant_folding import folding
from pushdown_spark.fallback import left_to_spark
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.readers.apart import ApartScan
from pushdown_spark.readers.columnar import conf
from pushdown_spark.readers.directories import with_directories
from pushdown_spark.readers.faults import faults_left_to_spark
from pushdown_spark.readers.files import has_plain_directories
from pushdown_spark.readers.native import NativeScan
from pushdown_spark.readers.protocol import Refusal, Scan, ScanRequest, Source
from pushdown_spark.readers.text import TextPlan, TextScan, plan_text
from pushdown_spark.result import Shape

if TYPE_CHECKING:
    from pushdown_spark.readers.avro.plan import AvroPlan
    from pushdown_spark.readers.orc.plan import OrcPlan

P = TypeVar("P", TextPlan, "OrcPlan", "AvroPlan")
Load = Callable[[Mapping[str, str]], DataFrame]
"""Makes Spark's own frame over the same files, with some more options."""


@dataclass(frozen=True)
class PlannedScan:
    """The scan to run, and how to make Spark's own scan, given the reason for taking it."""

    scan: Scan
    native: Callable[[str], Scan]
    is_understood: bool = False
    """Whether the scan evaluates all of the predicate by types that it knows: Spark need not analyse it."""
    problem: PushdownError | None = None
    """What made our reader leave the scan to Spark's: the error to raise if Spark cannot read the files either."""

    def fallback(self, shaped: Callable[[DataFrame], DataFrame]) -> Callable[[str], Shape] | None:
        """What takes over, given the reason, where our reader must give up; None where Spark's reads already."""
        if isinstance(self.scan, NativeScan):
            return None
        if isinstance(self.scan, ApartScan) and all(isinstance(scan, NativeScan) for scan in self.scan.scans):
            return None
        return lambda reason: Shape(self.native(reason), shaped)


def planned(spark: SparkSession, request: ScanRequest, notes: tuple[str, ...], load: Load) -> PlannedScan:
    """The scan for a request; `notes` are remarks for the report.

    Spark's reader takes the scan if our reader fails while it plans, for whatever cause; the reason names the
    exception. Errors that describe a mistake of the user, or a file that is not there, are raised.
    """
    native: Callable[[str], NativeScan] = partial(NativeScan, request, notes=notes)
    problem = None
    try:
        with faults_left_to_spark():
            found = _ours(spark, request, notes)
    except PushdownError as exc:
        problem = left_to_spark(exc)
        if problem is None:
            raise
        found = Refusal(f"our reader gave up while it planned the scan: {problem}")
    if not isinstance(found, Refusal):
        return PlannedScan(found, native)
    if request.source.format is SourceFormat.ORC:
        native = _native_orc(request, found, notes, load)
    return PlannedScan(native(found.reason), native, problem=problem)


def _ours(spark: SparkSession, request: ScanRequest, notes: tuple[str, ...]) -> Scan | Refusal:
    """The scan by our reader, its frame made once so that nothing is left that may fail before the tasks run."""
    ours = with_directories(request, case_sensitive=conf(spark, "spark.sql.caseSensitive", "false") == "true")
    scan: Scan
    # Each reader is loaded where its format is scanned alone: together they take a tenth of a second.
    if request.source.format is SourceFormat.ORC:
        from pushdown_spark.readers.orc.driver import OrcLazyScan
        from pushdown_spark.readers.orc.plan import plan_orc

        orc = plan_orc(spark, ours, folding(spark))
        if isinstance(orc, Refusal):
            return orc
        scan = OrcLazyScan(spark, ours, _told(orc, ours), notes)
    elif request.source.format is SourceFormat.AVRO:
        from pushdown_spark.readers.avro.driver import AvroBlockScan
        from pushdown_spark.readers.avro.plan import plan_avro

        avro = plan_avro(spark, ours, folding(spark))
        if isinstance(avro, Refusal):
            return avro
        scan = AvroBlockScan(spark, ours, _told(avro, ours), notes)
    else:
        text = plan_text(spark, ours, folding(spark))
        if isinstance(text, Refusal):
            return text
        scan = TextScan(spark, ours, _told(text, ours), notes)
    scan.frame()
    return scan


def _native_orc(
    request: ScanRequest, refused: Refusal, notes: tuple[str, ...], load: Load
) -> Callable[[str], NativeScan]:
    """Spark's ORC reader with its lazy filter switched as the source or the estimate wants it."""
    from pushdown_spark.readers.orc.plan import SARG_TO_FILTER, filter_switch

    switch = filter_switch(request.source, refused)
    if switch is not None:
        setting = str(switch).lower()
        tuned = load({SARG_TO_FILTER: setting})
        request = replace(request, loaded=lambda: tuned)
        notes = (*notes, f"{SARG_TO_FILTER} is {setting}")
    _refuse_lost_columns(request, refused.reason)
    return partial(NativeScan, request, notes=notes)


def _refuse_lost_columns(request: ScanRequest, reason: str) -> None:
    """Raises BadSpecError for columns that Spark's ORC reader (4.3) would silently give as null."""
    if lost := next((name for name in request.read_schema.fieldNames() if "`" in name), None):
        raise BadSpecError(
            f"columns: Spark's ORC reader reads {quote_name(lost)} as null, since its name has a backtick; give "
            f"reader='pushdown' (not taken now: {reason})"
        )


def _told(plan: P, ours: ScanRequest) -> P:
    """The plan, which tells of the conjuncts that choose directories before those that the reader was given."""
    chosen: tuple[ConjunctReport, ...] = () if ours.directories is None else ours.directories.conjuncts
    return replace(plan, conjuncts=(*chosen, *plan.conjuncts))


def leaner(spark: SparkSession, request: ScanRequest) -> StructType | None:
    """The table's columns with structs of just the members that are needed; None where nothing is gained by it.

    Spark leaves out members by itself for ORC and Parquet, but hands whole structs to its parser of JSON. In modes
    that judge whole records, members that nobody needs matter too.
    """
    source, wanted = request.source, {field.name: field for field in request.read_schema.fields}
    if source.max_malformed is not None:
        return None
    if source.format is not SourceFormat.JSON or source.options.get("mode", "PERMISSIVE").upper() != "PERMISSIVE":
        return None
    fields = [wanted.get(field.name, field) for field in request.schema.fields]
    corrupt = spark.conf.get("spark.sql.columnNameOfCorruptRecord", "_corrupt_record")
    names = {source.options.get("columnnameofcorruptrecord", corrupt), corrupt}
    if fields == request.schema.fields or names & set(request.schema.fieldNames()):
        return None
    return StructType(fields)


def listing_remarks(source: Source) -> tuple[str, ...]:
    """What a user might not expect of the way Spark lists and types files."""
    remarks = []
    infers = source.format is SourceFormat.JSON or source.options.get("inferschema", "").lower() == "true"
    if source.schema is None and infers:
        remarks.append("no schema is declared, so Spark read every file once more to infer it")
    if source.options.get("recursivefilelookup", "").lower() != "true":
        skipped = [path for path in source.paths if has_plain_directories(path)]
        remarks += [f"Spark skips sub-directories of {path}; set recursiveFileLookup=true" for path in skipped]
    return tuple(remarks)
