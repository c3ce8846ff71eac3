"""Queries of Airflow's database for the reports of a DAG's runs, and their sums by run, by day and by fallback."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from operator import attrgetter

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.sdk.bases.xcom import BaseXCom
from sqlalchemy import and_, select
from sqlalchemy.orm import Session, aliased

from airflow_pushdown.plugin.links import PushdownReportLink
from airflow_pushdown.plugin.task_data import TaskKey, report_of
from pushdown_spark.contract import SPARK_REQUESTED, JobResult, SourceReport, known_sum

DAYS = 30
"""The number of days whose runs are listed."""
MAX_REPORTS = 1_000
"""The largest number of reports of a DAG that a page reads."""

_AMOUNT = re.compile(r"([<>] )?\d[\d.,]*( ([KMGTPE]i)?B\b)?")
"""A number in a reason, with a unit of bytes if there is one."""


@dataclass(frozen=True)
class TaskReport:
    """The report of one task instance."""

    task_key: TaskKey
    result: JobResult


@dataclass(frozen=True)
class DagRunReports:
    """The reports of one DAG run."""

    run_id: str
    run_after: datetime
    state: str
    reports: tuple[TaskReport, ...]

    @property
    def bytes_read(self) -> int | None:
        """Bytes that all tasks read, or None if one of them is unknown."""
        return known_sum(report.result.bytes_read for report in self.reports)

    @property
    def bytes_skipped(self) -> int | None:
        """Bytes that were stored and not read, or None if unknown for a task."""
        return known_sum(report.result.bytes_skipped for report in self.reports)

    @property
    def rows(self) -> int:
        """Rows that the tasks returned or wrote."""
        return sum(report.result.rows or 0 for report in self.reports)

    @property
    def seconds(self) -> float:
        """The sum of the seconds of all jobs."""
        return sum(report.result.seconds for report in self.reports)

    @property
    def readers(self) -> dict[str, int]:
        """The number of sources by reader."""
        counts: dict[str, int] = {}
        for report in self.reports:
            for source in report.result.sources.values():
                counts[source.reader] = counts.get(source.reader, 0) + 1
        return counts


@dataclass(frozen=True)
class Fallback:
    """A source that Spark's reader read although a pushdown reader was allowed.

    `reason` is from the newest run, `last`. `bytes_read` is what Spark's reader read in all runs, and `bytes_stored` is
    the size of the source in them. Each is None if it is unknown for one run.
    """

    task_id: str
    source: str
    reason: str
    runs: int
    bytes_read: int | None
    bytes_stored: int | None
    last: TaskKey


@dataclass(frozen=True)
class Sums:
    """The sums of some runs: bytes read and skipped, and seconds.

    `unknown_read` and `unknown_skipped` are the numbers of reports whose bytes are not in the sums, because a source
    does not know them.
    """

    runs: int
    bytes_read: int
    bytes_skipped: int
    unknown_read: int
    unknown_skipped: int
    seconds: float

    @classmethod
    def of(cls, runs: Sequence[DagRunReports]) -> Sums:
        """Return the sums of runs."""
        results = [report.result for run in runs for report in run.reports]
        bytes_read = [result.bytes_read for result in results]
        bytes_skipped = [result.bytes_skipped for result in results]
        return cls(
            runs=len(runs),
            bytes_read=sum(count or 0 for count in bytes_read),
            bytes_skipped=sum(count or 0 for count in bytes_skipped),
            unknown_read=bytes_read.count(None),
            unknown_skipped=bytes_skipped.count(None),
            seconds=sum(run.seconds for run in runs),
        )


@dataclass(frozen=True)
class Day:
    """The sums of the runs of one day."""

    day: date
    sums: Sums


@dataclass(frozen=True)
class DagReports:
    """The runs of a DAG with reports, newest first. `is_cut` is whether older reports were not read."""

    dag_id: str
    until: datetime
    runs: tuple[DagRunReports, ...]
    is_cut: bool = False

    @property
    def sums(self) -> Sums:
        """The sums of all runs."""
        return Sums.of(self.runs)

    @property
    def days(self) -> tuple[Day, ...]:
        """The sums of each day, oldest first, also of days without a run."""
        runs_by_day: dict[date, list[DagRunReports]] = {}
        for run in self.runs:
            runs_by_day.setdefault(run.run_after.date(), []).append(run)
        first = self.until.date() - timedelta(days=DAYS - 1)
        days = (first + timedelta(days=number) for number in range(DAYS))
        return tuple(Day(day, Sums.of(runs_by_day.get(day, []))) for day in days)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The fallbacks by task, source and reason without its numbers. Those with the most bytes come first."""
        uses: dict[tuple[str, str, str], list[tuple[TaskKey, SourceReport]]] = {}
        for report in (report for run in self.runs for report in run.reports):
            for name, source in fallbacks_of(report.result):
                kind = (report.task_key.task_id, name, _AMOUNT.sub("", source.reason))
                uses.setdefault(kind, []).append((report.task_key, source))
        fallbacks = [
            Fallback(
                task_id,
                name,
                newest.reason,
                runs=len(sources),
                bytes_read=known_sum(source.bytes_read for _, source in sources),
                bytes_stored=known_sum(source.bytes_total if source.has_size else None for _, source in sources),
                last=last,
            )
            for (task_id, name, _), sources in uses.items()
            for last, newest in sources[:1]
        ]
        return tuple(sorted(fallbacks, key=lambda fallback: -(fallback.bytes_read or fallback.bytes_stored or 0)))


