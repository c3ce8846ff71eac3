"""Run two scans in one Spark application: one aircraft in JSON files, and two days in CSV files.

`make demo` creates the files. Run the task with

    . .demo/env.sh && airflow dags test flights_multi_scan 2026-01-01
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownMultiScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
DATA = DEMO_DIR / "data"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

with DAG(
    dag_id="flights_multi_scan",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):
    # Each scan writes a directory with its name below `output`. `output_mode` is the default of both.
    PushdownMultiScanOperator(
        task_id="extract",
        scans={
            "needle": {
                "path": f"{DATA}/flights_json/*/*/*",
                "format": "json",
                "schema": "time_hour timestamp, carrier string, flight int, tailnum string, arr_delay int",
                "where": "tailnum = 'N328AA'",
                "reader": "pushdown",
            },
            "range": {
                "path": f"{DATA}/flights_csv/*/*/*",
                "format": "csv",
                "options": {"header": True},
                "schema": """
                    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
                    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
                    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp
                """,
                "columns": ["time_hour", "carrier", "flight", "origin", "dest", "dep_delay"],
                "where": "time_hour BETWEEN '2013-02-08' AND '2013-02-09 23:59:59'",
                "reader": "pushdown",
                "checks": {"min_rows": 1, "not_null": ["carrier", "flight"]},
            },
        },
        output=f"{OUTPUT}/extract",
        output_mode="overwrite",
        conf={"spark.sql.session.timeZone": "UTC"},
    )
