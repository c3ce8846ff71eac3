"""The data interval of a DAG run."""

from __future__ import annotations

import pendulum
from airflow.sdk import Context

from airflow_pushdown.exceptions import config_error
from pushdown_spark.contract import IntervalSpec


def run_interval(column: str, context: Context) -> IntervalSpec:
    """Return the run's data interval as a condition on a column.

    `column` is a timestamp or date column in Spark SQL. Raises `ConfigError` if the run has no data interval or an
    empty one, because the task would silently return no rows.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None:
        raise config_error(
            "data_interval: this run has no data interval; trigger the DAG with a logical date, or remove data_interval"
        )
    interval = pendulum.instance(end).in_timezone("UTC") - pendulum.instance(start).in_timezone("UTC")
    if not interval.total_seconds():
        raise config_error(
            f"data_interval: the data interval of this run is empty ({interval.start}). Airflow's presets "
            "and cron strings have no interval by default; schedule the DAG with "
            "CronDataIntervalTimetable('@daily', timezone='UTC')"
        )
    return IntervalSpec(column=column, start=interval.start, end=interval.end)
