"""Write a year of flights as ORC, then scan it lazily for one aircraft and for a list of aircraft.

`make demo` creates the flights. Run the DAG with

    . .demo/env.sh && airflow dags test flights_orc 2026-01-01
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators import LazyOrcScanOperator, PushdownScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"
FLIGHTS = f"{OUTPUT}/flights_orc"

FLIGHTS_CSV = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int,
    arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int,
    hour int, minute int, time_hour timestamp
"""
RARELY_SEEN = ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")

# The data is small, so `reader="auto"` might choose Spark's own reader. The example shows the pushdown reader.
with DAG(
    dag_id="flights_orc",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):
    # The flights are in the order of their time. Statistics therefore prune by date, but not by aircraft, so the tail
    # number gets bloom filters. A row group holds about one day.
    write = PushdownScanOperator(
        task_id="write",
        path=f"{DEMO_DIR}/data/flights_csv/*/*/*",
        format="csv",
        schema=FLIGHTS_CSV,
        options={"header": True},
        output=FLIGHTS,
        output_format="orc",
        output_mode="overwrite",
        output_options={"orc.row.index.stride": 1000, "orc.bloom.filter.columns": "tailnum"},
    )

    # One aircraft in one week: statistics prune all other weeks. The predicate is exact, so with `use_selected` Spark
    # does not evaluate it again.
    needle = LazyOrcScanOperator(
        task_id="needle",
        path=FLIGHTS,
        columns=["month", "day", "carrier", "flight", "arr_delay"],
        where="tailnum = 'N328AA' AND month = 7 AND day BETWEEN 1 AND 7",
        partial_reads=2,
        use_selected=True,
        reader="pushdown",
        output=f"{OUTPUT}/needle_orc",
        output_mode="overwrite",
    )

    # Ten aircraft with two or three flights each: bloom filters prune most row groups.
    rarely_seen = LazyOrcScanOperator(
        task_id="rarely_seen",
        path=FLIGHTS,
        columns=["tailnum", "carrier", "flight", "origin", "dest"],
        where=f"tailnum IN {RARELY_SEEN}",
        reader="pushdown",
        output=f"{OUTPUT}/rarely_seen_orc",
        output_mode="overwrite",
    )

    write >> [needle, rarely_seen]
