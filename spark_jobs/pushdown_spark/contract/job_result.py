"""The job result: rows, output, one report for each source, and the error if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field, field_validator

from pushdown_spark.contract.join_tree import JoinReport
from pushdown_spark.contract.message import Message, shorten
from pushdown_spark.contract.outputs import OutputFormat, OutputMode
from pushdown_spark.contract.sources import ONLY_SOURCE
from pushdown_spark.contract.versions import CONTRACT_VERSION
from pushdown_spark.errors import ErrorCode

MAX_CONJUNCT_CHARACTERS = 1_000
"""Maximum length of a conjunct in a report, in characters."""
MAX_PARTITIONS = 100
"""Maximum number of output partitions in a result."""
SPARK_REQUESTED = "requested with reader='spark'"
"""The reason for Spark's reader if the user has chosen it. Every other reason explains a fallback."""
_MIN_ERROR_SECONDS = 1.0
"""Seconds by which an estimate must be wrong to be reported."""
_DERIVED = frozenset({"pushed", "residual"})


class Exactness(StrEnum):
    """How far a source evaluates a conjunct: completely, as a prefilter, or not at all."""

    EXACT = "exact"
    INEXACT = "inexact"
    UNSUPPORTED = "unsupported"


class Skipped(StrEnum):
    """What a scan skipped: whole files, bytes of them, or the decoding of lines and rows that it read."""

    FILES = "files"
    BYTES_NEVER_READ = "bytes never read"
    BYTES_NEVER_PARSED = "bytes never parsed"
    LINES_NEVER_PARSED = "lines never parsed"
    ROWS_NEVER_DECODED = "rows never decoded"


class ConjunctReport(Message):
    """One conjunct of the predicate: how far it was pushed down, as what, and why not further."""

    sql: str
    """The conjunct as Spark SQL, shortened if it is very long."""
    exactness: Exactness
    """How far the reader evaluates the conjunct."""
    pushed_as: str | None = None
    """What the reader evaluates, such as a byte pattern, or None if it ignores the conjunct."""
    reason: str | None = None
    """Why Spark evaluates the conjunct."""

    @field_validator("sql")
    @classmethod
    def _shorten(cls, sql: str) -> str:
        """Shorten conjuncts such as lists of thousands of values."""
        return shorten(sql, MAX_CONJUNCT_CHARACTERS)


class FileReport(Message):
    """What was read of one file."""

    path: str
    """The path or the URI of the file."""
    bytes_read: int
    """Stored (compressed) bytes that were read."""
    rows_decoded: int
    """Rows that were parsed, or whose filter columns were decoded."""
    units: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Numbers of stripes, row groups or blocks, by kind and outcome."""


class CostReport(Message):
    """The estimates that chose a reader, and the measured time."""

    reader: str
    """The chosen reader."""
    predicted: dict[str, float]
    """The estimated CPU seconds of each reader."""
    measured: float | None = None
    """The total run time of the chosen reader's tasks in seconds, or None before a run."""
    is_off: bool = False
    """Whether the run time differs from the estimate by at least a second and by more than half of the estimate."""

    @classmethod
    def of(cls, reader: str, predicted: Mapping[str, float]) -> Self | None:
        """Return the report of a choice, or None if no estimate chose the reader."""
        if not predicted:
            return None
        return cls(reader=reader, predicted={name: round(seconds, 3) for name, seconds in predicted.items()})

    def with_measurement(self, seconds: float) -> Self:
        """Return the report after a run whose tasks ran for some seconds."""
        predicted = self.predicted.get(self.reader)
        error = 0.0 if predicted is None else abs(seconds - predicted)
        is_off = predicted is not None and error >= _MIN_ERROR_SECONDS and error > predicted / 2
        return self.model_copy(update={"measured": round(seconds, 3), "is_off": is_off})


