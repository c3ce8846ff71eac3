"""`airflow dags test` of `dags/flights_join.py`: rows, pushed conjuncts of each source, and join order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from airflow_cli import Airflow  # type: ignore[import-not-found]
from test_dags_test import HEADER  # type: ignore[import-not-found]

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[2]
DESTINATIONS = {"ORD": ("Chicago", -6), "BOS": ("Boston", -5), "MSP": ("Minneapolis", -6), "DEN": ("Denver", -7)}
CARRIERS = {"AA": "American", "UA": "United", "DL": "Delta"}
PLANES = {f"N{number:03}": "CESSNA" if number in (7, 77, 777) else "BOEING" for number in range(900)}


def flight(number: int) -> tuple[int, int, str, str, str]:
    """Return a flight: month, delay, carrier, tail number, destination."""
    return (
        number // 10_000 + 1,
        number % 97 - 20,
        list(CARRIERS)[number % 3],
        f"N{number * 7 % 1000:03}",
        list(DESTINATIONS)[number // 3 % 4],
    )


def line(number: int) -> str:
    """Return a flight as a line of the demo's CSV files."""
    month, delay, carrier, tailnum, dest = flight(number)
    return (
        f"2013,{month},1,517,515,2,830,819,{delay},{carrier},{number},{tailnum},JFK,{dest},227,1400,5,15,"
        f"2013-{month:02}-01T10:00:00Z\n"
    )


FLIGHTS = 110_000


def expected() -> list[dict[str, Any]]:
    """Return the rows of the query, computed without Spark."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number in range(FLIGHTS):
        month, delay, carrier, tailnum, dest = flight(number)
        name, zone = DESTINATIONS[dest]
        if 7 <= month <= 9 and PLANES.get(tailnum) == "CESSNA" and zone == -6:
            groups.setdefault((CARRIERS[carrier], name), []).append(delay)
    return [
        {"airline": airline, "airport": airport, "flights": len(delays), "latest": max(delays)}
        for (airline, airport), delays in groups.items()
    ]


@pytest.fixture(scope="module")
def join_run(airflow: Airflow) -> Path:
    """Run the DAG and return the demo's home."""
    demo = airflow.data / "demo-join"
    data = demo / "data"
    (data / "flights_csv" / "2013" / "all").mkdir(parents=True)
    (data / "related").mkdir()
    text = "".join([HEADER, "\n", *map(line, range(FLIGHTS))])
    (data / "flights_csv" / "2013" / "all" / "flights.csv").write_text(text)
    related = {
        "airlines": ["carrier,name", *(f"{code},{name}" for code, name in CARRIERS.items())],
        "airports": ["faa,name,lat,lon,alt,tz,dst,tzone"]
        + [f"{code},{name},41.1,-80.6,1044,{zone},A,America/New_York" for code, (name, zone) in DESTINATIONS.items()],
        "planes": ["tailnum,year,type,manufacturer,model,engines,seats,speed,engine"]
        + [f"{tailnum},2004,Fixed wing multi engine,{make},M,2,55,,Turbo-fan" for tailnum, make in PLANES.items()],
    }
    for name, lines in related.items():
        (data / "related" / f"{name}.csv").write_text("\n".join([*lines, ""]))
    process = airflow.start(
        *("dags", "test", "flights_join", "2026-01-01"),
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_PUSHDOWN_DEMO_DIR=str(demo),
    )
    assert process.wait() == 0, airflow.log()
    return demo / "output" / "2026-01-01" / "cessnas"


def test_the_output_has_the_rows_of_the_query(join_run: Path) -> None:
    rows = parquet.read_table(join_run).to_pylist()
    as_counts = [Counter(tuple(sorted(row.items())) for row in actual) for actual in (rows, expected())]
    assert as_counts[0] == as_counts[1]
    assert [row["flights"] for row in rows] == sorted((row["flights"] for row in rows), reverse=True)


def test_each_source_gets_its_columns_and_conjuncts(airflow: Airflow, join_run: Path) -> None:
    sources = airflow.results("flights_join")["cessnas"]["sources"]
    assert sources["planes"]["pushed"] == ["manufacturer = 'CESSNA'"]
    assert sources["airports"]["pushed"] == ["tz = -6"]
    assert "month BETWEEN 7 AND 9" in [each["sql"] for each in sources["flights"]["conjuncts"]]
    assert set(sources["flights"]["columns"]) == {"month", "arr_delay", "carrier", "tailnum", "dest"}
    pushdown_sources = {name for name, source in sources.items() if source["reader"] == "pushdown"}
    assert pushdown_sources == {"flights", "airports", "planes"}, "nothing is asked of the airlines"


def test_keys_of_aircraft_become_a_predicate_on_flights(airflow: Airflow, join_run: Path) -> None:
    source = airflow.results("flights_join")["cessnas"]["sources"]["flights"]
    assert "tailnum IN ('N007', 'N077', 'N777')" in source["pushed"]
    assert source["rows_decoded"] < FLIGHTS / 10


def test_joins_are_reordered_and_the_log_shows_both_orders(airflow: Airflow, join_run: Path) -> None:
    (join,) = airflow.results("flights_join")["cessnas"]["joins"]
    assert join["reordered"]
    assert join["before"] != join["after"]
    assert join["after"]["actual"] == sum(row["flights"] for row in expected())
    log = airflow.log()
    assert "Reordered: about" in log[log.index("::group::Pushdown report") :]
