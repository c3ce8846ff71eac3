"""An Airflow with its own home and database, controlled by its command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from airflow_cli import SECRET, TOKEN, Airflow  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, spark_python: str) -> Iterator[Airflow]:
    home = tmp_path_factory.mktemp("airflow")
    data = tmp_path_factory.mktemp("data")
    (data / "rows").mkdir()
    for number in range(3):
        rows = ({"id": n, "event": {"type": "needle" if n == number else "hay"}} for n in range(100))
        (data / "rows" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment = {
        **variables,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "tests" / "e2e" / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {
                "conn_type": "spark",
                "host": "local[1]",
                "extra": {"deploy-mode": "client", "history-server": "http://history.example:18080"},
            }
        ),
        "AIRFLOW_CONN_STORE": json.dumps({"conn_type": "aws", "login": "AKIARECOGNISABLE", "password": SECRET}),
        "AIRFLOW_VAR_E2E_TOKEN": TOKEN,
        "AIRFLOW_PUSHDOWN_SPARK_PYTHON": spark_python,
        "PYTHONPATH": str(ROOT),
        "E2E_DATA": str(data),
        "E2E_HOSTILE": str(ROOT / "tests" / "e2e" / "hostile"),
    }
    airflow = Airflow(environment, home, data)
    assert airflow.start("db", "migrate").wait() == 0, airflow.log()
    yield airflow
    for process in psutil.process_iter():
        if _belongs_to(process, data):
            process.kill()


def _belongs_to(process: psutil.Process, data: Path) -> bool:
    """Return whether a process was started for this data. Failed kill tests must not leave processes."""
    try:
        return process.environ().get("E2E_DATA") == str(data)
    except psutil.Error:
        return False
