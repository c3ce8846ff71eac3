"""Queries of Airflow's database for a task instance and earlier runs of the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.bases.xcom import BaseXCom
from pydantic import ValidationError
from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from airflow_pushdown.plugin.links import PROGRESS_KEY, SparkApplicationLink
from airflow_pushdown.spark_submit.application import is_web_address
from pushdown_spark.contract import JobResult
from pushdown_spark.contract.progress import Progress

HISTORY_LENGTH = 30
"""The number of runs in the history."""
_WITHOUT_JOB = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "up_for_retry"})


@dataclass(frozen=True)
class TaskKey:
    """The key of a task instance. A `map_index` of -1 means that the task is not mapped."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1


@dataclass(frozen=True)
class PastRun:
    """A run of the task with a report."""

    run_id: str
    run_after: datetime | None
    result: JobResult


@dataclass(frozen=True)
class Siblings:
    """The instances of a mapped task in a run: their number, the name of this one, and the indexes next to it."""

    count: int
    name: str
    previous: int | None
    next: int | None


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """One task instance: its state, its report if it has one, and the runs of the task, oldest first.

    `spark_page` is the address of Spark's own UI. `has_value` is whether the task returned a value, which may be
    something other than a report. `siblings` is None unless the task is mapped. `progress` are the last figures of the
    running job, and `progress_at` is when they were stored.
    """

    task_key: TaskKey
    state: str | None
    start: datetime | None
    end: datetime | None
    try_number: int
    result: JobResult | None
    has_value: bool
    spark_page: str | None
    history: tuple[PastRun, ...]
    siblings: Siblings | None = None
    progress: Progress | None = None
    progress_at: datetime | None = None

    @property
    def version(self) -> str:
        """A string that changes when the page of an active task must change, except for its progress."""
        return f"{self.state} {self.try_number} {self.spark_page} {self.has_value}"

    @property
    def is_active(self) -> bool:
        """Whether a try is running, or may start at any time."""
        return self.state not in _WITHOUT_JOB


def task_run(session: Session, task_key: TaskKey) -> TaskRun | None:
    """Return a task instance, or None if it does not exist."""
    row = session.execute(
        select(TaskInstance.state, TaskInstance.start_date, TaskInstance.end_date, TaskInstance.try_number).where(
            _is_in_run(TaskInstance, task_key), TaskInstance.map_index == task_key.map_index
        )
    ).one_or_none()
    if row is None:
        return None
    values, stored_at = _values(session, task_key)
    page = values.get(SparkApplicationLink().xcom_key)
    return TaskRun(
        task_key=task_key,
        state=None if row.state is None else str(row.state),
        start=row.start_date,
        end=row.end_date,
        try_number=row.try_number,
        result=report_of(values.get(BaseXCom.XCOM_RETURN_KEY)),
        has_value=BaseXCom.XCOM_RETURN_KEY in values,
        # Every DAG author can write this XCom, so only web addresses become links.
        spark_page=page if isinstance(page, str) and is_web_address(page) else None,
        history=_history(session, task_key),
        siblings=_siblings(session, task_key) if task_key.map_index >= 0 else None,
        progress=_progress_of(values.get(PROGRESS_KEY)),
        progress_at=stored_at.get(PROGRESS_KEY),
    )


def _is_in_run(model: type[TaskInstance | XComModel], task_key: TaskKey) -> ColumnElement[bool]:
    """Return the condition of rows of a task in a run, of any of its instances."""
    return and_(model.dag_id == task_key.dag_id, model.task_id == task_key.task_id, model.run_id == task_key.run_id)


def _progress_of(value: object) -> Progress | None:
    """Return a value as progress, or None if it is not the progress of this version."""
    try:
        return Progress.model_validate(value)
    except ValidationError:
        return None


def _siblings(session: Session, task_key: TaskKey) -> Siblings:
    """Return the instances of the mapped task in the same run."""
    rows = session.execute(
        # The name is a hybrid property, whose type in a query mypy does not know.
        select(TaskInstance.map_index, TaskInstance.rendered_map_index)  # type: ignore[call-overload]
        .where(_is_in_run(TaskInstance, task_key), TaskInstance.map_index >= 0)
        .order_by(TaskInstance.map_index)
    ).all()
    names = {row.map_index: str(row.rendered_map_index) for row in rows}
    return Siblings(
        count=len(names),
        name=names.get(task_key.map_index, str(task_key.map_index)),
        previous=max((index for index in names if index < task_key.map_index), default=None),
        next=min((index for index in names if index > task_key.map_index), default=None),
    )


def _values(session: Session, task_key: TaskKey) -> tuple[dict[str, object], dict[str, datetime]]:
    """Return the XCom values of the task instance that the page needs, and when they were stored.

    With a custom XCom backend, these are the values in the database, as in the rest of Airflow's web server.
    """
    rows = session.execute(
        select(XComModel.key, XComModel.value, XComModel.timestamp).where(
            _is_in_run(XComModel, task_key),
            XComModel.map_index == task_key.map_index,
            XComModel.key.in_((BaseXCom.XCOM_RETURN_KEY, SparkApplicationLink().xcom_key, PROGRESS_KEY)),
        )
    ).all()
    return {row.key: XComModel.deserialize_value(row) for row in rows}, {row.key: row.timestamp for row in rows}


def _history(session: Session, task_key: TaskKey) -> tuple[PastRun, ...]:
    """Return the newest runs of the task with a report, oldest first."""
    rows = session.execute(
        select(XComModel.value, XComModel.run_id, DagRun.run_after)
        .join(DagRun, and_(DagRun.dag_id == XComModel.dag_id, DagRun.run_id == XComModel.run_id))
        .where(
            XComModel.dag_id == task_key.dag_id,
            XComModel.task_id == task_key.task_id,
            XComModel.map_index == task_key.map_index,
            XComModel.key == BaseXCom.XCOM_RETURN_KEY,
        )
        .order_by(DagRun.run_after.desc(), DagRun.id.desc())
        .limit(HISTORY_LENGTH)
    )
    runs = ((row, report_of(XComModel.deserialize_value(row))) for row in rows)
    return tuple(PastRun(row.run_id, row.run_after, result) for row, result in runs if result is not None)[::-1]


def report_of(value: object) -> JobResult | None:
    """Return a value as a report, or None if it is not a report of this version."""
    if not isinstance(value, Mapping) or "version" not in value:
        return None
    try:
        return JobResult.from_xcom(value)
    except ValidationError:
        return None
