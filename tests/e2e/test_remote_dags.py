"""Remote tables in `airflow dags test`: the example with SQLite, and a server's password that is not visible."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import psutil
import pyarrow.parquet as parquet
import pytest
from airflow_cli import Airflow  # type: ignore[import-not-found]
from databases import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)


@pytest.mark.nightly
def test_the_example_pushes_only_conjuncts_with_sparks_semantics(airflow: Airflow) -> None:
    demo = airflow.data / "demo-remote"
    folder = demo / "data" / "flights_csv" / "2013" / "all"
    folder.mkdir(parents=True)
    tails = {7: "N328AA", 8: "N328AA", 9: "N121DE"}
    lines = [
        f"2013,{5 + number % 3},1,,,,,,{number % 5 - 1},UA,{number},{tails.get(number % 40, f'T{number}')},JFK,"
        f"{'HDN' if number % 100 == 3 else 'BOS'},,,,,2013-05-01T05:00:00Z\n"
        for number in range(1000)
    ]
    (folder / "flights.csv").write_text("".join([HEADER, "\n", *lines[:600]]), encoding="utf-8")
    (folder / "later.csv.gz").write_bytes(gzip.compress("".join([HEADER, "\n", *lines[600:]]).encode()))
    process = airflow.start(
        *("dags", "test", "flights_remote", "2026-01-01"),
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_PUSHDOWN_DEMO_DIR=str(demo),
        AIRFLOW_CONN_FLIGHTS_DB=json.dumps({"conn_type": "sqlite", "host": str(demo / "data" / "flights.db")}),
    )
    assert process.wait() == 0, airflow.log()

    output = demo / "output" / "2026-01-01"
    needle = parquet.read_table(output / "needle_remote").to_pylist()
    expected = [number for number in range(1000) if number % 40 in (7, 8) and number % 3 == 2]
    assert sorted(row["flight"] for row in needle) == expected
    assert len(parquet.read_table(output / "rarely_seen_remote")) == 5
    assert len(parquet.read_table(output / "two_parts_remote")) == 10
    sources = {
        task: result["sources"]["source"] for task, result in airflow.results("flights_remote").items() if result
    }
    assert {source["reader"] for source in sources.values()} == {"remote"}
    assert sources["needle"]["residual"] == []
    assert sources["needle"]["rows_decoded"] == len(expected)
    assert sources["rarely_seen"]["rows_decoded"] == 5
    assert sources["rarely_seen"]["statements"][0].endswith("LIMIT 5")
    assert sources["two_parts"]["residual"] == ["LOWER(carrier) = 'ua'"]
    assert sources["two_parts"]["rows_decoded"] == 10


def test_the_password_is_not_in_processes_logs_or_xcoms(airflow: Airflow, postgresql_server: Server) -> None:
    postgresql_server.execute(
        "CREATE TABLE orders AS SELECT i AS id, 'order ' || i AS label FROM generate_series(1, 1000) i"
    )
    secret = postgresql_server.password
    (airflow.data / "events").mkdir()
    connection = postgresql_server.airflow_connection(
        extra=json.dumps({"sslmode": "verify-full", "sslrootcert": str(postgresql_server.ca_file)})
    )
    process = airflow.start("dags", "test", "remote_scan", "2026-01-01", AIRFLOW_CONN_SHOP=connection)
    texts: list[str] = []
    airflow_process = psutil.Process(process.pid)
    while True:
        try:
            assert process.wait(timeout=0.05) == 0, airflow.log()
            break
        except subprocess.TimeoutExpired:
            texts += looks(airflow_process)

    assert any("pushdown_spark/job.py" in text for text in texts)
    rows = parquet.read_table(airflow.data / "remote" / "2026-01-01").to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(3, 1000, 10))
    result = airflow.results("remote_scan")["scan"]
    assert result["sources"]["source"]["rows_decoded"] == 100
    events = b"".join(path.read_bytes() for path in (airflow.data / "events").rglob("*") if path.is_file())
    assert b"SparkListenerJobStart" in events
    assert [text for text in texts if secret in text] == []
    assert secret not in airflow.log()
    assert secret not in json.dumps(result)
    assert secret.encode() not in airflow.database.read_bytes()
    assert secret.encode() not in events


def looks(airflow: psutil.Process) -> list[str]:
    """Return the command lines of all processes below Airflow, and the environments of the job's processes."""
    visible_texts = []
    for process in airflow.children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            visible_texts.append(command)
            if "SparkSubmit" in command or "job.py" in command or "pyspark" in command:
                visible_texts.append(" ".join(process.environ().values()))
        except psutil.Error:
            continue
    return visible_texts
