"""A scan of the flights that can be made to halt in its middle, so that the end-to-end run can kill its parts."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

ROOT = Path(__file__).resolve().parents[2]
DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", ROOT / ".demo"))

with DAG(dag_id="halting_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    PushdownScanOperator(
        task_id="scan",
        path=f"{DEMO_DIR}/data/flights_csv/*/*/*",
        format="csv",
        schema="""
            year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
            sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string,
            air_time int, distance int, hour int, minute int, time_hour timestamp
        """,
        options={"header": True},
        columns=["month", "day", "carrier", "flight", "origin"],
        where="dest = 'HDN'",
        reader="pushdown",
        output=f"{DEMO_DIR}/output/{{{{ ts_nodash }}}}",
        retries=2,
        retry_delay=timedelta(seconds=1),
        conf={
            "spark.executorEnv.PYTHONPATH": str(ROOT / "e2e" / "stall"),
            "spark.executorEnv.E2E_STALL_AT": "/flights_csv/2013/11/",
            "spark.executorEnv.E2E_STALL_WHILE": f"{DEMO_DIR}/halt/wanted",
        },
    )