def fallbacks_of(result: JobResult) -> Iterator[tuple[str, SourceReport]]:
    """Yield the name and the report of each source that Spark's reader read instead of a pushdown reader."""
    for name, source in result.sources.items():
        if source.reader == "spark" and source.conjuncts and source.reason != SPARK_REQUESTED:
            yield name, source


def dags_with_reports(session: Session, until: datetime) -> tuple[str, ...]:
    """Return the ids of the DAGs whose runs of the last `DAYS` days have links to reports, in alphabetical order."""
    query = (
        select(XComModel.dag_id)
        .join(DagRun, and_(DagRun.dag_id == XComModel.dag_id, DagRun.run_id == XComModel.run_id))
        .where(XComModel.key == PushdownReportLink().xcom_key, DagRun.run_after > until - timedelta(days=DAYS))
        .distinct()
        .order_by(XComModel.dag_id)
    )
    return tuple(session.scalars(query))


def dag_reports(session: Session, dag_id: str, until: datetime) -> DagReports:
    """Return the reports of the runs of a DAG in the last `DAYS` days.

    Only values of tasks with a link to a report are read, because values of other tasks may be large.
    """
    link = aliased(XComModel)
    rows = session.execute(
        select(
            XComModel.value, XComModel.run_id, XComModel.task_id, XComModel.map_index, DagRun.run_after, DagRun.state
        )
        .join(DagRun, and_(DagRun.dag_id == XComModel.dag_id, DagRun.run_id == XComModel.run_id))
        .join(
            link,
            and_(
                link.dag_run_id == XComModel.dag_run_id,
                link.task_id == XComModel.task_id,
                link.map_index == XComModel.map_index,
                link.key == PushdownReportLink().xcom_key,
            ),
        )
        .where(
            XComModel.dag_id == dag_id,
            XComModel.key == BaseXCom.XCOM_RETURN_KEY,
            DagRun.run_after > until - timedelta(days=DAYS),
        )
        .order_by(DagRun.run_after.desc(), DagRun.id.desc(), XComModel.task_id, XComModel.map_index)
        .limit(MAX_REPORTS + 1)
    ).all()
    runs = []
    for (run_id, run_after, state), group in groupby(rows[:MAX_REPORTS], attrgetter("run_id", "run_after", "state")):
        values = ((row, report_of(XComModel.deserialize_value(row))) for row in group)
        reports = tuple(
            TaskReport(TaskKey(dag_id, row.task_id, run_id, row.map_index), result)
            for row, result in values
            if result is not None
        )
        if reports:
            runs.append(DagRunReports(run_id, run_after, str(state), reports))
    is_cut = len(rows) > MAX_REPORTS
    # The sums of a run without all of its reports would be too small.
    if is_cut and len(runs) > 1 and runs[-1].run_id == rows[MAX_REPORTS].run_id:
        runs.pop()
    return DagReports(dag_id, until, tuple(runs), is_cut)
