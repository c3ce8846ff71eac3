"""Counters of bytes and rows in Airflow's metrics (StatsD or OpenTelemetry), by operator and format."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_pushdown.version_compat import Stats
from pushdown_spark.contract import AnySourceSpec, JobResult, JobSpec, SourceReport

PREFIX = "airflow_pushdown"
_SPARK = "spark"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Count:
    """A counter of one source: its name, the format of the source, and the value to add."""

    name: str
    format: str
    value: int


def source_counts(spec: JobSpec, result: JobResult) -> tuple[Count, ...]:
    """Return the counters of a job, added up by format, without counts that a reader does not know.

    `bytes_skipped` are the bytes of the sources that were not read. `fallbacks` counts the sources that only Spark's
    own reader could read, or could read faster, although the task did not ask for it.
    """
    totals: Counter[tuple[str, str]] = Counter()
    for name, report in result.sources.items():
        source = spec.sources.get(name)
        if source is not None:
            for counter, value in _counts(source, report):
                totals[counter, str(source.format)] += value
    return tuple(Count(name, kind, value) for (name, kind), value in totals.items() if value)


def emit(operator: str, spec: JobSpec, result: JobResult) -> None:
    """Send the counters of a job. A failure is logged, because it must not fail the task.

    Each counter is sent twice: with tags, and with operator and format in its name, because StatsD has no tags.
    """
    try:
        for count in source_counts(spec, result):
            tags = {"operator": operator, "format": count.format}
            Stats.incr(f"{PREFIX}.{count.name}", count.value, tags=tags)
            Stats.incr(f"{PREFIX}.{count.name}.{operator}.{count.format}", count.value)
    except Exception:
        _log.warning("The metrics of the job were not sent", exc_info=True)


def _counts(source: AnySourceSpec, report: SourceReport) -> Iterator[tuple[str, int]]:
    """Yield the counters of one source that are known."""
    yield "sources", 1
    if report.bytes_read is not None:
        yield "bytes_read", report.bytes_read
        if report.has_size:
            yield "bytes_skipped", max(report.bytes_total - report.bytes_read, 0)
    if report.rows_decoded is not None:
        yield "rows_decoded", report.rows_decoded
    if report.rows_returned is not None:
        yield "rows_returned", report.rows_returned
    requested_reader = getattr(source, "reader", _SPARK)
    if requested_reader != _SPARK and _SPARK in report.reader:
        yield "fallbacks", 1