class SourceReport(Message):
    """The report of one source. A count is None if the reader does not know it."""

    reader: str
    """The reader of the source: `pushdown`, `spark`, `remote`, or `pushdown and spark` for files of several schemas."""
    reason: str
    """Why this reader was chosen."""
    carrier: str | None = None
    """Where lines of JSON or CSV are searched: `workers` (of Python) or `jvm`."""
    cost: CostReport | None = None
    """The estimate that chose the reader, or None if no estimate did."""
    conjuncts: tuple[ConjunctReport, ...] = ()
    """The conjuncts of the predicate."""
    columns: tuple[str, ...] = ()
    """The columns that were read."""
    files_total: int = 0
    """Files of the source."""
    files_read: int | None = None
    """Files that were opened."""
    bytes_total: int = 0
    """Stored (compressed) bytes of the source."""
    bytes_read: int | None = None
    """Stored (compressed) bytes that were read."""
    bytes_searched: int | None = None
    """Decompressed bytes that were searched for a byte pattern."""
    rows_decoded: int | None = None
    """Rows of which at least the columns of the predicate were decoded."""
    rows_after_pushdown: int | None = None
    """Rows that the reader returned to Spark."""
    rows_returned: int | None = None
    """Rows of the query, after Spark has evaluated the residual predicate. None in a query over several sources."""
    malformed_lines: int | None = None
    """Malformed lines of JSON or CSV, or None unless `max_malformed` counts them."""
    skipped: dict[Skipped, int] = Field(default_factory=dict)
    """Files that were never read and bytes that were never parsed, by kind."""
    units: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Numbers of stripes, row groups, pages or blocks, by kind and outcome."""
    bytes_by_purpose: dict[str, int] = Field(default_factory=dict)
    """`bytes_read` divided by purpose, such as metadata and filter columns."""
    files: tuple[FileReport, ...] = ()
    """The fifty files with the most bytes read."""
    statements: tuple[str, ...] = ()
    """The SQL sent to a database, without credentials."""
    notes: tuple[str, ...] = ()
    """Other facts about the plan, one sentence each."""
    advice: tuple[str, ...] = ()
    """Changes of the files or the predicate that would let the next run read less."""

    @property
    def has_size(self) -> bool:
        """Whether `bytes_total` is known. It is 0 where a database does not report the size of a table."""
        return bool(self.bytes_total or self.files_total)

    @property
    def pushed(self) -> tuple[str, ...]:
        """The conjuncts that were pushed down, exactly or inexactly, as SQL."""
        return tuple(c.sql for c in self.conjuncts if c.exactness is not Exactness.UNSUPPORTED)

    @property
    def residual(self) -> tuple[str, ...]:
        """The conjuncts that Spark evaluates or re-evaluates, as SQL."""
        return tuple(c.sql for c in self.conjuncts if c.exactness is not Exactness.EXACT)


class JobError(Message):
    """A failure of a job."""

    code: ErrorCode
    """What went wrong."""
    message: str
    """One line that says what is wrong, where, and what to do."""
    retryable: bool
    """Whether the same task could succeed if it ran again."""
    error_class: str | None = None
    """Spark's error condition, such as `PATH_NOT_FOUND`."""
    traceback: str | None = None
    """The traceback of the job."""


class CheckReport(Message):
    """One check of the staged output before its commit."""

    check: str
    """The name of the check, such as `min_rows`."""
    required: str
    """What the check requires."""
    found: str
    """What the rows have."""
    passed: bool
    """Whether the rows meet the requirement."""


class OutputSummary(Message):
    """The committed output of a job."""

    mode: OutputMode
    """The effective mode, including Spark's setting for dynamic overwrite."""
    columns: dict[str, str]
    """The columns and their Spark types."""
    format: OutputFormat | None = None
    """The format of the files, or None for a table of a database or of a connector."""
    files: int = 0
    """Files that this run wrote."""
    bytes: int = 0
    """Bytes of these files."""
    table: str | None = None
    """The qualified name of a table."""
    location: str | None = None
    """The directory or URI of a table in Spark's catalog."""
    is_from_earlier_try: bool = False
    """Whether an earlier try of the run has committed the rows, so that this one wrote nothing."""
    partitions: tuple[str, ...] = ()
    """The first hundred directories of partitions that the run wrote, relative to the output."""
    partitions_total: int = 0
    """The number of partitions that the run wrote."""


