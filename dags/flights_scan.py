"""Three scans of a year of flights, each reading less than the files hold: a needle, a range and a nested field.

The files come from `make demo`. Run one task by hand with

    . .demo/env.sh && airflow tasks test flights_scan needle 2026-01-01
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

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

# The data is small enough for Spark's own reader to do as well, and `reader="auto"` might choose it; this shows ours.
with DAG(dag_id="flights_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["pushdown"]):
    # One aircraft: a few hundred lines of 336,776 are parsed.
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

    # The two days of a snow storm. Days are those of the session's time zone, so it is set.
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

    # A member of a struct as the filter, members as columns, and the file that each row came from.
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
