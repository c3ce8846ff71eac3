"""Scan a year of flights in Avro files for one aircraft, for ten aircraft and for one airport.

`make demo` creates the flights. Run the DAG with

    . .demo/env.sh && airflow dags test flights_avro 2026-01-01
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
FLIGHTS = f"{DEMO_DIR}/data/flights_avro"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

RARELY_SEEN = ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")

# The data is small, so `reader="auto"` might choose Spark's own reader. The example shows the pushdown reader, which
# needs no jar.
with DAG(
    dag_id="flights_avro",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):
    # One aircraft: blocks without the bytes of its tail number are decompressed and searched, but not decoded.
    PushdownScanOperator(
        task_id="needle",
        path=FLIGHTS,
        format="avro",
        columns=["time_hour", "carrier", "flight", "route.origin", "route.dest", "arr_delay"],
        where="tailnum = 'N328AA' AND month = 7",
        reader="pushdown",
        output=f"{OUTPUT}/needle_avro",
        output_mode="overwrite",
    )

    # Ten aircraft with two or three flights each: one search for all tail numbers.
    PushdownScanOperator(
        task_id="rarely_seen",
        path=FLIGHTS,
        format="avro",
        columns=["tailnum", "carrier", "flight", "filename"],
        where=f"tailnum IN {RARELY_SEEN}",
        reader="pushdown",
        output=f"{OUTPUT}/rarely_seen_avro",
        output_mode="overwrite",
    )

    # A member of a record, and a limit of ten flights.
    PushdownScanOperator(
        task_id="nested",
        path=FLIGHTS,
        format="avro",
        columns=["time_hour", "carrier", "flight", "route"],
        where="route.dest = 'HDN'",
        limit=10,
        reader="pushdown",
        output=f"{OUTPUT}/nested_avro",
        output_mode="overwrite",
    )
