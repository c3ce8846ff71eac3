"""Airflow's services of a run: api-server, scheduler, dag-processor and triggerer, with a PostgreSQL database."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.api import AirflowApi
from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for

USER = "e2e"
_START_SECONDS = 300.0
_SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")


@dataclass
class AirflowServices:
    """Airflow in a directory `run`. `settings` are further environment variables, such as connections.

    `python` is the Python of the environment that Airflow is installed in.
    """

    programs: Programs
    run: Path
    database_url: str
    bundles: Mapping[str, Path]
    settings: Mapping[str, str]
    port: int = field(default_factory=free_port)
    python: str = sys.executable
    _password: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    _environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> AirflowApi:
        """Create the database, start the services and wait until they are healthy. Return the API."""
        self._environment = {**self._own_settings(), **self.settings}
        self.airflow("airflow-migrate", "db", "migrate")
        for name in _SERVICES:
            self.start_service(name)
        api = AirflowApi(self.base_url, USER, self._password)
        wait_for("Airflow's services", api.is_healthy, _START_SECONDS, self.programs.check)
        return api

    def start_service(self, name: str, **settings: str) -> None:
        """Start one service, for example one that was killed. `settings` are added to its environment."""
        arguments = ("--port", str(self.port), "--host", HOST, "--workers", "1") if name == "api-server" else ()
        self.programs.start(f"airflow-{name}", self._airflow(name, *arguments), **{**self._environment, **settings})

    def airflow(self, name: str, *arguments: str) -> None:
        """Run a command of Airflow to its end, with the settings of the services."""
        self.programs.run(name, self._airflow(*arguments), **self._environment)

    @property
    def base_url(self) -> str:
        """The URL of the API."""
        return f"http://{HOST}:{self.port}"

    def _own_settings(self) -> dict[str, str]:
        passwords = self.run / "passwords.json"
        handle = os.open(passwords, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({USER: self._password}, file)
        bundles = [
            {
                "name": name,
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(path), "refresh_interval": 5},
            }
            for name, path in self.bundles.items()
        ]
        return {
            "AIRFLOW_HOME": str(self.run / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database_url,
            "AIRFLOW__API__BASE_URL": self.base_url,
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            # The DAGs do not change during the run, and importing them again is slow.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            # On a busy machine, a heartbeat may be minutes late, and so may the import of a DAG. Ended services are
            # detected by their processes.
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "300",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
            # Tasks get their tokens when they are queued, and two run at a time.
            "AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME": "3600",
        }

    def _airflow(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "airflow", *arguments]
