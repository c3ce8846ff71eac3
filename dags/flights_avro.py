"""Find an aircraft, a handful of rare ones and the flights to one airport in a year of flights as Avro.

The flights come from `make demo`. Run it with

    . .demo/env.sh && airflow dags test flights_avro 2026-01-01
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
FLIGHTS = f"{DEMO_DIR}/data/flights_avro"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

RARELY_SEEN = ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")

# The data is small enough for Spark's own reader to do as well, and `reader="auto"` might choose it; this shows ours.
# Ours needs no jar. With `reader="spark"` the package org.apache.spark:spark-avro is added in the version of Spark.
with DAG(dag_id="flights_avro", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["pushdown"]):
    # One aircraft: blocks without the bytes of its number are unpacked and searched, not decoded.
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

    # Ten aircraft with two or three flights each: one search for all their numbers.
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

    # A member of a record, and the first ten flights only.
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
