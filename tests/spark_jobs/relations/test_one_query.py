"""One query joins an Iceberg table, a Hive table on HDFS, a JSON folder on S3 and a PostgreSQL table.

It needs a release of Spark for which Iceberg has a connector. `make connectors` installs one of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hdfs_server
import pytest
from cloud_servers import S3Server, run_server
from databases import Server

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("one_query.py")
SHOPS = [[n, f"{city} {n}"] for n, city in enumerate(("Amsterdam", "Berlin", "Vienna", "Aachen", "Linz") * 10)]
KINDS = ("view", "buy", "view", "view")

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", autouse=True)
def _settings_of_the_session() -> None:
    """Replace the check of the session's settings, because the other tests of connectors add some."""


@pytest.fixture
def shops(postgresql_server: Server) -> str:
    """Create the table of shops and return its name."""
    values = ", ".join(f"({number}, '{city}')" for number, city in SHOPS)
    postgresql_server.execute(
        'CREATE TABLE IF NOT EXISTS one_query_shops (id INT PRIMARY KEY, city TEXT COLLATE "C")',
        "DELETE FROM one_query_shops",
        f"INSERT INTO one_query_shops VALUES {values}",
        "ANALYZE one_query_shops",
    )
    return "one_query_shops"


def write_clicks(directory: Path) -> None:
    """Write three clicks for each order."""
    directory.mkdir()
    for number in range(4):
        lines = (
            json.dumps({"order_id": n // 3, "at": {"page": f"/p/{n % 11}", "kind": KINDS[n % 4]}}) + "\n"
            for n in range(number * 15_000, (number + 1) * 15_000)
        )
        (directory / f"{number}.json").write_text("".join(lines), encoding="utf-8")


def test_one_query_joins_four_stores(tmp_path: Path, spark_python: str, postgresql_server: Server, shops: str) -> None:
    if "iceberg" not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        pytest.skip("this Spark has no connector for Iceberg: `make connectors` brings it")
    (newest,) = (Path(spark_python).parents[1] / "lib").glob("python3.*/site-packages/pyspark")
    for name in ("hdfs", "store", "work"):
        (tmp_path / name).mkdir()
    with hdfs_server.run_server(tmp_path / "hdfs", newest) as hdfs, run_server(S3Server, tmp_path / "store") as store:
        write_clicks(tmp_path / "work" / "clicks")
        for file in (tmp_path / "work" / "clicks").iterdir():
            store.put(f"data/{file.name}", file.read_bytes())
        places = {
            "directory": str(tmp_path / "work"),
            "hdfs": hdfs,
            "s3_port": store.port,
            "connection": postgresql_server.connection(),
            "shops": SHOPS,
            "table": shops,
        }
        paths = (ROOT, ROOT / "spark_jobs", ROOT / "tests", ROOT / "tests" / "spark_jobs")
        program = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(places)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert program.returncode == 0, program.stderr[-5_000:]
    result = json.loads(program.stdout.splitlines()[-1])
    assert result["expected"]
    for actual in result["found"]:
        assert actual["rows"] == result["expected"]
        _check_reports(actual["reports"])


def _check_reports(reports: dict[str, dict[str, Any]]) -> None:
    """Check that the conjuncts about each source reached it, and that the report says so."""
    orders, users, clicks, shops = (reports[name] for name in ("orders", "users", "clicks", "shops"))
    assert {"day = 2", "amount > 900"} <= set(orders["pushed"])
    assert orders["skipped"]["files"] > 0
    assert {"country = 'NL'", "id > 110"} <= set(users["pushed"])
    assert clicks["reader"] == "pushdown"
    assert "at.kind = 'buy'" in clicks["pushed"]
    assert any("LIKE" in statement for statement in shops["statements"])
