"""`airflow dags test` with a real spark-submit: rows, report, XCom, and no visible secrets.

Nightly runs test the example DAGs this way. `make e2e-local` runs them in a deployment.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as parquet
import pytest
from airflow_cli import SECRET, TOKEN, Airflow  # type: ignore[import-not-found]

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
NEEDLE, RARE = "N328AA", "N503US"


class Seen:
    """The observed processes below Airflow while a DAG ran."""

    def __init__(self) -> None:
        self.command_lines: set[str] = set()
        self.environments: dict[int, dict[str, str]] = {}

    def look(self, airflow: psutil.Process) -> None:
        for process in airflow.children(recursive=True):
            try:
                self.command_lines.add("\0".join(process.cmdline()))
                if os.getsid(process.pid) != os.getsid(airflow.pid):
                    self.environments[process.pid] = process.environ()
            except (psutil.Error, ProcessLookupError):
                continue


@pytest.fixture(scope="module")
def run(airflow: Airflow) -> Seen:
    process = airflow.start("dags", "test", "small_scan", "2026-01-01")
    seen, airflow_process = Seen(), psutil.Process(process.pid)
    while True:
        try:
            assert process.wait(timeout=0.05) == 0, airflow.log()
        except subprocess.TimeoutExpired:
            seen.look(airflow_process)
        else:
            return seen


@pytest.fixture(scope="module")
def result(airflow: Airflow, run: Seen) -> dict[str, object]:
    return airflow.results("small_scan")["scan"]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet output."""
    return parquet.read_table(folder).to_pylist()


def test_the_output_has_the_expected_rows(airflow: Airflow, run: Seen) -> None:
    rows = rows_of(airflow.data / "out" / "2026-01-01")
    assert sorted(row["id"] for row in rows) == [0, 1, 2]


def test_the_tasks_links_open_its_report_and_the_history_server(airflow: Airflow, result: dict[str, object]) -> None:
    actual = airflow.xcoms("small_scan")
    assert actual["scan", "_link_PushdownReportLink"].startswith("/pushdown/report/small_scan/scan?run_id=")
    page = f"http://history.example:18080/history/{result['application_id']}/"
    assert actual["scan", "_link_SparkApplicationLink"] == page


def test_the_result_reports_the_pushed_conjuncts(result: dict[str, object], airflow: Airflow) -> None:
    assert result["rows"] == 3
    assert result["error"] is None
    assert result["output"] == str(airflow.data / "out" / "2026-01-01")
    source = result["sources"]["source"]  # type: ignore[index]
    assert source["reader"] == "pushdown"
    assert source["pushed"] == ["event.type = 'needle'"]
    assert source["rows_returned"] == 3
    assert source["rows_decoded"] < 300


def test_the_log_has_the_report_in_a_collapsed_group(airflow: Airflow, run: Seen) -> None:
    log = airflow.log()
    start, end = log.index("::group::Pushdown report"), log.rindex("::endgroup::")
    assert "event.type = 'needle'" in log[start:end]


def test_the_process_observer_recorded_spark_submit(run: Seen) -> None:
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in run.command_lines)
    assert any("pushdown_spark/job.py" in line for line in run.command_lines)
    assert run.environments


@pytest.mark.parametrize("secret", [SECRET, TOKEN, "AKIARECOGNISABLE"])
def test_no_secret_is_on_a_command_line(secret: str, run: Seen) -> None:
    assert [line for line in run.command_lines if secret in line] == []


@pytest.mark.parametrize("secret", [SECRET, TOKEN, "AKIARECOGNISABLE"])
def test_no_process_of_the_job_inherits_secrets_or_airflow_variables(secret: str, run: Seen) -> None:
    for environment in run.environments.values():
        assert secret not in environment.values()
        assert secret not in " ".join(environment.values())
        assert [name for name in environment if name.startswith("AIRFLOW_")] == []


@pytest.mark.parametrize("secret", [SECRET, "AKIARECOGNISABLE"])
def test_no_secret_of_the_connection_is_in_log_xcom_or_rendered_fields(
    secret: str, airflow: Airflow, result: dict[str, object]
) -> None:
    assert secret not in airflow.log()
    assert secret not in json.dumps(result)
    assert secret.encode() not in airflow.database.read_bytes()


def test_a_token_of_the_conf_is_masked_in_log_and_rendered_fields(airflow: Airflow, run: Seen) -> None:
    assert TOKEN not in airflow.log()
    assert TOKEN.encode() not in airflow.database.read_bytes()


def test_the_temporary_directory_has_no_files_of_the_job(airflow: Airflow, run: Seen) -> None:
    specs = {word for line in run.command_lines for word in line.split("\0") if word.endswith("spec.json")}
    assert specs
    assert [spec for spec in specs if Path(spec).parent.exists()] == []


class Flight(NamedTuple):
    """The distinguishing values of a flight in the small ORC files."""

    number: int
    month: int
    day: int
    tailnum: str

    @property
    def line(self) -> str:
        """The flight as a line of the demo's CSV files."""
        date = f"2013-{self.month:02}-{self.day:02}"
        return f"2013,{self.month},{self.day},,,,,,1,AA,{self.number},{self.tailnum},JFK,BOS,,,,,{date}T05:00:00Z\n"


