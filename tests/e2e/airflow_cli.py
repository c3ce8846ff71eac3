"""Airflow's command line with a home of its own, and the secrets that tests look for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SECRET = "recognisable-secret-0f3c"
TOKEN = "recognisable-token-91ab"


@dataclass(frozen=True)
class Airflow:
    """A home of Airflow, and the data its DAGs read and write."""

    environment: dict[str, str]
    home: Path
    data: Path

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a command of Airflow's command line, with more variables; its output goes to `log` in the home."""
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
