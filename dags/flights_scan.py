"""Scan a year of flights three times: for one aircraft, a range of dates and a nested field.

`make demo` creates the files. Run one task with

    . .demo/env.sh && airflow tasks test flights_scan needle 2026-01-01
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
DATA = DEMO_DIR / "data"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

FLIGHTS_JSON = """
    time_hour timestamp, carrier string, flight int, tailnum string, dep_delay int, arr_delay int, air_time int,
    route struct<origin: string, dest: string, distance: int>,
    plane struct<year: int, manufacturer: string, model: string, seats: int>
"""
FLIGHTS_CSV = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int,
    arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int,
    hour int, minute int, time_hour timestamp
"""

# The data is small, so `reader="auto"` might choose Spark's own reader. The example shows the pushdown reader.
with DAG(
    dag_id="flights_scan",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):
    # One aircraft: Spark parses a few hundred of 336,776 lines.
    PushdownScanOperator(
        task_id="needle",
        path=f"{DATA}/flights_json/*/*/*",
        format="json",
        schema=FLIGHTS_JSON,
        columns=["time_hour", "carrier", "flight", "tailnum", "arr_delay"],
        where="tailnum = 'N328AA'",
        reader="pushdown",
        output=f"{OUTPUT}/needle",
        output_mode="overwrite",
    )

    # The two days of a snow storm. The session's time zone defines the days, so the task sets it.
    PushdownScanOperator(
        task_id="range",
        path=f"{DATA}/flights_csv/*/*/*",
        format="csv",
        schema=FLIGHTS_CSV,
        options={"header": True},
        columns=["time_hour", "carrier", "flight", "origin", "dest", "dep_delay"],
        where="time_hour BETWEEN '2013-02-08' AND '2013-02-09 23:59:59'",
        reader="pushdown",
        output=f"{OUTPUT}/range",
        output_mode="overwrite",
        conf={"spark.sql.session.timeZone": "UTC"},
    )

    # A struct member in the predicate, struct members as columns, and the file of each row.
    PushdownScanOperator(
        task_id="nested",
        path=f"{DATA}/flights_json/*/*/*",
        format="json",
        schema=FLIGHTS_JSON,
        columns=["carrier", "flight", "route.origin", "plane.manufacturer", "plane.seats", "dir0", "dir1", "filename"],
        where="route.dest = 'HDN'",
        reader="pushdown",
        output=f"{OUTPUT}/nested",
        output_mode="overwrite",
    )
