"""The job result: rows, output, one report for each source, and the error if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

from pydantic import Field, field_validator

from pushdown_spark.contract.job_spec import OutputFormat, OutputMode
from pushdown_spark.contract.join_tree import JoinReport
from pushdown_spark.contract.message import Message
from pushdown_spark.contract.sources import ONLY_SOURCE
from pushdown_spark.contract.versions import CONTRACT_VERSION
from pushdown_spark.errors import ErrorCode

LONGEST_CONJUNCT = 1_000
"""Maximum length of a conjunct in a report, in characters."""
MOST_PARTITIONS = 100
"""Maximum number of output partitions in a result."""
_LEAST_ERROR = 1.0
"""The smallest error of a predicted time that a report shows, in seconds."""
_DERIVED = frozenset({"pushed", "residual"})


class Exactness(StrEnum):
    """How far a source evaluates a conjunct: completely, as a prefilter, or not at all."""

    EXACT = "exact"
    INEXACT = "inexact"
    UNSUPPORTED = "unsupported"


class ConjunctReport(Message):
    """One conjunct of the predicate: how far it was pushed down, as what, and why not further."""

    sql: str
    exactness: Exactness
    pushed_as: str | None = None
    reason: str | None = None

    @field_validator("sql")
    @classmethod
    def _shorten(cls, sql: str) -> str:
        """Shorten conjuncts such as lists of thousands of values."""
        return sql if len(sql) <= LONGEST_CONJUNCT else f"{sql[: LONGEST_CONJUNCT - 3]}..."


class FileReport(Message):
    """One file: stored bytes read, rows parsed or decoded, and units by kind and outcome."""

    path: str
    bytes_read: int
    rows_decoded: int
    units: dict[str, dict[str, int]] = Field(default_factory=dict)


class CostReport(Message):
    """The estimate that chose a reader: CPU seconds of each reader, and the seconds for which the chosen one ran.

    `measured` is None before a run. `is_off` is set if the tasks ran for at least a second longer or shorter than
    predicted, and the difference is more than half of the prediction.
    """

    reader: str
    predicted: dict[str, float]
    measured: float | None = None
    is_off: bool = False

    @classmethod
    def of(cls, reader: str, predicted: Mapping[str, float]) -> Self | None:
        """Return the report of a choice, None if no estimate chose the reader."""
        if not predicted:
            return None
        return cls(reader=reader, predicted={name: round(seconds, 3) for name, seconds in predicted.items()})

    def after(self, seconds: float) -> Self:
        """Return the report after a run whose tasks ran for some seconds."""
        predicted = self.predicted.get(self.reader)
        error = 0.0 if predicted is None else abs(seconds - predicted)
        is_off = predicted is not None and error >= _LEAST_ERROR and error > predicted / 2
        return self.model_copy(update={"measured": round(seconds, 3), "is_off": is_off})


class SourceReport(Message):
    """The report of one source. Executors count; a count that the reader does not know is None.

    `bytes_total` and `bytes_read` count stored (compressed) bytes. `bytes_searched` counts decompressed bytes that were
    searched for a byte pattern. `rows_decoded` counts rows of which at least the columns of the predicate were decoded,
    `rows_after_pushdown` those that the reader returned to Spark. `skipped` counts files and bytes that were never
    read, by kind. `units` counts the units of a format (stripes, row groups, blocks) by kind and outcome.
    `bytes_by_purpose` divides `bytes_read` by purpose. `carrier` is where lines of JSON or CSV are searched: `workers`
    (of Python) or `jvm`. `cost` is None unless an estimate chose the reader. `files` lists the files with the most
    bytes read, at most `MOST_FILES`. `statements` are the statements sent to a database, without credentials.
    `malformed_lines` is None unless they were counted. `advice` is what would make the next run read less.
    """

    reader: str
    reason: str
    carrier: str | None = None
    cost: CostReport | None = None
    conjuncts: tuple[ConjunctReport, ...] = ()
    columns: tuple[str, ...] = ()
    files_total: int = 0
    files_read: int | None = None
    bytes_total: int = 0
    bytes_read: int | None = None
    bytes_searched: int | None = None
    rows_decoded: int | None = None
    rows_after_pushdown: int | None = None
    rows_returned: int | None = None
    malformed_lines: int | None = None
    skipped: dict[str, int] = Field(default_factory=dict)
    units: dict[str, dict[str, int]] = Field(default_factory=dict)
    bytes_by_purpose: dict[str, int] = Field(default_factory=dict)
    files: tuple[FileReport, ...] = ()
    statements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

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
    """A failure: one line that says what to do, then details."""

    code: ErrorCode
    message: str
    retryable: bool
    error_class: str | None = None
    traceback: str | None = None


class CheckReport(Message):
    """One check of the staged output before its commit."""

    check: str
    required: str
    found: str
    passed: bool


class OutputSummary(Message):
    """The committed output of a job.

    `mode` is the effective mode, including Spark's setting for dynamic overwrite. `columns` maps column names to Spark
    types. For files, `files` and `bytes` count the stored files of this run, and `partitions` lists at most
    `MOST_PARTITIONS` directories that the run wrote, relative to the output; `partitions_total` counts all of them. For
    a table, `table` is its qualified name, and `location` the directory or URI of a table in Spark's catalog.
    `is_from_earlier_try` is set if an earlier try of the run has committed the
    rows, so that this one wrote nothing.
    """

    mode: OutputMode
    columns: dict[str, str]
    format: OutputFormat | None = None
    files: int = 0
    bytes: int = 0
    table: str | None = None
    location: str | None = None
    is_from_earlier_try: bool = False
    partitions: tuple[str, ...] = ()
    partitions_total: int = 0


class ScanReport(Message):
    """The outcome of one of several scans of a job. The report of its source is among those of the job."""

    rows: int | None = None
    output: str | None = None
    output_summary: OutputSummary | None = None
    checks: tuple[CheckReport, ...] = ()
    seconds: float = 0.0
    error: JobError | None = None


class JobResult(Message):
    """The result of a job, on success and on failure.

    A job with several scans has one report for each in `scans`, under its name, without those that did not run. Its
    `rows` are those of all scans.
    """

    version: int = CONTRACT_VERSION
    rows: int | None = None
    output: str | None = None
    output_summary: OutputSummary | None = None
    checks: tuple[CheckReport, ...] = ()
    application_id: str | None = None
    sources: dict[str, SourceReport] = Field(default_factory=dict)
    joins: tuple[JoinReport, ...] = ()
    scans: dict[str, ScanReport] = Field(default_factory=dict)
    seconds: float = 0.0
    error: JobError | None = None

    def of_scan(self, name: str) -> JobResult:
        """Return the result of one scan of a job with several, like that of a job with only this scan."""
        scan = self.scans[name]
        return JobResult(
            rows=scan.rows,
            output=scan.output,
            output_summary=scan.output_summary,
            checks=scan.checks,
            application_id=self.application_id,
            sources={ONLY_SOURCE: self.sources[name]} if name in self.sources else {},
            seconds=scan.seconds,
            error=scan.error,
        )

    @property
    def bytes_read(self) -> int | None:
        """Bytes read by all sources, or None if one of them is unknown."""
        return _total([source.bytes_read for source in self.sources.values()])

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all sources, or None if one of them is unknown."""
        sizes = [source.bytes_total if source.has_size else None for source in self.sources.values()]
        return _total(sizes)

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


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of the counts, or None if there are none or one is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _without_derived(source: object) -> object:
    """Return the dict of a source report without its derived lists."""
    if not isinstance(source, Mapping):
        return source
    return {name: value for name, value in source.items() if name not in _DERIVED}
