"""The data interval of a DAG run as a predicate."""

from __future__ import annotations

from datetime import datetime

import pendulum
from airflow.sdk import Context

from airflow_pushdown.exceptions import config_error


def interval_predicate(column: str, context: Context) -> str:
    """Return the predicate for the rows of the run's data interval: start included, end excluded.

    `column` is a timestamp or date column in Spark SQL. Raises `ConfigError` if the run has no data interval or an
    empty one, because the task would silently return no rows.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None:
        raise config_error(
            "data_interval: this run has no data interval; trigger the DAG with a logical date, or remove data_interval"
        )
    interval = pendulum.interval(pendulum.instance(start), pendulum.instance(end))
    if not interval.total_seconds():
        raise config_error(
            f"data_interval: the data interval of this run is empty ({_timestamp(interval.start)}). Airflow's presets "
            "and cron strings have no interval by default; schedule the DAG with "
            "CronDataIntervalTimetable('@daily', timezone='UTC')"
        )
    return f"{column} >= TIMESTAMP '{_timestamp(interval.start)}' AND {column} < TIMESTAMP '{_timestamp(interval.end)}'"


def add_predicate(where: str | None, predicate: str | None) -> str | None:
    """Return the conjunction of two predicates, either of which may be None."""
    if where is None or predicate is None:
        return predicate if where is None else where
    # On lines of its own: the predicate may end with a comment.
    return f"{predicate} AND (\n{where}\n)"


def _timestamp(moment: datetime) -> str:
    """Return a moment in UTC as Spark writes it, with the offset, so that no session time zone applies."""
    return pendulum.instance(moment).in_timezone("UTC").format("YYYY-MM-DD HH:mm:ss.SSSSSS[+00:00]")
