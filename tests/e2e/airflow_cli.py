"""Airflow's command line with a separate home, and the secrets that tests search for."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "recognisable-secret-0f3c"
TOKEN = "recognisable-token-91ab"


@dataclass(frozen=True)
class Airflow:
    """A home of Airflow, and the data that its DAGs read and write."""

    environment: dict[str, str]
    home: Path
    data: Path

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a command of Airflow with additional variables. Its output goes to `log` in the home."""
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env={**self.environment, **variables},
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return (self.home / "log").read_text(encoding="utf-8", errors="replace")

    def xcoms(self, dag_id: str) -> dict[tuple[str, str], Any]:
        """Return the XComs of a DAG's tasks, by task and key."""
        with closing(sqlite3.connect(self.database)) as database:
            query = "SELECT task_id, key, value FROM xcom WHERE dag_id = ?"
            actual = {(task, key): json.loads(value) for task, key, value in database.execute(query, (dag_id,))}
        # Airflow serializes strings as JSON, including strings that are JSON.
        return {
            place: json.loads(value) if isinstance(value, str) and value.startswith(("{", '"')) else value
            for place, value in actual.items()
        }

    def results(self, dag_id: str) -> dict[str, dict[str, Any]]:
        """Return the return values of a DAG's tasks."""
        return {task: value for (task, key), value in self.xcoms(dag_id).items() if key == "return_value"}
