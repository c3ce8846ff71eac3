"""`data_interval` adds the half-open predicate of the run's interval, and raises for an empty interval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pendulum
import pyarrow.parquet as parquet
import pytest
from airflow.sdk import DAG, Context

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.operators.values import run_interval

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # before Airflow 3.2
    from airflow.timetables.interval import CronDataIntervalTimetable

NOON = pendulum.datetime(2026, 1, 2, 12, tz="Europe/Berlin")


def context(**values: object) -> Context:
    entries: Any = dict(values)
    return entries


def test_an_interval_is_in_utc() -> None:
    run = context(data_interval_start=NOON, data_interval_end=NOON.add(hours=1))
    assert run_interval("at", run).model_dump(mode="json") == {
        "column": "at",
        "start": "2026-01-02T11:00:00Z",
        "end": "2026-01-02T12:00:00Z",
    }


def test_an_empty_interval_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"is empty .*CronDataIntervalTimetable"):
        run_interval("at", context(data_interval_start=NOON, data_interval_end=NOON))


def test_a_run_without_an_interval_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no data interval"):
        run_interval("at", context(data_interval_start=None, data_interval_end=None))


@pytest.mark.e2e
def test_a_run_reads_the_rows_of_its_interval(
    tmp_path: Path, local_spark: str, spark_python: str, register_dag: Callable[[DAG], None]
) -> None:
    times = ("2026-01-01T23:59:59.999Z", "2026-01-02T00:00:00Z", "2026-01-02T23:59:59.999999Z", "2026-01-03T00:00:00Z")
    lines = (f'{{"id":{number},"at":"{time}"}}\n' for number, time in enumerate(times))
    (tmp_path / "rows.json").write_text("".join(lines))
    schedule = CronDataIntervalTimetable("@daily", timezone="UTC")
    with DAG("interval", schedule=schedule, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False) as dag:
        PushdownScanOperator(
            task_id="scan",
            path=str(tmp_path / "rows.json"),
            format="json",
            schema="id int, at timestamp",
            where="id < 9",
            data_interval="at",
            output=str(tmp_path / "out"),
            spark_python=spark_python,
        )
    register_dag(dag)
    # A manual run has the last complete interval before its logical date.
    now = pendulum.datetime(2026, 1, 3, tz="UTC")
    run = dag.test(logical_date=now, run_after=now)
    assert run.state == "success"
    assert sorted(parquet.read_table(tmp_path / "out")["id"].to_pylist()) == [1, 2]
