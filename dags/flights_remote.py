"""Put a year of flights into a database, then ask it for few of them: what it can answer as Spark would, it answers.

The flights come from `make demo`, the database is a SQLite file. Run it with

    . .demo/env.sh && airflow dags test flights_remote 2026-01-01
"""

from __future__ import annotations

import csv
import gzip
import os
import sqlite3
from contextlib import closing
from datetime import datetime
from itertools import chain
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_pushdown.operators import RemoteScanOperator

DEMO_DIR = Path(os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", Path(__file__).resolve().parent.parent / ".demo"))
DATABASE = DEMO_DIR / "data" / "flights.db"
OUTPUT = DEMO_DIR / "output" / "{{ ds }}"

TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
RARELY_SEEN = ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")


def flights_in_files() -> tuple[list[str], chain[list[str | None]]]:
    """Names and rows of the demo's CSV files, one of which is compressed; what is not there is NULL."""
    files = sorted((DEMO_DIR / "data" / "flights_csv").rglob("*.csv*"))
    rows = chain.from_iterable(csv.reader(lines(file)[1:]) for file in files)
    return next(csv.reader(lines(files[0]))), chain([value or None for value in row] for row in rows)


def lines(file: Path) -> list[str]:
    """The lines of a CSV file, header included."""
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return text.decode("utf-8").splitlines()


with DAG(dag_id="flights_remote", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["pushdown"]):

    @task
    def fill() -> None:
        """A STRICT table holds no other values than its types say, so that an index serves its columns."""
        names, rows = flights_in_files()
        columns = ", ".join(f"{name} {'TEXT' if name in TEXTS else 'INTEGER'}" for name in names)
        with closing(sqlite3.connect(DATABASE)) as database, database:
            database.execute("DROP TABLE IF EXISTS flights")
            database.execute(f"CREATE TABLE flights ({columns}) STRICT")
            marks = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO flights VALUES ({marks})", rows)  # noqa: S608 -- question marks
            database.execute("CREATE INDEX by_tailnum ON flights (tailnum)")

    # One aircraft in one month. The whole predicate means the same to SQLite as to Spark, which does not look again.
    needle = RemoteScanOperator(
        task_id="needle",
        source_conn_id="flights_db",
        table="flights",
        columns=["month", "day", "carrier", "flight", "arr_delay"],
        where="tailnum = 'N328AA' AND month = 7",
        output=f"{OUTPUT}/needle_remote",
        output_mode="overwrite",
    )

    # Ten aircraft, and the first five of their flights that were late: the limit is in the SQL as well.
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

    # Upper and lower case differ between databases: Spark evaluates that part, over the few rows of the other.
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