FLIGHTS = [
    Flight(
        number,
        month=5 + number // 1000,
        day=1 + number % 1000 // 40,
        tailnum=NEEDLE if number % 400 == 7 else RARE if number in (1203, 1204) else f"T{number}",
    )
    for number in range(4000)
]
"""Four months of a thousand flights: of the needle there are ten, of the rare aircraft two, of all others one."""


@pytest.fixture(scope="module")
def orc_run(airflow: Airflow) -> Path:
    """Run `dags/flights_orc.py` over a few flights, and return the demo's home."""
    demo = airflow.data / "demo"
    folder = demo / "data" / "flights_csv" / "2013" / "all"
    folder.mkdir(parents=True)
    (folder / "flights.csv").write_text("".join([HEADER, "\n", *(flight.line for flight in FLIGHTS)]), encoding="utf-8")
    process = airflow.start(
        *("dags", "test", "flights_orc", "2026-01-01"),
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_PUSHDOWN_DEMO_DIR=str(demo),
    )
    assert process.wait() == 0, airflow.log()
    return demo / "output" / "2026-01-01"


@pytest.mark.nightly
def test_orc_files_that_one_task_writes_are_read_lazily_by_the_next(orc_run: Path) -> None:
    in_the_week = [
        flight.number for flight in FLIGHTS if flight.tailnum == NEEDLE and flight.month == 7 and flight.day < 8
    ]
    assert [row["flight"] for row in rows_of(orc_run / "needle_orc")] == in_the_week == [2007]
    assert sorted(row["flight"] for row in rows_of(orc_run / "rarely_seen_orc")) == [1203, 1204]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "fate"), [("needle", "pruned by statistics"), ("rarely_seen", "pruned by bloom filter")]
)
def test_row_groups_of_orc_files_without_a_match_are_not_decoded(
    task: str, fate: str, airflow: Airflow, orc_run: Path
) -> None:
    source = airflow.results("flights_orc")[task]["sources"]["source"]
    assert source["reader"] == "pushdown"
    assert source["residual"] == []
    groups = source["units"]["row groups"]
    assert groups["total"] == 4
    assert groups[fate] > 1
    assert groups["select columns read"] == 1
    assert source["rows_decoded"] < len(FLIGHTS)
    assert sum(source["bytes_by_purpose"].values()) == source["bytes_read"]


WRITE_AVRO = """
import json, sys
from contextlib import ExitStack
from pathlib import Path
from demo.avro_flights import AvroFlights
with ExitStack() as stack:
    flights = AvroFlights(stack, Path(sys.argv[1]))
    for flight in json.load(sys.stdin):
        flights.write(flight, flight["time_hour"])
"""


@pytest.fixture(scope="module")
def avro_run(airflow: Airflow, spark_python: str) -> Path:
    """Run `dags/flights_avro.py` over a few flights, and return the demo's home."""
    demo = airflow.data / "demo-avro"
    flights = [
        {
            **{"year": 2013, "month": flight.month, "day": flight.day, "carrier": "AA", "flight": flight.number},
            "time_hour": f"2013-{flight.month:02}-{flight.day:02}T05:00:00+00:00",
            "tailnum": flight.tailnum,
            "route": {"origin": "JFK", "dest": "HDN" if flight.number % 100 == 3 else "BOS", "distance": 187},
        }
        for flight in FLIGHTS
    ]
    subprocess.run(
        [spark_python, "-c", WRITE_AVRO, str(demo / "data" / "flights_avro")],
        input=json.dumps(flights).encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    process = airflow.start(
        *("dags", "test", "flights_avro", "2026-01-01"),
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_PUSHDOWN_DEMO_DIR=str(demo),
    )
    assert process.wait() == 0, airflow.log()
    return demo / "output" / "2026-01-01"


@pytest.mark.nightly
def test_avro_files_are_scanned_without_a_jar(airflow: Airflow, avro_run: Path) -> None:
    expected = [flight.number for flight in FLIGHTS if flight.tailnum == NEEDLE and flight.month == 7]
    assert sorted(row["flight"] for row in rows_of(avro_run / "needle_avro")) == expected
    rare = rows_of(avro_run / "rarely_seen_avro")
    assert sorted((row["flight"], row["filename"]) for row in rare) == [
        (1203, "quarter-2.avro"),
        (1204, "quarter-2.avro"),
    ]
    nested = rows_of(avro_run / "nested_avro")
    assert len(nested) == 10
    assert {row["route"]["dest"] for row in nested} == {"HDN"}


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["needle", "rarely_seen"])
def test_avro_blocks_without_the_bytes_of_an_aircraft_are_not_decoded(
    task: str, airflow: Airflow, avro_run: Path
) -> None:
    source = airflow.results("flights_avro")[task]["sources"]["source"]
    assert source["reader"] == "pushdown"
    blocks = source["units"]["blocks"]
    assert blocks["skipped by bytes"] > 0
    assert blocks["skipped by bytes"] + blocks["filter columns decoded"] == blocks["total"]
    assert source["rows_decoded"] < len(FLIGHTS)