class Outcome(Message):
    """What a job, or one of its scans, did with its rows."""

    rows: int | None = None
    """Rows written, or returned without an output. None if nothing was written. A job adds up the rows of its scans."""
    output: str | None = None
    """The path or table of the committed output."""
    output_summary: OutputSummary | None = None
    """What was committed."""
    checks: tuple[CheckReport, ...] = ()
    """The checks of the rows."""
    seconds: float = 0.0
    """Seconds from start to end."""
    error: JobError | None = None
    """Why it failed."""

    @property
    def is_from_earlier_try(self) -> bool:
        """Whether an earlier try of the run committed the rows."""
        return self.output_summary is not None and self.output_summary.is_from_earlier_try


class ScanReport(Outcome):
    """The outcome of one of several scans of a job. The report of its source is among those of the job."""


class JobResult(Outcome):
    """The result of a job, on success and on failure."""

    version: int = CONTRACT_VERSION
    """The version of this document."""
    application_id: str | None = None
    """Spark's id of the application."""
    sources: dict[str, SourceReport] = Field(default_factory=dict)
    """The report of each source by its name. An operator with one source calls it `source`."""
    joins: tuple[JoinReport, ...] = ()
    """The joins of each SELECT with joins."""
    scans: dict[str, ScanReport] = Field(default_factory=dict)
    """The outcome of each of several scans by its name, without those that did not run."""

    def of_scan(self, name: str) -> JobResult:
        """Return the result of one scan of a job with several, like that of a job with only this scan."""
        sources = {ONLY_SOURCE: self.sources[name]} if name in self.sources else {}
        return JobResult(**dict(self.scans[name]), application_id=self.application_id, sources=sources)

    @property
    def bytes_read(self) -> int | None:
        """Bytes read by all sources, or None if one of them is unknown."""
        return known_sum(source.bytes_read for source in self.sources.values())

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all sources, or None if one of them is unknown."""
        return known_sum(source.bytes_total if source.has_size else None for source in self.sources.values())

    @property
    def bytes_skipped(self) -> int | None:
        """Stored bytes of all sources that were not read, or None if one of them is unknown."""
        if self.bytes_total is None or self.bytes_read is None:
            return None
        return max(self.bytes_total - self.bytes_read, 0)

    def as_xcom(self) -> dict[str, object]:
        """Return the result as a JSON dict, with the derived lists `pushed` and `residual` of each source."""
        data = self.model_dump(mode="json")
        for name, source in self.sources.items():
            data["sources"][name]["pushed"] = list(source.pushed)
            data["sources"][name]["residual"] = list(source.residual)
        return data

    @classmethod
    def from_xcom(cls, data: Mapping[str, object]) -> Self:
        """Return the result from a dict made by `as_xcom`. Raises `pydantic.ValidationError` for any other dict."""
        sources = data.get("sources")
        if isinstance(sources, Mapping):
            sources = {name: _without_derived(source) for name, source in sources.items()}
        return cls.model_validate({**data, "sources": sources})


def known_sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the counts, or None if there are none or one is unknown.

    >>> known_sum([1, 2]), known_sum([1, None]), known_sum([])
    (3, None, None)
    """
    total = None
    for count in counts:
        if count is None:
            return None
        total = count if total is None else total + count
    return total


def _without_derived(source: object) -> object:
    """Return the dict of a source report without its derived lists."""
    if not isinstance(source, Mapping):
        return source
    return {name: value for name, value in source.items() if name not in _DERIVED}
