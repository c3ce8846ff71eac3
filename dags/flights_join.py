"""Join four sources: the destinations of the aircraft of one manufacturer.

Each conjunct reaches its source, the tail numbers of the few aircraft become a predicate on the flights, and the joins
are reordered. `make demo` creates the files. Run the DAG with

    . .demo/env.sh && airflow dags test flights_join 2026-01-01
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownJoinOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
DATA = DEMO_DIR / "data"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

FLIGHTS = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int,
    arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int,
    hour int, minute int, time_hour timestamp
"""
AIRPORTS = "faa string, name string, lat double, lon double, alt int, tz int, dst string, tzone string"
PLANES = """
    tailnum string, year int, type string, manufacturer string, model string, engines int, seats int, speed int,
    engine string
"""


def csv(path: str, schema: str) -> dict[str, object]:
    """Return a source of CSV files with a header. The demo is too small for `auto` to choose the pushdown reader."""
    return {
        "path": f"{DATA}/{path}",
        "format": "csv",
        "schema": schema,
        "options": {"header": True},
        "reader": "pushdown",
    }


with DAG(
    dag_id="flights_join",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):
    PushdownJoinOperator(
        task_id="cessnas",
        sources={
            "flights": csv("flights_csv/*/*/*", FLIGHTS),
            "airlines": csv("related/airlines.csv", "carrier string, name string"),
            "airports": csv("related/airports.csv", AIRPORTS),
            "planes": csv("related/planes.csv", PLANES),
        },
        query="""
            SELECT airline.name AS airline, airport.name AS airport, count(*) AS flights, max(f.arr_delay) AS latest
            FROM flights AS f
            JOIN airlines AS airline ON f.carrier = airline.carrier
            JOIN airports AS airport ON f.dest = airport.faa
            JOIN planes AS p ON f.tailnum = p.tailnum
            WHERE p.manufacturer = 'CESSNA' AND f.month BETWEEN 7 AND 9 AND airport.tz = -6
            GROUP BY airline.name, airport.name
            ORDER BY flights DESC, airport
        """,
        join_reorder_min_bytes=0,
        output=f"{OUTPUT}/cessnas",
        output_mode="overwrite",
    )
