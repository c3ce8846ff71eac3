"""Load a year of flights into a SQLite database, then scan the table for a few of them.

`make demo` creates the flights. Run the DAG with

    . .demo/env.sh && airflow dags test flights_remote 2026-01-01
"""

from __future__ import annotations

import csv
import gzip
import os
import sqlite3
from contextlib import closing
from itertools import chain
from pathlib import Path

import pendulum
from airflow.sdk import DAG, task

from airflow_pushdown.operators import RemoteScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
DATABASE = DEMO_DIR / "data" / "flights.db"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

TEXT_COLUMNS = ("carrier", "tailnum", "origin", "dest", "time_hour")
RARELY_SEEN = ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")


def read_flights() -> tuple[list[str], chain[list[str | None]]]:
    """Return the column names and the rows of the demo's CSV files. An empty field is NULL."""
    files = sorted((DEMO_DIR / "data" / "flights_csv").rglob("*.csv*"))
    rows = chain.from_iterable(csv.reader(read_lines(file)[1:]) for file in files)
    return next(csv.reader(read_lines(files[0]))), chain([value or None for value in row] for row in rows)


def read_lines(file: Path) -> list[str]:
    """Return the lines of a CSV file, including the header."""
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return text.decode("utf-8").splitlines()


with DAG(
    dag_id="flights_remote",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    tags=["pushdown"],
):

    @task
    def fill() -> None:
        """Create a STRICT table, whose columns have only values of their type, so that an index can be used."""
        names, rows = read_flights()
        columns = ", ".join(f"{name} {'TEXT' if name in TEXT_COLUMNS else 'INTEGER'}" for name in names)
        with closing(sqlite3.connect(DATABASE)) as database, database:
            database.execute("DROP TABLE IF EXISTS flights")
            database.execute(f"CREATE TABLE flights ({columns}) STRICT")
            placeholders = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO flights VALUES ({placeholders})", rows)  # noqa: S608
            database.execute("CREATE INDEX by_tailnum ON flights (tailnum)")

    # One aircraft in one month. The predicate is exact in SQLite, so Spark does not evaluate it again.
    needle = RemoteScanOperator(
        task_id="needle",
        source_conn_id="flights_db",
        table="flights",
        columns=["month", "day", "carrier", "flight", "arr_delay"],
        where="tailnum = 'N328AA' AND month = 7",
        output=f"{OUTPUT}/needle_remote",
        output_mode="overwrite",
    )

    # Five late flights of ten aircraft. The SQL contains the limit.
    rarely_seen = RemoteScanOperator(
        task_id="rarely_seen",
        source_conn_id="flights_db",
        table="flights",
        columns=["tailnum", "carrier", "flight", "origin", "dest"],
        where=f"tailnum IN {RARELY_SEEN} AND coalesce(arr_delay, dep_delay, 0) > 0",
        limit=5,
        output=f"{OUTPUT}/rarely_seen_remote",
        output_mode="overwrite",
    )

    # `lower` differs between databases, so Spark evaluates that conjunct on the rows of the other one.
    two_parts = RemoteScanOperator(
        task_id="two_parts",
        source_conn_id="flights_db",
        table="flights",
        columns=["time_hour", "carrier", "flight", "dest"],
        where="dest = 'HDN' AND lower(carrier) = 'ua'",
        output=f"{OUTPUT}/two_parts_remote",
        output_mode="overwrite",
    )

    fill() >> [needle, rarely_seen, two_parts]
